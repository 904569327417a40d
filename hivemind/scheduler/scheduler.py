"""The scheduler: takes what happened and when, and decides which requests are sent, wait, are retried or refused.

No sockets, no clock, no randomness of its own: `now` is a monotonic time in seconds that never goes back, `draw` gives
uniform numbers in [0, 1). After any call, the caller looks at :attr:`Scheduler.decisions` (tickets that were granted,
refused or are to be ended without its asking), takes :attr:`Scheduler.events`, and calls :meth:`Scheduler.advance` no
later than :meth:`Scheduler.wake_at`. The live proxy, the simulator and the tests drive the same machine.

The paper's primitives: admission control (equation 1: :mod:`.admission.aimd`), rate-limit tracking (:mod:`.limits`),
AIMD backpressure (equation 2: :mod:`.admission.aimd`) with circuit breaking (equation 3: :mod:`.admission.circuit`),
token budgets (:mod:`.ledger`), the priority queue (:mod:`.admission.queue`) with dependencies (:mod:`.tasks`), and
transparent retry (equation 4: :mod:`.admission.retry`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler import persistence
from hivemind.scheduler.accounts import POOL, Account, Period, Spent
from hivemind.scheduler.admission.aimd import Gate
from hivemind.scheduler.admission.circuit import CircuitState
from hivemind.scheduler.admission.leasing import Leasing
from hivemind.scheduler.commands import Command
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.dispatcher import QUEUE_FULL, TOO_MANY_AGENTS, WAIT_TOO_LONG, Dispatcher
from hivemind.scheduler.explain import hold_of, lane_state
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.lease import LaneReport, Lease
from hivemind.scheduler.leases import lane_report, lease_changed, take_lease
from hivemind.scheduler.operator.operate import Operator
from hivemind.scheduler.shared_budgets import SharedBudgets
from hivemind.scheduler.tasks import SavedTask, Task
from hivemind.scheduler.ticket import FINAL_STATUS, Agent, Refusal, Ticket, TicketState
from hivemind.scheduler.types import Computed, Failure, FailureKind, Request, Usage, Utilisation, WindowReading
from hivemind.scheduler.work import UNASKED_S, Kind, Work, Works

_NEVER = math.inf


class Scheduler(Dispatcher):
    """A request's way from its arrival to its end, and everything that acts on all of them.

    A decision whose ticket is in flight and has a refusal means that its attempt is to be ended: the caller closes the
    connection upstream, calls :meth:`abandon` with the usage so far, and sends the client the reason or, if a part of
    the response was sent already, cuts it off.
    """

    def __init__(self, config: SchedulerConfig, draw: Callable[[], float]) -> None:
        super().__init__(config)
        self.pool: Account = self.ledger.pool
        self.sharing: SharedBudgets | None = None
        """None: budgets count what is used here alone."""
        self._operator = Operator(self)
        self._draw = draw
        self._numbers = 0
        self._sampled: tuple[str, ...] = ()
        """The lanes in the last sample of changes."""
        self.leasing = False
        """Other proxies use the same credentials: lanes that are opened from now on grant nothing without a lease."""
        self.works = Works()
        """What goes on after the replies that began it."""
        self._totals: dict[str, Gate] = {}
        """The gate that the lanes of an upstream share, where their number together is limited."""

    def open_lane(self, now: float, key: str, config: LaneConfig) -> Lane:
        """Make the lane known; does nothing when it is."""
        if (lane := self.lanes.get(key)) is not None:
            return lane
        config = self._operator.tuning.begin(config)
        self.lanes.make_room()
        most = config.max_concurrency_per_upstream if self.config.admission else 0
        total = self._totals.setdefault(config.upstream, Gate(float(most))) if most else None
        leasing = Leasing() if self.leasing else None
        lane = self.lanes[key] = Lane(key, config, self.config, self.events.append, total, leasing)
        self.events.append(ev.LaneOpened(now, key, config.upstream, config.provider, config))
        return lane

    def reconfigure(self, now: float, config: LaneConfig) -> None:
        """Have the lanes of this upstream go on by another configuration, because its server is known now; what an
        operator tuned stays."""
        config = self._operator.tuning.begin(config)
        for key, lane in self.lanes.items():
            if lane.config.upstream == config.upstream:
                lane.configure(now, config, lane.settings)
                self.events.append(ev.LaneOpened(now, key, config.upstream, config.provider, config, recognised=True))
                self.pump(lane, now)

    def in_flight_at(self, upstream: str) -> int:
        """Return how many requests are in flight at an upstream."""
        return sum(lane.gate.active for lane in self.lanes.values() if lane.config.upstream == upstream)

    def tell_others(self, now: float, upstream: str, others: int) -> None:
        """Note how many requests an upstream has that didn't come from here."""
        for lane in self.lanes.values():
            if lane.config.upstream == upstream:
                lane.pass_load(now)
                lane.others = others

    def take_lease(self, now: float, key: str, lease: Lease) -> None:
        """Have the lane go on under this lease; does nothing where the lane was forgotten, or was opened without
        leases."""
        lane = self.lanes.get(key)
        if lane is None or lane.leasing is None:
            return
        if take_lease(lane, lane.leasing, now, lease):
            self.refuse_behind_circuit(lane, now)
        lease_changed(lane, lane.leasing, now)
        self.rearm(lane, now)
        self.pump(lane, now)
        lane.leasing.served(lane.queue.places())

    def lease_report(self, now: float, key: str) -> LaneReport | None:
        """Return what the lane used since this was called last, and what it wants; the caller has to deliver it.

        None where the lane was forgotten, or was opened without leases.
        """
        lane = self.lanes.get(key)
        self.short.pop(key, None)
        return None if lane is None or lane.leasing is None else lane_report(lane, lane.leasing, now)

    def arrive(self, now: float, request: Request) -> Ticket:
        """Take a request. Its ticket may be in flight already, wait, or be refused (see its state and refusal)."""
        lane = self.lanes[request.lane]
        lane.used_at = now
        agents, name, parent = self.agents, request.agent, request.parent
        crowded = self.config.max_agents > 0 and agents.too_many_with(name, parent, now)
        for idle in agents.reap(now):
            self.ledger.set_aside(idle)
            for each in self.lanes.values():
                each.forget(idle.name)
        agent = agents.get(name)
        if crowded:
            agent = Agent(name, now)
        elif agent is None or (parent is not None and agent.parent is None):
            agent = self.meet(name, now, parent)
        wait_s = self.config.queue.max_wait_s
        if request.patience_s is not None:
            wait_s = min(wait_s, request.patience_s)
        self._numbers += 1
        if request.priority is not None and request.priority < agent.asked:
            agent.asked = request.priority
            for part in self.agents.parts_of(agent) if agent.has_children else ():  # what waits may get more now
                if self.reclass(part, now):
                    self.pump_lanes_of(part, now)
        priority = agent.priority_of(request)
        ticket = Ticket(self._numbers, request, agent, lane.config.provider, priority, now, now, now + wait_s)
        deadline_at = agent.deadline_at if agent.lead is None else agent.due_at
        if request.deadline_s is not None:
            deadline_at = min(deadline_at, now + request.deadline_s)
        has_deadline = deadline_at < _NEVER
        if has_deadline:
            ticket.deadline_at, ticket.expires_at = deadline_at, min(ticket.expires_at, deadline_at)
        lane.estimators.guess(ticket, now)
        agent.tickets[ticket.id] = ticket
        agent.last_seen = now
        agent.ended = False
        lane.retries.earn()
        events, joins = self.events, self.joins and not request.waited_s
        place = before = len(events)
        if self.tasks or not joins:  # a task that it claims may change its class
            events.append(ticket.arrived(now))
            before += 1
        if lane.circuit.state is not CircuitState.CLOSED:
            lane.poll_circuit(now, fresh=True)
        refusal = TOO_MANY_AGENTS if crowded else self.refusal_on_arrival(lane, ticket, now)
        if has_deadline and deadline_at <= now and refusal is None:
            refusal = Refusal("deadline", None, FINAL_STATUS)
        if self.tasks and refusal is None:
            self.tasks_moved(self.tasks.claim_for(agent, now), now)
        at_once = refusal is None and self.can_grant_immediately(lane, ticket, now)
        if at_once and joins and len(events) == before and ticket.priority is priority:
            self.give_slot(lane, ticket, now)
            events[place:] = (ticket.arrived(now, ev.GrantedOnArrival, 1),)
            return ticket
        if before == place:
            events.insert(place, ticket.arrived(now))
        if at_once:
            self.grant(lane, ticket, now)
            return ticket
        if refusal is None and self.queue_full:
            refusal = QUEUE_FULL
        if refusal is not None:
            self.refuse(ticket, refusal, now)
            return ticket
        self.enqueue(lane, ticket, now)
        self.pump(lane, now)
        if has_deadline and ticket.in_queue and (late := self._late(lane, ticket, now)) is not None:
            self.refuse(ticket, late, now)
            self.decisions.remove(ticket)
        if ticket.state is TicketState.IN_FLIGHT:
            self.decisions.remove(ticket)
        return ticket

    def _late(self, lane: Lane, ticket: Ticket, now: float) -> Refusal | None:
        """Return the refusal of a ticket whose turn comes after its deadline, as far as that is known."""
        hold = hold_of(lane, ticket, now, paused=self.paused)
        turn_in_s = None if hold is None else hold.turn_in_s
        if hold is None or turn_in_s is None or now + turn_in_s <= ticket.deadline_at:
            return None
        left_s = max(0.0, ticket.deadline_at - now)
        return Refusal("deadline", None, FINAL_STATUS, waited_s=left_s, gate=hold.gate, turn_in_s=turn_in_s)

    def too_long(self, lane: Lane, ticket: Ticket, now: float) -> Refusal:
        """Return why a ticket is refused that has waited as long as it may: the settings that bound that, what kept it
        and, where that is known, when its turn would come."""
        waited_s = now - ticket.arrived_at
        if now >= ticket.deadline_at:
            return Refusal("deadline", None, FINAL_STATUS, waited_s=waited_s)
        limits = {"queue.max_wait_s": self.config.queue.max_wait_s}
        if ticket.attempts:
            limits["retry.deadline_s"] = self.config.retry.deadline_s
        if ticket.request.patience_s is not None:
            limits["patience"] = ticket.request.patience_s
        # Added as when the wait was bounded: the difference of the moments may be less than the limit by rounding.
        bounds = tuple(name for name, limit_s in limits.items() if now >= ticket.arrived_at + limit_s)
        hold = hold_of(lane, ticket, now, paused=self.paused)
        refusal = replace(WAIT_TOO_LONG, waited_s=waited_s, bounds=bounds)
        if hold is None:
            return refusal
        if hold.gate == "pace" and hold.opens_in_s is not None:
            ticket.agent.kept_until = max(ticket.agent.kept_until, now + hold.opens_in_s)
        turn_in_s = hold.turn_in_s or None  # 0: its turn has come for long
        again_s = WAIT_TOO_LONG.retry_after_s if turn_in_s is None else max(1.0, turn_in_s)
        return replace(refusal, retry_after_s=again_s, gate=hold.gate, turn_in_s=turn_in_s)

    def headers(
        self,
        now: float,
        ticket: Ticket,
        readings: tuple[WindowReading, ...],
        plan: tuple[Utilisation, ...] = (),
        *,
        ending: bool = False,
    ) -> bool:
        """Take what a reply's headers said of the rate windows; to be called before the attempt's end is reported.

        With `ending` that end is reported next, and what now fits is granted only then: an error may pause the lane.
        Return whether waiting tickets were looked at.
        """
        lane = self.lanes[ticket.request.lane]
        ticket.ending = ending
        lane.read_headers(now, ticket, readings, plan)
        if ending or not (readings and lane.queue.waiting and lane.gate.free):
            return False
        self.pump(lane, now)  # the windows may have room now, or an earlier reset
        return True

    def first_content(self, now: float, ticket: Ticket, so_far: Usage | None = None, *, whole: bool = False) -> None:
        """Take the first content: a latency sample, and proof that the upstream works; `so_far` as in
        :meth:`progress`. `whole`: the answer was held until now, so the sample is that of a whole one."""
        lane = self.lanes[ticket.request.lane]
        if so_far is not None:
            self._note_usage(lane, ticket, so_far)
        ttft_s = now - ticket.granted_at
        self.events.append(ev.FirstContent(now, ticket.id, ticket.agent.name, lane.key, ttft_s, ticket.headed_s))
        self._begin_answer(now, lane, ticket, so_far, whole=whole)

    def _begin_answer(
        self, now: float, lane: Lane, ticket: Ticket, so_far: Usage | None, *, whole: bool = False
    ) -> None:
        ticket.content_started, ticket.agent.kept_until = True, 0.0
        ttft_s = now - ticket.granted_at
        followers: list[Ticket] = []
        if ticket.request.prefix and lane.first_writes is not None:
            followers = lane.first_writes.begun(ticket, now, so_far)
            self.release_followers(lane, followers, now)
        if lane.succeeded(now, ticket, ttft_s, so_far, whole=whole) or followers:
            self.pump(lane, now)

    def progress(self, now: float, ticket: Ticket, output_tokens: int, so_far: Usage | None = None) -> None:
        """Take a stream's progress; `so_far` is its known usage, which counts should the proxy die."""
        lane = self.lanes[ticket.request.lane]
        if so_far is not None:
            self._note_usage(lane, ticket, so_far)
        self.events.append(ev.Progress(now, ticket.id, ticket.agent.name, lane.key, output_tokens))

    def _note_usage(self, lane: Lane, ticket: Ticket, so_far: Usage) -> None:
        self.ledger.note_use(ticket, so_far)
        if (weighted := so_far.weighted) > ticket.shared:
            lane.queue.grow(ticket, weighted)

    def succeed(
        self, now: float, ticket: Ticket, status: int, usage: Usage | None, computed: Computed | None = None
    ) -> None:
        """Take the end of a complete reply; `computed`: what the server says that it took."""
        lane, events = self.lanes[ticket.request.lane], self.events
        place, whole = len(events), not ticket.content_started
        if whole:
            self._begin_answer(now, lane, ticket, usage, whole=True)
        if not ticket.work:
            lane.learn(now, ticket, usage, computed)
        elif usage is not None:  # when somebody asked tells nothing of the provider's pace
            lane.estimators.learn(ticket.request, usage)
        self.release_slot(lane, ticket, now, usage)
        self.forget(ticket)
        end = now, ticket.id, ticket.agent.name, lane.key, ticket.request.model, status, ticket.attempts, usage
        ttft_s = _in_micros(now - ticket.granted_at)
        duration_s = ttft_s if ticket.arrived_at == ticket.granted_at else _in_micros(now - ticket.arrived_at)
        if whole and self.joins and len(events) == place:
            events.append(ev.AnsweredWhole(*end, duration_s, ttft_s, ticket.headed_s))
        else:
            if whole:
                events.insert(place, ev.FirstContent(*end[:4], ttft_s, ticket.headed_s))
            events.append(ev.Finished(*end, duration_s))
        self.after_attempt(lane, ticket, now)

    def fail(self, now: float, ticket: Ticket, failure: Failure, usage: Usage | None = None) -> float | None:
        """Take a failed attempt.

        Returns the moment from which it may be tried again (the ticket waits for it by itself), or None when the
        failure goes to the agent and the ticket is done.
        """
        lane = self.lanes[ticket.request.lane]
        failure = lane.long.concerned(now, ticket.request.family, failure)
        ticket.ending = False
        was_cut, ticket.cut = failure.kind is FailureKind.CUT, None
        opened = not was_cut and lane.failed(now, ticket, failure)
        self.rearm(lane, now)
        if opened:
            self.refuse_behind_circuit(lane, now)
        if failure.kind is FailureKind.QUOTA:
            ticket.agent.kept_until = lane.long.refused.get(ticket.request.family, 0.0)
        if was_cut:
            ticket.expires_at += now - ticket.granted_at  # what hung isn't counted as a wait
        sent = failure.kind is not FailureKind.CONNECT
        self.release_slot(lane, ticket, now, usage, failed=True, sent=sent)
        retry_at = None
        if not self.draining and ticket.refusal is None and lane.circuit_refusal(ticket, now) is None:
            retry_at = lane.retries.next_attempt_at(ticket, failure, now, self._draw)
        if ticket.at_fault:
            text = f"{failure.message}, as whenever this request is sent"
            failure = replace(failure, message=text)
        self.events.append(ticket.failed(now, failure, None if retry_at is None else retry_at - now, usage))
        if retry_at is None:
            self.forget(ticket)
        else:
            self.back_off(lane, ticket, retry_at, now)
        self.after_attempt(lane, ticket, now)
        return retry_at

    def of_window(self, now: float, ticket: Ticket, failure: Failure) -> Failure:
        """Return a failure as :meth:`fail` will count it: one by a long window that is used up lasts until its
        reset."""
        return self.lanes[ticket.request.lane].long.concerned(now, ticket.request.family, failure)

    def abandon(self, now: float, ticket: Ticket, usage: Usage | None = None, *, sent: bool = True) -> None:
        """End a ticket whose client left, or whose attempt was ended; `sent` False: nothing had reached the
        upstream."""
        if ticket.state is TicketState.DONE:
            return
        lane = self.lanes[ticket.request.lane]
        in_flight = ticket.state is TicketState.IN_FLIGHT
        if ticket.work and (work := self.works.find(ticket.work)) is not None:
            self.works.tickets.pop(ticket.work, None)
            self.works.put(ticket.work, replace(work, over=True))
        if in_flight:
            self.release_slot(lane, ticket, now, usage, failed=True, sent=sent)
        else:
            self.leave_queue(ticket)
        self.forget(ticket)
        self.events.append(ev.Abandoned(now, ticket.id, ticket.agent.name, lane.key, in_flight, usage))
        self.after_attempt(lane, ticket, now)

    # --- Work that goes on after a reply ---------------------------------------------------------------------------

    def begin_work(self, now: float, ticket: Ticket, name: str, kind: Kind, booked: bool | None = None) -> None:
        """Note what the ticket's request began. In the background it goes on under this ticket, which stays in flight
        until :meth:`end_work`; from :meth:`leave_work` on only as long as somebody asks for it. `booked`: it has
        ended already, and whether what it used is; None: it goes on."""
        request, works = ticket.request, self.works
        if (earlier := works.tickets.pop(name, None)) is not None:  # a run that goes on after another request
            self.succeed(now, earlier, 200, None)
        works.put(name, Work(request.agent, request.lane, request.model, kind, now, booked is not None, booked is True))
        if booked is not None or kind != "background":
            return
        ticket.work = name
        works.tickets[name], works.asked_at[name] = ticket, math.inf
        self.events.append(ev.WorkLeft(now, ticket.id, ticket.agent.name, request.lane))
        if not ticket.content_started:  # that there is a reply proves the upstream; it isn't the answer's first content
            ticket.content_started, lane = True, self.lanes[request.lane]
            if lane.succeeded(now, ticket, None, None, whole=True):
                self.pump(lane, now)

    def leave_work(self, now: float, ticket: Ticket) -> None:
        """Note that the reply is over, and the work isn't."""
        ticket.so_far = None  # or a restart would count it, and then what the work states
        self.ledger.unsaved_use.add(ticket.agent.name)
        self.works.asked_at[ticket.work] = now
        self.timers.set(now + UNASKED_S, ticket)

    def ask_for_work(self, now: float, name: str) -> None:
        """Note that somebody asks for it."""
        if self.works.asked_at.get(name, math.inf) < math.inf:
            self.works.asked_at[name] = now

    def end_work(
        self,
        now: float,
        name: str,
        request: Request,
        kind: Kind,
        used: Mapping[str, Usage],
        names: tuple[str, ...],
        *,
        elsewhere: bool = False,
    ) -> None:
        """Note that it has ended, and book what it used, by model, unless that is booked, be it `elsewhere`. `request`
        asked for it, and is charged where nobody is known to have begun it; `names` are the ids of files with its
        results."""
        works = self.works
        name = works.id_of(name)
        work = works.find(name) or Work(request.agent, request.lane, request.model, kind, now)
        stated = bool(used)  # be it nothing
        used = {model: usage for model, usage in used.items() if usage.total}
        booked = elsewhere or works.is_booked(name, names)
        if works.asked_at.get(name) == math.inf:
            return  # the open stream will tell
        works.put(name, replace(work, over=True, booked=booked or stated, names=names or work.names))
        if work.kind in ("video", "job") and not (booked or stated or work.over):
            self.ledger.tell_unpriced(self.meet(work.agent, now, None), work.model, now)
        if (ticket := works.tickets.pop(name, None)) is not None:
            usage = None if booked or not used else used.pop(next(iter(used)))
            self.succeed(now, ticket, 200, usage)
        if not booked:
            for model, usage in used.items():
                self.book(now, replace(request, agent=work.agent, parent=None), model or work.model, usage)

    def booked_elsewhere(self, now: float, name: str) -> None:
        """Note that it has ended, and that another proxy of the fleet has booked what it used."""
        works, name = self.works, self.works.id_of(name)
        if (work := works.find(name)) is None or works.tells_later(name, ()):
            return
        works.put(name, replace(work, over=True, booked=True))
        if (ticket := works.tickets.pop(name, None)) is not None:
            self.succeed(now, ticket, 200, None)

    def book(self, now: float, request: Request, model: str, usage: Usage) -> None:
        """Charge an agent with what was used on account of a request but not by its own answer: by another model, or
        by work that it began."""
        agent, lane = self.meet(request.agent, now, request.parent), self.lanes[request.lane]
        ticket = Ticket(
            0, replace(request, model=model), agent, lane.config.provider, agent.priority_of(request), now, now, now
        )
        for each in self.ledger.reserve(ticket):
            self.update_hold(each)
        self.ledger.settle(ticket, usage, now)
        self.events.append(ev.Finished(now, 0, agent.name, lane.key, model, 200, 0, usage, 0.0))
        self.review_budgets(agent, now)

    def _look_at_work(self, now: float, ticket: Ticket) -> None:
        """Give back the slot of work that nobody asks for any more."""
        due_at = self.works.asked_at.get(ticket.work, now) + UNASKED_S
        if due_at > now:
            self.timers.set(due_at, ticket)
        else:
            self.abandon(now, ticket)

    def apply(self, now: float, command: Command, who: str) -> None:
        """Carry out an operator's command.

        Raises: Rejected, with what was wrong and what would be right.
        """
        before = len(self.events)
        commanded = self._operator.apply(command, who, now)
        self.events.insert(before, commanded)  # ahead of its effects
        for lane in self.lanes.values():
            lane.poll_circuit(now)
            self.refuse_behind_circuit(lane, now)
            self.rearm(lane, now)
            self.pump(lane, now)

    def advance(self, now: float) -> None:
        """Act on the timers that are due."""
        for at, subject in self.timers.due(now):
            if isinstance(subject, Ticket):
                if subject.work and subject.state is TicketState.IN_FLIGHT:
                    self._look_at_work(now, subject)
                else:
                    self.wake_ticket(subject, now)
            elif isinstance(subject, Lane):
                if subject.wake_at == at:
                    self.wake_lane(subject, now)
            elif isinstance(subject, Task):
                if subject.paused_until == at:
                    self.tasks_moved(self.tasks.resume(subject, now), now)
            elif subject.boosted_until == at:
                self._operator.end_boost(subject, now)
                for part in self.agents.parts_of(subject):
                    self.pump_lanes_of(part, now)

    def wake_at(self) -> float | None:
        """Return when to call :meth:`advance` at the latest; None: when something happens."""
        return self.timers.next_at

    def begin_period(self, now: float, per: Period) -> None:
        """Begin another run, day or month of every budget."""
        self.carry_out(self.ledger.begin(per, now), now)

    def share_budgets(self, now: float) -> SharedBudgets:
        """Have every budget hold for this proxy and others together. What this returns tells what was used here, and
        takes what the others did; until it has, nothing is granted under a budget."""
        if self.sharing is None:
            self.sharing = SharedBudgets(self)
            self.carry_out(self.sharing.begin(now), now)
        return self.sharing

    def sample(self, now: float, budgets: tuple[ev.BudgetState, ...] | None = None) -> ev.Sampled:
        """Return the gauges of every lane, and of these budgets; None: all."""
        lanes = tuple([lane_state(lane, now, paused=self.paused) for lane in self.lanes.values()])
        states = self.ledger.states() if budgets is None else budgets
        return ev.Sampled(now, lanes, states, budgets is not None, self.works.state(now))

    def sample_changes(self, now: float) -> ev.Sampled:
        """Return the gauges of every lane, and of the budgets that changed since this was called last; of all where one
        is gone."""
        changed, before, self._sampled = self.ledger.changes(), self._sampled, tuple(self.lanes)
        return self.sample(now, None if before != self._sampled else changed)

    @property
    def arrived(self) -> int:
        """Number of requests so far."""
        return self._numbers

    @property
    def has_unsaved(self) -> bool:
        """Whether something changed that a restart must know."""
        ledger = self.ledger
        return bool(ledger.unsaved or ledger.unsaved_use or self.tasks.unsaved or self.works.unsaved)

    def take_unsaved(self, most: int | None = None) -> persistence.Unsaved:
        """Return what changed since this was called last, of so many agents at `most`; the caller has to save it."""
        return replace(persistence.take_unsaved(self, most), works=self.works.take_unsaved())

    def restore(
        self,
        agents: Iterable[persistence.SavedAgent],
        tasks: Iterable[SavedTask],
        in_flight: Mapping[str, Spent],
        now: float,
        *,
        new_run: bool,
    ) -> None:
        """Go on from what was saved (:func:`.persistence.restore`), which is to be saved anew."""
        persistence.restore(self, agents, tasks, in_flight, now, new_run=new_run)
        self.ledger.unsaved.add(POOL)


def _in_micros(span_s: float) -> float:
    """Return seconds in whole microseconds, so that a journal writes few digits; `round` takes three times as long."""
    return (span_s * 1e6 + 0.5) // 1 / 1e6
