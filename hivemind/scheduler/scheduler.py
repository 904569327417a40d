"""The scheduler: told what happened and when, it says who may fly.

No sockets, no clock, no randomness of its own: `now` is a monotonic time in seconds that never goes back, `draw` gives
uniform numbers in [0, 1). After any call, the caller looks at :attr:`Scheduler.decisions` (tickets that were granted,
turned away or are to be ended without its asking), hands on :attr:`Scheduler.events`, and calls
:meth:`Scheduler.advance` no later than :meth:`Scheduler.wake_at`. The live proxy, the simulator and the tests drive the
same machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hivemind.scheduler import events as ev
from hivemind.scheduler import greeting
from hivemind.scheduler.admission import refuse
from hivemind.scheduler.admission.feedback import Feedback
from hivemind.scheduler.admission.gate import Gate
from hivemind.scheduler.admission.retry import next_attempt_at
from hivemind.scheduler.agents import Agents
from hivemind.scheduler.commands import Command
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.lanes import Lanes
from hivemind.scheduler.ledger import budget, ceilings
from hivemind.scheduler.ledger.accounts import Account, Budget
from hivemind.scheduler.operator.operate import carry_out, end_boost
from hivemind.scheduler.operator.tune import Tuned
from hivemind.scheduler.tasks.graph import Task, Tasks
from hivemind.scheduler.tasks.task_agents import asked
from hivemind.scheduler.ticket import Agent, Refusal, Ticket, TicketState
from hivemind.scheduler.timers import Timer, Timers
from hivemind.scheduler.types import Failure, FailureKind, Price, Request, Usage, Utilisation, WindowReading


class Scheduler:
    """Lanes, agents and tickets, and the rules between them.

    A decision of a ticket that flies and has a refusal means that its attempt is to be ended: the caller closes the
    connection upstream, calls :meth:`abandon` with the usage so far, and tells the client why, or, where a part of the
    answer is out already, cuts it off.
    """

    def __init__(self, config: SchedulerConfig, draw: Callable[[], float]) -> None:
        self.config = config
        self.lanes = Lanes()
        self.tuned = Tuned()
        self.timers = Timers()
        self.agents = Agents(config)
        self.pool = Account(None)
        """What all agents together have used, and may."""
        self.pool.budget = Budget(config.budget.pool_tokens, config.budget.pool_dollars, config.budget.per)
        self.pool_budgeted = False
        """Somebody decided about the pool's budget; else the settings hold."""
        self.price: Price | None = None
        """None: prices aren't known yet; see :func:`.budget.price_by`."""
        self.unpriced: list[tuple[str, str, str, Usage]] = []
        """Agent, profile, model and usage, while there are no prices."""
        self.tasks = Tasks()
        self.feedback = Feedback(config.feedback)
        self.unsaved: set[str] = set()
        """Agents of which something changed that a restart must know; see :mod:`.saved`."""
        self.unsaved_tasks: dict[str, Task | None] = {}
        """Likewise tasks; None: it is forgotten."""
        self.paused = False
        """Nothing more is granted until an operator resumes."""
        self.draining = False
        """Nothing more is taken or granted, until an operator says otherwise."""
        self.events: list[ev.Event] = []
        """What happened since the caller last took them."""
        self.decisions: list[Ticket] = []
        """Tickets that were granted, turned away, or are to be ended, since the caller last took them."""
        self._draw = draw
        self._numbers = 0
        self._grants = 0
        self._totals: dict[str, Gate] = {}
        """Of each upstream with a limit of its own: the gate that its lanes share."""

    # --- What happened -------------------------------------------------------------------------------------------

    def open_lane(self, now: float, key: str, config: LaneConfig) -> Lane:
        """Make the lane known; does nothing when it is."""
        lane = self.lanes.get(key)
        if lane is None:
            self.lanes.make_room()
            config = self.tuned.begin(config)
            lane = self.lanes[key] = Lane(key, config, self.config, self.events, self._total_of(config))
            self.events.append(ev.LaneOpened(now, key, config.upstream, config.provider, lane.config))
        return lane

    def arrive(self, now: float, request: Request) -> Ticket:
        """A request came in. The ticket may already fly, wait, or be turned away (see its state and refusal)."""
        lane = self.lanes[request.lane]
        lane.used_at = now
        crowded = self.agents.too_many_with(request.agent, request.parent, now)
        for name in self.agents.reap(now):
            self._forget_agent(name)
        agent = Agent(request.agent, now) if crowded else self.meet(request.agent, now, request.parent)
        self._numbers += 1
        ticket = Ticket(self._numbers, request, agent, lane, now)
        lane.estimators.guess(ticket)
        wait_s = self.config.queue.max_wait_s
        if request.patience_s is not None:
            wait_s = min(wait_s, request.patience_s)
        ticket.expires_at = now + wait_s
        agent.tickets[ticket.id] = ticket
        agent.last_seen = now
        agent.ended = False
        lane.retry_budget.earn()
        self.events.append(ticket.arrived(now))
        lane.poll_circuit(now)
        refusal = refuse.TOO_MANY_AGENTS if crowded else refuse.on_arrival(self, ticket, now)
        if refusal is None and self.tasks:
            asked(self, agent, now)
        if refusal is None and self._open_road(lane, ticket, now):
            self._grant(ticket, now)
            return ticket
        refusal = refusal or refuse.full(self)
        if refusal is not None:
            self.refuse(ticket, refusal, now)
        else:
            self._enqueue(ticket, now)
            self._pump(lane, now)
            if ticket.state is TicketState.IN_FLIGHT:
                self.decisions.remove(ticket)
        return ticket

    def meet(self, name: str, now: float, parent: str | None = None) -> Agent:
        """The agent of this name, known from now on."""
        return greeting.meet(self, name, now, parent)

    def headers(
        self, now: float, ticket: Ticket, readings: tuple[WindowReading, ...], plan: tuple[Utilisation, ...] = ()
    ) -> None:
        """What a reply's headers said of the rate windows; call before the attempt's end is reported."""
        ticket.lane.heard(now, ticket, readings, plan)

    def first_content(self, now: float, ticket: Ticket, so_far: Usage | None = None) -> None:
        """The first content came: a latency sample, and proof that the upstream works; `so_far` as in
        :meth:`progress`."""
        lane = ticket.lane
        ticket.content_started = True
        self._note(ticket, so_far)
        began, headed_at = ticket.granted_at, ticket.headed_at
        ttft_s, headed_s = now - began, None if headed_at is None else headed_at - began
        self.events.append(ev.FirstContent(now, ticket.id, ticket.agent.name, lane.key, ttft_s, headed_s))
        lane.succeeded(now, ticket, ttft_s)
        self._pump(lane, now)

    def progress(self, now: float, ticket: Ticket, output_tokens: int, so_far: Usage | None = None) -> None:
        """A stream goes on; `so_far` is what is known of its usage, which counts should the proxy die."""
        self._note(ticket, so_far)
        self.events.append(ev.Progress(now, ticket.id, ticket.agent.name, ticket.lane.key, output_tokens))

    def _note(self, ticket: Ticket, so_far: Usage | None) -> None:
        if so_far is not None:
            ticket.so_far = so_far
            if so_far.weighted > ticket.shared:
                ticket.lane.queue.grow(ticket, so_far.weighted)
            self.unsaved.add(ticket.agent.name)

    def succeed(self, now: float, ticket: Ticket, status: int, usage: Usage | None) -> None:
        """The answer is complete."""
        if not ticket.content_started:
            self.first_content(now, ticket)
        self._land(ticket, now, usage)
        if usage is not None:
            ticket.lane.estimators.learn(ticket.request, usage)
        self._forget(ticket)
        self.events.append(ticket.finished(now, status, usage))
        self._move_on(ticket, now)

    def fail(self, now: float, ticket: Ticket, failure: Failure, usage: Usage | None = None) -> float | None:
        """The attempt failed.

        Returns the moment from which it may be tried again (the ticket waits for it by itself), or None when the
        failure is the agent's to see and the ticket is done.
        """
        lane = ticket.lane
        opened = lane.failed(now, ticket, failure)
        self._rearm(lane, now)
        if opened:
            refuse.behind_circuit(self, lane, now)
        self._land(ticket, now, usage, failed=True, sent=failure.kind is not FailureKind.CONNECT)
        final = self.draining or ticket.refusal is not None
        retry_at = None if final else next_attempt_at(ticket, failure, self.config.retry, now, self._draw)
        self.events.append(ticket.failed(now, failure, None if retry_at is None else retry_at - now, usage))
        if retry_at is None:
            self._forget(ticket)
        else:
            self._wait_again(ticket, retry_at, now)
        self._move_on(ticket, now)
        return retry_at

    def abandon(self, now: float, ticket: Ticket, usage: Usage | None = None, *, sent: bool = True) -> None:
        """The client left, or the attempt was ended. `sent` False: nothing of it had reached the upstream."""
        if ticket.state is TicketState.DONE:
            return
        flying = ticket.state is TicketState.IN_FLIGHT
        if flying:
            self._land(ticket, now, usage, failed=True, sent=sent)
        else:
            self._leave_queue(ticket)
        self._forget(ticket)
        self.events.append(ev.Abandoned(now, ticket.id, ticket.agent.name, ticket.lane.key, flying, usage))
        self._move_on(ticket, now)

    def apply(self, now: float, command: Command, who: str) -> None:
        """Carry out an operator's command.

        Raises: Rejected, with what was wrong and what would be right.
        """
        before = len(self.events)
        carried_out = carry_out(self, command, who, now)
        # Ahead of what it brought about.
        self.events.insert(before, carried_out)
        for lane in self.lanes.values():
            lane.poll_circuit(now)
            refuse.behind_circuit(self, lane, now)
            self._rearm(lane, now)
            self._pump(lane, now)

    def drain(self, now: float) -> None:
        """Grant nothing more; turn away whoever waits."""
        self.draining = True
        for agent in list(self.agents.values()):
            self.turn_away(agent, refuse.DRAINING, now)

    def turn_away(self, agent: Agent, refusal: Refusal, now: float) -> None:
        """Refuse whatever the agent has waiting."""
        for ticket in [each for each in agent.tickets.values() if each.waiting]:
            self.refuse(ticket, refusal, now)

    def let_go(self, agent: Agent, now: float) -> None:
        """Something about the agent changed: see who may fly now wherever it waits."""
        for lane in dict.fromkeys(ticket.lane for ticket in agent.tickets.values()):
            self._pump(lane, now)

    def advance(self, now: float) -> None:
        """Let time act."""
        for at, kind, subject in self.timers.due(now):
            if isinstance(subject, Lane):
                if subject.wake_at == at:
                    subject.wake_at = math.inf
                    self._wake_lane(subject, now)
            elif isinstance(subject, Agent):
                if subject.boosted_until == at:
                    end_boost(self, subject, now)
                    self.let_go(subject, now)
            elif kind is Timer.DUE:
                if subject.state is TicketState.BACKING_OFF:
                    del subject.lane.retries[subject.id]
                    self._enqueue(subject, now)
                    self._pump(subject.lane, now)
            elif subject.waiting:
                self._expire(subject, now)

    def wake_at(self) -> float | None:
        """When to call :meth:`advance` at the latest; None: when something happens."""
        return self.timers.next_at

    def sample(self, now: float) -> ev.Sampled:
        """Gauges of every lane, for people."""
        self.feedback.review(self, now)
        lanes = tuple([lane.state(now, self.paused) for lane in self.lanes.values()])
        return ev.Sampled(now, lanes, ceilings.states(self))

    # --- Who may fly ---------------------------------------------------------------------------------------------

    def _open_road(self, lane: Lane, ticket: Ticket, now: float) -> bool:
        """Nobody waits and nothing holds: the queue needn't be asked."""
        agent = ticket.agent
        return (
            not (lane.queue.waiting or self.paused or agent.held)
            and lane.closed_until(now) is None
            and lane.window_delay_s(ticket, now) <= 0
            and (not agent.limits or budget.has_room(self, ticket))
        )

    def _total_of(self, config: LaneConfig) -> Gate | None:
        most = config.max_concurrency_per_upstream
        if not most or not self.config.admission:
            return None
        total = self._totals.get(config.upstream)
        if total is None:
            total = self._totals[config.upstream] = Gate(float(most))
        return total

    def _pump(self, lane: Lane, now: float) -> None:
        """Grant as many waiting tickets as now fit: the lane's, and those of the lanes that share its upstream's gate.

        Of these the lane with the fewest in flight is next, among equals the one that was granted something longest
        ago, so that none has more of the upstream than another that wants it.
        """
        if lane.total is None:
            while self._grant_next(lane, now):
                pass
            return
        sharing = [each for each in self.lanes.values() if each.total is lane.total and each.queue.waiting]
        while sharing:
            first = min(sharing, key=lambda each: (each.gate.active, each.last_grant))
            if not self._grant_next(first, now):
                sharing.remove(first)

    def _grant_next(self, lane: Lane, now: float) -> bool:
        """Grant the lane's next waiting ticket, if it fits now."""
        while lane.queue.waiting and not (self.paused or self.draining):
            until = lane.closed_until(now)
            if until is not None:
                self._set_wake(lane, until)
                return False
            ticket, delay_s = lane.queue.pick(now, lambda t: lane.window_delay_s(t, now), lane.vacant)
            if ticket is None:
                self._set_wake(lane, now + delay_s)
                return False
            if ticket.agent.limits and not budget.has_room(self, ticket):
                continue  # its agent is held now, and the others are asked
            ticket.state = TicketState.IN_FLIGHT
            lane.queue.drop(ticket)
            self._grant(ticket, now)
            self.decisions.append(ticket)
            return True
        return False

    def _move_on(self, ticket: Ticket, now: float) -> None:
        """An attempt has ended."""
        if ticket.agent.limits:
            budget.weigh(self, ticket.agent, now)
        self._pump(ticket.lane, now)

    def _grant(self, ticket: Ticket, now: float) -> None:
        ticket.state = TicketState.IN_FLIGHT
        ticket.attempts += 1
        ticket.granted_at, ticket.headed_at = now, None
        agent = ticket.agent
        agent.flying += 1
        budget.reserve(self, ticket)
        ticket.lane.enter(ticket, now)
        self._grants += 1
        ticket.lane.last_grant = self._grants
        ticket.lane.queue.served(ticket, now)
        self.events.append(ticket.granted(now))

    def _land(
        self, ticket: Ticket, now: float, usage: Usage | None, *, failed: bool = False, sent: bool = True
    ) -> None:
        """Give back the slot and settle what was reserved."""
        lane = ticket.lane
        lane.leave(ticket, now)
        agent = ticket.agent
        agent.flying -= 1
        agent.last_seen = now
        budget.settle(self, ticket, usage, now)
        self.feedback.landed(self, agent, usage, now)
        if ticket.reservation is not None:
            lane.allowance(ticket.request.family).settle(now, ticket.reservation, usage, sent=sent)
            ticket.reservation = None
        real = usage.weighted if usage is not None else 0.0 if failed else ticket.shared
        lane.queue.charge(ticket, real, now)

    def _enqueue(self, ticket: Ticket, now: float) -> None:
        ticket.state = TicketState.QUEUED
        ticket.queued_at = now
        ticket.lane.queue.push(ticket, now)
        self.timers.set(ticket.expires_at, Timer.EXPIRE, ticket)

    def _leave_queue(self, ticket: Ticket) -> None:
        queued, ticket.state = ticket.state is TicketState.QUEUED, TicketState.DONE
        if queued:
            ticket.lane.queue.drop(ticket)
        else:
            del ticket.lane.retries[ticket.id]

    def _forget(self, ticket: Ticket) -> None:
        ticket.state = TicketState.DONE
        ticket.agent.tickets.pop(ticket.id, None)

    # --- Failure -------------------------------------------------------------------------------------------------

    def _wait_again(self, ticket: Ticket, retry_at: float, now: float) -> None:
        ticket.front = True
        if retry_at <= max(now, ticket.lane.parked_until):
            self._enqueue(ticket, now)
            return
        ticket.state = TicketState.BACKING_OFF
        ticket.retry_at = retry_at
        ticket.lane.retries[ticket.id] = ticket
        self.timers.set(retry_at, Timer.DUE, ticket)
        self.timers.set(ticket.expires_at, Timer.EXPIRE, ticket)

    # --- Turning away --------------------------------------------------------------------------------------------

    def refuse(self, ticket: Ticket, refusal: Refusal, now: float) -> None:
        """Turn the ticket away, which waits or has just come."""
        if ticket.entry or ticket.state is TicketState.BACKING_OFF:
            self._leave_queue(ticket)
            self.decisions.append(ticket)
        ticket.refusal = refusal
        self._forget(ticket)
        self.events.append(ticket.refused(now, refusal))

    def _expire(self, ticket: Ticket, now: float) -> None:
        if now < ticket.expires_at:
            self.timers.set(ticket.expires_at, Timer.EXPIRE, ticket)
        else:
            self.refuse(ticket, refuse.WAIT_TOO_LONG, now)
            self._pump(ticket.lane, now)

    # --- Lanes and timers ----------------------------------------------------------------------------------------

    def _wake_lane(self, lane: Lane, now: float) -> None:
        lane.poll_circuit(now)
        lane.release_if_due(now)
        self._rearm(lane, now)
        self._pump(lane, now)

    def _rearm(self, lane: Lane, now: float) -> None:
        """Wake for the end of a pause or a cooldown even when nobody waits, so that people see it."""
        for at in (lane.parked_until, lane.circuit.reopens_at):
            if at is not None and at > now:
                self._set_wake(lane, at)

    def _set_wake(self, lane: Lane, at: float) -> None:
        if at < lane.wake_at:
            lane.wake_at = at
            self.timers.set(at, Timer.LANE, lane)

    def _forget_agent(self, name: str) -> None:
        for lane in self.lanes.values():
            lane.forget(name)
