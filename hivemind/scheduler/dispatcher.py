"""The dispatcher: lanes, agents, budgets, tasks and timers, and the rules by which tickets are granted or refused.

The components decide by themselves and return what follows; the dispatcher carries it out on the queues.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush

from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.circuit import CircuitState
from hivemind.scheduler.agents import Agents, process_of
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.lane import Lane, Lanes
from hivemind.scheduler.ledger import Ledger, Review
from hivemind.scheduler.tasks import Task, TaskBoard
from hivemind.scheduler.ticket import FINAL_STATUS, Agent, Refusal, Ticket, TicketState
from hivemind.scheduler.types import Usage

DRAINING = Refusal("draining", 20.0)
TOO_MANY_AGENTS = Refusal("too_many_agents", 60.0)
QUEUE_FULL = Refusal("queue_full", 10.0)
WAIT_TOO_LONG = Refusal("wait_too_long", 10.0)
AGENT_STOPPED = Refusal("agent_stopped", None, FINAL_STATUS)

Subject = Lane | Ticket | Agent | Task
"""A lane to look at again, a ticket to retry or to refuse, an agent whose boost ends."""
_IN_FLIGHT, _DONE = TicketState.IN_FLIGHT, TicketState.DONE  # an enumeration's members are looked up slowly
FEW = 1000  # timers that are kept whether they still matter or not


class Timers:
    """Timers in order of time.

    They aren't cancelled: the handler checks whether a timer still matters. Most don't: a request that has waited is
    answered long before its wait would have been too long. So each time they have become twice as many, those that
    don't matter any more are dropped, and their tickets with them.
    """

    def __init__(self) -> None:
        self.next_at: float | None = None
        """When the earliest timer is due; None: there is none."""
        self._heap: list[tuple[float, int, Subject]] = []
        self._many = FEW
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, at: float, subject: Subject) -> None:
        """Wake at this moment; infinity is never."""
        if not math.isinf(at):
            self._numbers += 1
            heappush(self._heap, (at, self._numbers, subject))
            if len(self._heap) > self._many:
                self._tidy()
            self.next_at = self._heap[0][0]

    @property
    def subjects(self) -> AbstractSet[Subject]:
        """What some timer is for."""
        return {subject for _, _, subject in self._heap}

    def due(self, now: float) -> Iterator[tuple[float, Subject]]:
        """Yield the timers that are due, including ones set meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            at, _, subject = heappop(self._heap)
            self.next_at = self._heap[0][0] if self._heap else None
            yield at, subject

    def _tidy(self) -> None:
        self._heap = [timer for timer in self._heap if _matters(timer[0], timer[2])]
        heapify(self._heap)
        self._many = max(FEW, 2 * len(self._heap))


def _matters(at: float, subject: Subject) -> bool:
    if isinstance(subject, Ticket):
        return subject.state is not _DONE
    if isinstance(subject, Task):
        return at == subject.paused_until
    return at == (subject.boosted_until if isinstance(subject, Agent) else subject.wake_at)


class Dispatcher:
    """Grants, refuses and releases tickets."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.events: list[ev.Event] = []
        self.decisions: list[Ticket] = []
        self.agents = Agents(config)
        self.ledger = Ledger(config.budget, self.agents, self.events.append)
        self.tasks = TaskBoard(self.events.append)
        self.lanes = Lanes()
        self.timers = Timers()
        self.paused = False  # nothing more is granted until an operator resumes
        self.draining = False  # nothing more is taken or granted, until an operator says otherwise
        self.short: dict[str, None] = {}
        """Lanes whose report the other proxies should get at once, until a caller takes them."""
        self.joins = False
        """A request that is granted as it arrives, and a reply that comes whole, are one event each, not two."""
        self._grants = 0

    # --- Lanes and agents ------------------------------------------------------------------------------------------

    def meet(self, name: str, now: float, parent: str | None = None) -> Agent:
        """Return the agent of this name; a new one gets accounts, the settings' budget, its tasks and its parent."""
        agent, fresh = self.agents.meet(name, now)
        if fresh:
            self.carry_out(self.ledger.open(agent, now), now)
            self.tasks.look_up(agent)
            for part in self.agents.parts_of(agent):
                if self.update_hold(part) | self.reclass(part, now):
                    self.pump_lanes_of(part, now)
        if parent is not None and agent.parent is None and parent != name:
            process = process_of(name, parent)
            above = self.meet(parent, now, None if process == parent else process)
            moved = [each for each in self.adopt(agent, above, now) if each.tickets]
            for each in moved:
                self._follow_line(each, now)
            for each in (above, *moved):
                self.pump_lanes_of(each, now)  # another of its root's requests may be first now, and fit
        return agent

    def adopt(self, agent: Agent, parent: Agent, now: float) -> list[Agent]:
        """Note that the agent was started by the parent, and charge both for it. Return the agents with another line
        of ancestors now."""
        moved = self.agents.adopt(agent, parent)
        for each in moved:
            self.ledger.unsaved.add(agent.name)
            self.ledger.join(each)
            self.update_hold(each)
        self._regroup(moved, parent, now)
        return moved

    def _regroup(self, moved: list[Agent], parent: Agent, now: float) -> None:
        """Have the agents compete within their root's share."""
        if not moved or self.config.queue.fairness == "agents":
            return
        waiting = [ticket for agent in (parent, *moved) for ticket in agent.tickets.values() if ticket.entry]
        for lane in self.lanes.values():
            tickets = [ticket for ticket in waiting if ticket.in_queue and ticket.request.lane == lane.key]
            lane.queue.regroup(moved, parent, tickets, now)

    def move(self, agent: Agent, name: str, now: float) -> None:
        """Charge from now on the parent of this name for an agent that is started anew, if another one started it
        before and it has no requests. What it used so far stays where it was charged."""
        before = agent.parent
        if before is None or name in (before.name, agent.name):
            return
        parent = self.meet(name, now)
        moved = self.agents.move(agent, parent, now)
        for each in moved:
            self.ledger.unsaved.add(each.name)
            self.ledger.set_aside(each)
            self.ledger.join(each, charged_before=False)
            self.update_hold(each)
        self._regroup(moved, parent, now)
        self.pump_lanes_of(parent, now)

    def _follow_line(self, agent: Agent, now: float) -> None:
        """Have decisions about agents that it turned out to be a part of hold for its tickets."""
        reclassed = self.reclass(agent, now)
        if agent.cut_off:
            self.stop(agent, now)
        elif agent.gate == "blocked":
            self.refuse_waiting(agent, self.tasks.refusal(agent), now)
        self.review_budgets(agent, now)
        if reclassed:
            self.pump_lanes_of(agent, now)

    def reclass(self, agent: Agent, now: float) -> bool:
        """Move the agent's tickets to the class in which they count now. Return whether one was moved in a queue: of
        its family another ticket may be first now, and fit."""
        moved = False
        for ticket in agent.tickets.values():
            priority = agent.priority_of(ticket.request)
            if ticket.in_queue and ticket.entry and ticket.priority is not priority:
                self.lanes[ticket.request.lane].queue.reclass(ticket, priority, now)
                moved = True
            else:
                ticket.priority = priority
        return moved

    def update_hold(self, agent: Agent) -> bool:
        """Hold the agent's tickets out of the queues' order, or release them, as it has to be now. Return whether that
        changed."""
        held = agent.on_hold or agent.gate != "open" or agent.out_of_budget
        if held is agent.held:
            return False
        agent.held = held
        for lane in self.lanes.values():
            lane.queue.pause(agent.name, held)
        return True

    # --- What components return ------------------------------------------------------------------------------------

    def carry_out(self, review: Review, now: float) -> None:
        """Hold, refuse and release agents after a review of budgets."""
        for agent in review.agents:
            self.update_hold(agent)
        for agent, refusal in review.refused:
            self.refuse_waiting(agent, refusal, now)
        for agent in review.agents:
            if not agent.held and agent.tickets:
                self.pump_lanes_of(agent, now)

    def review_budgets(self, agent: Agent, now: float) -> None:
        """Review the agent's budgets after one of them, or what was used, has changed."""
        for account in agent.limits:
            if not account.calm and (review := self.ledger.review(account, agent, now)) is not None:
                self.carry_out(review, now)

    def tasks_moved(self, moved: list[Task], now: float) -> None:
        """Hold, refuse and release the agents that work on these tasks."""
        for task in moved:
            if task.paused_until:
                self.timers.set(task.paused_until, task)
        for name, task in {task.agent: task for task in moved}.items():
            agent = self.agents.get(name)
            if agent is None:
                continue
            waited = agent.task_gate == "waits"
            refusal = self.tasks.review(agent, task)
            parts = self.agents.parts_of(agent)
            reclassed = [self.reclass(part, now) for part in parts]
            for part, moves in zip(parts, reclassed, strict=True):
                if refusal is not None:
                    self.refuse_waiting(part, refusal, now)
                if self.update_hold(part) or moves:
                    self.pump_lanes_of(part, now)
            if waited and any(part.tickets for part in parts):
                # It sent a request before its task was eligible.
                self.tasks_moved(self.tasks.claim_for(agent, now), now)

    # --- Granting --------------------------------------------------------------------------------------------------

    def can_grant_immediately(self, lane: Lane, ticket: Ticket, now: float) -> bool:
        """Whether no ticket waits and nothing holds this one, so that the queue needn't be asked."""
        agent = ticket.agent
        if lane.queue.waiting or self.paused or agent.held:
            return False
        if ticket.request.prefix and lane.first_writes is not None and lane.first_writes.holds(ticket, now):
            return False
        if lane.closed_until(now) is not None or lane.delay_s(ticket, now) > 0:
            return False
        paced = lane.queue.paced
        if paced is not None and paced(ticket.request.family, ticket.priority, now) > 0:
            return False
        return not agent.limits or self._has_room(ticket, now)

    def _has_room(self, ticket: Ticket, now: float) -> bool:
        if self.ledger.has_room(ticket, now):
            return True
        self.update_hold(ticket.agent)
        return False

    def pump(self, lane: Lane, now: float) -> None:
        """Grant as many waiting tickets as now fit: the lane's, and those of the lanes that share its upstream's gate.

        Of these the lane with the fewest in flight is next, among equals the one whose last grant is longest ago, so
        that none has more of the upstream than another that wants it.
        """
        if lane.total is None:
            while lane.queue.waiting and self._grant_next(lane, now):
                pass
            if lane.leasing is not None and lane.leasing.wants_sync(lane.queue.places()):
                self.short[lane.key] = None
            return
        sharing = [each for each in self.lanes.values() if each.total is lane.total and each.queue.waiting]
        while sharing:
            first = min(sharing, key=lambda each: (each.gate.active, each.last_grant))
            if not self._grant_next(first, now):
                sharing.remove(first)
        if lane.leasing is not None and lane.leasing.wants_sync(lane.queue.places()):
            self.short[lane.key] = None

    def pump_lanes_of(self, agent: Agent, now: float) -> None:
        """Grant what now fits wherever the agent has tickets."""
        for key in dict.fromkeys(ticket.request.lane for ticket in agent.tickets.values()):
            self.pump(self.lanes[key], now)

    def _grant_next(self, lane: Lane, now: float) -> bool:
        """Grant the lane's next waiting ticket, if it fits now."""
        while lane.queue.waiting and not (self.paused or self.draining):
            until = lane.closed_until(now)
            if until is not None:
                self._set_wake(lane, until)
                return False
            ticket, delay_s = lane.queue.pick(now, lane.delay_s, lane.vacant)
            if ticket is not None and ticket.attempts and lane.probes_with(ticket):
                ticket = lane.queue.probe(now, lambda t: lane.probes_with(t) and lane.delay_s(t, now) <= 0) or ticket
            if ticket is None:
                self._set_wake(lane, now + delay_s)
                return False
            if ticket.agent.limits and not self._has_room(ticket, now):
                continue  # its agent is held now; the others are next
            if ticket.request.prefix and lane.first_writes is not None and lane.first_writes.holds(ticket, now):
                lane.first_writes.follow(ticket)
                self._set_aside(lane, ticket, ticket.follows_until)
                lane.queue.drop(ticket)
                continue
            ticket.state = _IN_FLIGHT
            lane.queue.drop(ticket)
            self.grant(lane, ticket, now)
            self.decisions.append(ticket)
            return True
        return False

    def grant(self, lane: Lane, ticket: Ticket, now: float) -> None:
        """Give the ticket a slot, and report it."""
        self.give_slot(lane, ticket, now)
        waited_s = now - ticket.queued_at
        self.events.append(ev.Granted(now, ticket.id, ticket.agent.name, lane.key, ticket.attempts, waited_s))

    def give_slot(self, lane: Lane, ticket: Ticket, now: float) -> None:
        """Give the ticket a slot (paper, equation 1)."""
        ticket.state = _IN_FLIGHT
        ticket.attempts += 1
        ticket.granted_at, ticket.headed_at = now, None
        ticket.agent.in_flight += 1
        for agent in self.ledger.reserve(ticket):
            self.update_hold(agent)
        lane.enter(ticket, now)
        if ticket.request.prefix and lane.first_writes is not None:
            lane.first_writes.granted(ticket, now)
        self._grants += 1
        lane.last_grant = self._grants
        lane.queue.served(ticket, now)

    def release_slot(
        self, lane: Lane, ticket: Ticket, now: float, usage: Usage | None, *, failed: bool = False, sent: bool = True
    ) -> None:
        """End an attempt: release its slot and settle what was reserved."""
        lane.leave(ticket, now)
        if ticket.request.prefix and lane.first_writes is not None:
            self.release_followers(lane, lane.first_writes.ended(ticket), now)
        agent = ticket.agent
        agent.in_flight -= 1
        agent.last_seen = now
        self.ledger.settle(ticket, usage, now)
        if ticket.reservation:
            lane.allowances[ticket.request.family].settle(now, ticket.reservation, usage, sent=sent)
        ticket.reservation = None
        real = usage.weighted if usage is not None else 0.0 if failed else ticket.shared
        lane.queue.charge(ticket, real, now)

    def after_attempt(self, lane: Lane, ticket: Ticket, now: float) -> None:
        """Review budgets and grant what now fits, after an attempt has ended."""
        if ticket.agent.limits:
            self.review_budgets(ticket.agent, now)
        if lane.queue.waiting or lane.total is not None or lane.leasing is not None:
            self.pump(lane, now)

    # --- Waiting ---------------------------------------------------------------------------------------------------

    def enqueue(self, lane: Lane, ticket: Ticket, now: float) -> None:
        """Queue the ticket until it is granted or its wait becomes too long."""
        ticket.state = TicketState.QUEUED
        if ticket.attempts:
            ticket.queued_at = now
            lane.estimators.guess_cached(ticket, now)
        lane.queue.push(ticket, now)
        self.timers.set(ticket.expires_at, ticket)

    def back_off(self, lane: Lane, ticket: Ticket, retry_at: float, now: float) -> None:
        """Queue the ticket for its next attempt, once the delay between the two is over."""
        ticket.front = True
        if retry_at <= max(now, lane.paused_family_until(ticket.request.family)):
            self.enqueue(lane, ticket, now)
            return
        self._set_aside(lane, ticket, retry_at)
        self.timers.set(ticket.expires_at, ticket)

    def _set_aside(self, lane: Lane, ticket: Ticket, until: float) -> None:
        ticket.state = TicketState.BACKING_OFF
        ticket.retry_at = until
        lane.backing_off[ticket.id] = ticket
        self.timers.set(until, ticket)

    def release_followers(self, lane: Lane, followers: list[Ticket], now: float) -> None:
        """Queue the tickets that waited for the first one with their prefix."""
        for ticket in followers:
            if lane.backing_off.pop(ticket.id, None) is not None:
                self.enqueue(lane, ticket, now)

    def leave_queue(self, ticket: Ticket) -> None:
        """Remove a waiting ticket."""
        lane = self.lanes[ticket.request.lane]
        queued, ticket.state = ticket.state is TicketState.QUEUED, _DONE
        if queued:
            lane.queue.drop(ticket)
        else:
            del lane.backing_off[ticket.id]

    def forget(self, ticket: Ticket) -> None:
        """Drop a ticket that is done."""
        ticket.state = _DONE
        ticket.agent.tickets.pop(ticket.id, None)

    # --- Refusing --------------------------------------------------------------------------------------------------

    def refusal_on_arrival(self, lane: Lane, ticket: Ticket, now: float) -> Refusal | None:
        """Return why a ticket that came may neither be sent nor wait."""
        agent = ticket.agent
        if agent.cut_off:
            return AGENT_STOPPED
        if self.draining:
            return DRAINING
        if agent.gate == "blocked":
            return self.tasks.refusal(agent)
        if agent.limits and (refusal := self.ledger.refusal(ticket)) is not None:
            return refusal
        return lane.circuit_refusal(ticket, now)

    @property
    def queue_full(self) -> bool:
        """Whether as many tickets wait as may."""
        left = self.config.queue.max_depth
        for lane in self.lanes.values():
            left -= lane.queue.waiting + len(lane.backing_off)
        return left <= 0

    def refuse(self, ticket: Ticket, refusal: Refusal, now: float) -> None:
        """Refuse a ticket that waits or has just come."""
        if ticket.entry or ticket.state is TicketState.BACKING_OFF:
            self.leave_queue(ticket)
            self.decisions.append(ticket)
        ticket.refusal = refusal
        self.forget(ticket)
        lane, reason = ticket.request.lane, refusal.reason
        self.events.append(ev.Refused(now, ticket.id, ticket.agent.name, lane, reason, refusal.status, refusal.bounds))

    def too_long(self, lane: Lane, ticket: Ticket, now: float) -> Refusal:
        """Return why a ticket is refused that has waited as long as it may."""
        return WAIT_TOO_LONG

    def refuse_waiting(self, agent: Agent, refusal: Refusal, now: float) -> None:
        """Refuse every waiting ticket of the agent."""
        for ticket in agent.waiting:
            self.refuse(ticket, refusal, now)

    def refuse_behind_circuit(self, lane: Lane, now: float) -> None:
        """Refuse the tickets that wait in vain for the lane's circuit."""
        if lane.circuit.state is not CircuitState.OPEN:
            return
        for ticket in [ticket for agent in self.agents.values() for ticket in agent.waiting]:
            if ticket.request.lane == lane.key and (refusal := lane.circuit_refusal(ticket, now)) is not None:
                self.refuse(ticket, refusal, now)

    def drain(self, now: float) -> None:
        """Grant nothing more; refuse every waiting ticket."""
        self.draining = True
        for agent in list(self.agents.values()):
            self.refuse_waiting(agent, DRAINING, now)

    def stop(self, agent: Agent, now: float) -> None:
        """Refuse every ticket of the agent, and have its attempts in flight ended."""
        self.refuse_waiting(agent, AGENT_STOPPED, now)
        for ticket in agent.tickets.values():
            if ticket.refusal is None:
                ticket.refusal = AGENT_STOPPED
                self.decisions.append(ticket)

    # --- Timers ----------------------------------------------------------------------------------------------------

    def wake_lane(self, lane: Lane, now: float) -> None:
        """Act on the end of a pause or a cooldown."""
        lane.wake_at = math.inf
        lane.poll_circuit(now)
        lane.resume(now)
        self.rearm(lane, now)
        self.pump(lane, now)

    def rearm(self, lane: Lane, now: float) -> None:
        """Wake for the end of a pause or a cooldown even when no ticket waits, so that people see it."""
        pauses = (pause.until for pause in (lane.whole, *lane.pauses.values()))
        for at in (*pauses, lane.circuit.reopens_at):
            if at is not None and at > now:
                self._set_wake(lane, at)

    def _set_wake(self, lane: Lane, at: float) -> None:
        if at < lane.wake_at:
            lane.wake_at = at
            self.timers.set(at, lane)

    def wake_ticket(self, ticket: Ticket, now: float) -> None:
        """Queue a ticket whose delay between two attempts is over; refuse one that has waited too long."""
        if not ticket.waiting:
            return
        lane = self.lanes[ticket.request.lane]
        if ticket.state is TicketState.BACKING_OFF and now >= ticket.retry_at:
            del lane.backing_off[ticket.id]
            self.enqueue(lane, ticket, now)
        elif now < ticket.expires_at:
            self.timers.set(ticket.expires_at, ticket)
            return
        else:
            self.refuse(ticket, self.too_long(lane, ticket, now), now)
        self.pump(lane, now)
