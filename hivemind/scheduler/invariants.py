"""What holds of a scheduler after each call, whatever happened before, in whatever order.

Active places are attempts in flight; what rate windows and budgets hold back is what granted tickets reserved; the
queues' counters are the tickets that wait; a ticket doesn't wait while a slot is free and nothing forbids it; and
whatever waits has a cause that ends: an attempt in flight, a timer, or an operator's decision.

Nothing here decides anything, and nothing changes what will be decided. Every step reads the tickets and the counters
of one moment; together they take a few milliseconds for 20,000 waiting tickets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from hivemind.scheduler.accounts import Account
from hivemind.scheduler.admission.queue import AWAITED_S
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.limits import Window
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Agent, Ticket, TicketState

_QUEUED, _BACKING_OFF, _IN_FLIGHT = TicketState.QUEUED, TicketState.BACKING_OFF, TicketState.IN_FLIGHT
T = TypeVar("T")
AT_ONCE = 50  # agents, or accounts, that are looked at in one step
_ROUNDING = 1e-9
"""Share by which sums of amounts may differ, because they were added up in another order."""


class Violation(Struct, frozen=True):
    """An invariant that doesn't hold."""

    rule: str
    """Its name: `slots`, `upstream`, `queue`, `backoff`, `agent`, `hold`, `overdue`, `budget`, `window`, `probe`,
    `timer`, `idle`, `stuck`, `stall` or `lease`; the data plane has others."""
    lane: str
    """The lane that it is about; empty: none in particular."""
    agent: str
    """The agent that it is about; empty: none in particular."""
    text: str
    """One sentence with the numbers."""


def violations(scheduler: Scheduler, now: float) -> list[Violation]:
    """Return what doesn't hold at this moment; nothing, if the scheduler is sound."""
    return [each for step in steps(scheduler, lambda: now) for each in step]


def steps(scheduler: Scheduler, clock: Callable[[], float]) -> Iterator[list[Violation]]:
    """Yield what doesn't hold, part by part. Each part is of one moment; between two the scheduler may go on."""
    yield list(_counts(scheduler))
    yield from _some(scheduler.agents.values(), _agent)
    limited = _limited(scheduler)
    yield []
    yield from _some(limited, partial(_account, scheduler))
    yield list(_timers(scheduler))
    for lane in list(scheduler.lanes.values()):
        now = clock()
        yield [*_holds(scheduler, lane), *_overdue(scheduler, lane, now), *_waits(scheduler, lane, now)]


STALLED_S = 150.0
"""Longest time for which a lane with a free slot grants nothing though requests wait: a rate window holds one for a
minute, or, if its reset is in doubt, until the next probe; and one window may do so after another."""


class Stalls:
    """Notices lanes that grant nothing for long though requests wait and a slot is free; to be looked at often."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._since: dict[str, tuple[int, float]] = {}
        """By lane that could have granted something at the last look: its last grant, and since when."""

    def look(self, now: float) -> list[Violation]:
        """Return the lanes that have stalled."""
        scheduler, before, found = self._scheduler, self._since, list[Violation]()
        self._since = {}
        for key, lane in scheduler.lanes.items():
            if not lane.queue.waiting or scheduler.paused or scheduler.draining:
                continue
            if not (_is_open(lane, now) and lane.queue.in_order) or _lacks_credits(lane, now):
                continue
            last, since = before.get(key, (lane.last_grant, now))
            if last != lane.last_grant:
                last, since = lane.last_grant, now
            self._since[key] = last, since
            if now - since > STALLED_S:
                found.append(_stalled(lane, now, now - since))
        return found


def _stalled(lane: Lane, now: float, for_s: float) -> Violation:
    hold = next(iter(lane_state(lane, now, paused=False).upcoming))
    opens = "" if hold.opens_in_s is None else f", which opens in {hold.opens_in_s:.0f} s"
    text = (
        f"{_waiting(lane.queue.waiting)} and {_free(lane)}, but nothing was granted for {for_s:.0f} s; the next, number"
        f" {hold.ticket}, is held (gate: {hold.gate}{opens})."
    )
    return Violation("stall", lane.key, "", text)


class _Tickets:
    """All tickets that aren't done at a moment, as their states tell."""

    def __init__(self, scheduler: Scheduler) -> None:
        every = [ticket for agent in scheduler.agents.values() for ticket in agent.tickets.values()]
        self.in_flight = [ticket for ticket in every if ticket.state is _IN_FLIGHT]
        waiting = [ticket for ticket in every if ticket.state is not _IN_FLIGHT]
        self.active = Counter([ticket.request.lane for ticket in self.in_flight])
        """In flight, by lane."""
        self.queued = Counter([ticket.request.lane for ticket in waiting if ticket.state is _QUEUED])
        self.backing_off = Counter([ticket.request.lane for ticket in waiting if ticket.state is _BACKING_OFF])


def _some(items: Iterable[T], check: Callable[[T], Iterator[Violation]]) -> Iterator[list[Violation]]:
    """Check some of the items at a time; each is of a moment of its own."""
    rest = iter(list(items))
    while some := list(islice(rest, AT_ONCE)):
        yield [violation for each in some for violation in check(each)]


def _counts(scheduler: Scheduler) -> Iterator[Violation]:
    """Compare each counter of a lane with the tickets that it counts."""
    tickets = _Tickets(scheduler)
    for lane in scheduler.lanes.values():
        yield from _lane(lane, tickets)
    yield from _slots(scheduler, tickets)
    yield from _windows(scheduler, tickets)


def _agent(agent: Agent) -> Iterator[Violation]:
    in_flight = 0
    for ticket in agent.tickets.values():
        if ticket.state is _IN_FLIGHT:
            in_flight += 1
        elif ticket.state is TicketState.DONE:
            text = f"Request {ticket.id} is done, but is still kept."
            yield Violation("agent", ticket.request.lane, agent.name, text)
    if agent.in_flight != in_flight:
        counted = _plural(agent.in_flight, "request")
        yield Violation("agent", "", agent.name, f"The agent counts {counted} in flight, but has {in_flight}.")
    held = agent.on_hold or agent.gate != "open" or agent.out_of_budget
    if agent.held is not held:
        yield Violation("hold", "", agent.name, f"The agent is{_not(agent.held)} held, but should{_not(held)} be.")


def _lane(lane: Lane, tickets: _Tickets) -> Iterator[Violation]:
    key, queue = lane.key, lane.queue
    if queue.waiting != tickets.queued[key]:
        text = f"The queue counts {_requests(queue.waiting)}, but {_waiting(tickets.queued[key])} in it."
        yield Violation("queue", key, "", text)
    if len(lane.backing_off) != tickets.backing_off[key]:
        listed, real = len(lane.backing_off), tickets.backing_off[key]
        text = f"{_are(listed, 'request')} listed between two attempts, but {_are(real, 'request')} there."
        yield Violation("backoff", key, "", text)


def _slots(scheduler: Scheduler, tickets: _Tickets) -> Iterator[Violation]:
    totals: dict[int, tuple[Lane, int]] = {}
    for key, lane in scheduler.lanes.items():
        active = tickets.active[key]
        if lane.gate.active != active:
            yield Violation(
                "slots", key, "", f"{_are(lane.gate.active, 'slot')} taken, but {_are(active, 'attempt')} in flight."
            )
        if lane.leasing is not None and sum(lane.leasing.in_flight) != active:
            counted = _plural(sum(lane.leasing.in_flight), "request")
            yield Violation("lease", key, "", f"The lease counts {counted} in flight by class, but has {active}.")
        if lane.total is not None:
            _, others = totals.get(id(lane.total), (lane, 0))
            totals[id(lane.total)] = lane, others + active
    for lane, active in totals.values():
        assert lane.total is not None
        if lane.total.active != active:
            taken, name = lane.total.active, lane.config.upstream
            text = f"{_are(taken, 'slot')} taken of upstream {name}, but {_are(active, 'attempt')} in flight there."
            yield Violation("upstream", lane.key, "", text)
    for key, lane in scheduler.lanes.items():
        if (probe := lane.circuit.probe) is not None and all(each.id != probe for each in tickets.in_flight):
            yield Violation("probe", key, "", f"The circuit waits for request {probe}, which isn't in flight.")


def _limited(scheduler: Scheduler) -> dict[Account, None]:
    """Return the accounts with a budget that requests of agents at hand are charged to."""
    return dict.fromkeys(account for agent in scheduler.agents.values() for account in agent.limits)


def _account(scheduler: Scheduler, account: Account) -> Iterator[Violation]:
    if not account.budget:
        return  # it was taken away a moment ago
    name = account.owner or ""
    of = "The pool" if account.owner is None else "The agent's account"
    members = [agent for each in account.members if (agent := scheduler.agents.get(each)) is not None]
    held = [ticket for agent in members for ticket in agent.tickets.values() if ticket.state is _IN_FLIGHT]
    count, tokens = len(held), sum([ticket.reserved_tokens for ticket in held])
    dollars = sum([ticket.reserved_dollars for ticket in held])
    if account.in_flight != count:
        text = f"{of} counts {_plural(account.in_flight, 'request')} in flight, but has {count}."
        yield Violation("budget", "", name, text)
    if account.reserved_tokens != tokens:
        text = f"{of} reserves {_plural(account.reserved_tokens, 'token')}, but requests in flight hold {tokens:,}."
        yield Violation("budget", "", name, text)
    if not _near(account.reserved_dollars, dollars):
        text = f"{of} reserves ${account.reserved_dollars:.6f}, but requests in flight hold ${dollars:.6f}."
        yield Violation("budget", "", name, text)
    if account.shut is not account.full:
        yield Violation("budget", "", name, f"{of} is{_not(account.shut)} shut, but should{_not(account.full)} be.")
    if account.short and not count and account.shared is None:  # else they wait for another proxy's, perhaps
        agents = _plural(len(account.short), "agent waits", "agents wait")
        text = f"{agents} for requests of the account to end, but none is in flight."
        yield Violation("budget", "", name, text)


def _windows(scheduler: Scheduler, tickets: _Tickets) -> Iterator[Violation]:
    reserved: dict[Window, float] = {}
    pending: dict[Window, float] = {}
    for ticket in tickets.in_flight:
        for taken_from, charge in ticket.reservation or ():
            window = taken_from.present
            if not charge.settled and not charge.expired:
                reserved[window] = reserved.get(window, 0.0) + charge.amount
            if not charge.confirmed:
                pending[window] = pending.get(window, 0.0) + charge.amount
    for key, lane in scheduler.lanes.items():
        for family, allowance in lane.allowances.items():
            for kind, window in allowance.windows.items():
                name = f"The window of {kind.value} for {family}" if family else f"The window of {kind.value}"
                for counted, held, what in (
                    (window.reserved, reserved.get(window, 0.0), "reserves"),
                    (window.stated.pending, pending.get(window, 0.0), "awaits replies for"),
                ):
                    if not _near(counted, held):
                        text = f"{name} {what} {counted:g}, but requests in flight hold {held:g}."
                        yield Violation("window", key, "", text)


def _timers(scheduler: Scheduler) -> Iterator[Violation]:
    """Check that each waiting ticket, and each lane that is to be looked at again, has a timer."""
    subjects = scheduler.timers.subjects
    for key, lane in scheduler.lanes.items():
        if not math.isinf(lane.wake_at) and lane not in subjects:
            yield Violation("timer", key, "", "The lane is to be looked at again, but no timer is set for that.")
    for agent in scheduler.agents.values():
        if len(agent.tickets) == agent.in_flight:
            continue
        for ticket in set(agent.tickets.values()) - subjects:
            if ticket.state is _IN_FLIGHT:
                continue
            if ticket.state is _BACKING_OFF or not math.isinf(ticket.expires_at):
                text = f"Request {ticket.id} waits, but no timer ends that."
                yield Violation("timer", ticket.request.lane, agent.name, text)


def _holds(scheduler: Scheduler, lane: Lane) -> Iterator[Violation]:
    """Check that the queue leaves out the agents that are held, and no others."""
    for name, left_out in lane.queue.agents():
        agent = scheduler.agents.get(name)
        if agent is not None and agent.held is not left_out:
            text = f"The queue {'leaves out' if left_out else 'offers'} the agent, which is{_not(agent.held)} held."
            yield Violation("hold", lane.key, name, text)


def _overdue(scheduler: Scheduler, lane: Lane, now: float) -> Iterator[Violation]:
    """Check that what is next of an agent passes none of its requests that are overdue."""
    heads = {(each.agent, family, priority): each for family, priority, _, each in lane.queue.in_line(now)}
    for agent in scheduler.agents.values() if heads else ():
        for ticket in agent.tickets.values():
            request = ticket.request
            if ticket.state is not _QUEUED or request.lane != lane.key or ticket.overdue_at > now:
                continue
            head = heads.get((agent, request.family, ticket.priority))
            if head is not None and head.overdue_at > ticket.overdue_at:
                wait_s = now - ticket.arrived_at + request.waited_s
                text = f"Request {ticket.id} has waited for {wait_s:.1f} s, but request {head.id} would pass it."
                yield Violation("overdue", lane.key, agent.name, text)


def _waits(scheduler: Scheduler, lane: Lane, now: float) -> Iterator[Violation]:
    """Check that nothing waits in the lane while it could be sent, nor for something that never comes."""
    if not lane.queue.waiting or scheduler.paused or scheduler.draining or lane.wake_at <= now + AWAITED_S:
        return  # by a timer that is about due, it will be looked at anyway
    if _is_open(lane, now):
        ready = lane.queue.ready(now, lane.delay_s)
        if ready is not None and scheduler.ledger.short_of(ready, now) is None and not _end_is_due(scheduler, lane):
            text = f"Request {ready.id} waits although {_free(lane)} and nothing else forbids it."
            yield Violation("idle", lane.key, ready.agent.name, text)
            return
    if not (math.isinf(lane.wake_at) and lane.queue.in_order) or lane.circuit.forced == "open":
        return
    if lane.leasing is not None and (not lane.gate.free or lane.circuit.shared or now >= lane.leased_until):
        return  # it waits for the next lease
    if not _ends(scheduler, lane) and (oldest := _oldest(scheduler, lane)) is not None:
        gates = {hold.ticket: hold.gate for hold in lane_state(lane, now, paused=False).upcoming}
        wait_s = now - oldest.arrived_at
        text = (
            f"{_waiting(lane.queue.waiting)}, but no attempt is in flight and no timer is set; the oldest, number"
            f" {oldest.id}, has waited for {wait_s:.1f} s (gate: {gates.get(oldest.id, 'next')})."
        )
        yield Violation("stuck", lane.key, oldest.agent.name, text)


def _is_open(lane: Lane, now: float) -> bool:
    """Whether the lane admits one more, as :meth:`.lane.Lane.closed_until` tells, which notes that it was asked."""
    if now < max(lane.paused_until, lane.next_grant_at) or now >= lane.leased_until:
        return False
    if lane.shut_for_all:
        return False
    return lane.gate.free and (lane.total is None or lane.total.free)


def _lacks_credits(lane: Lane, now: float) -> bool:
    """Whether a ticket that is next of its family waits for the lane's lease, which may take as long as the others
    need."""
    return lane.leasing is not None and any(
        lane.allowances[family].waits_for_lease(now, ticket) for family, ticket in lane.queue.first(now).items()
    )


def _end_is_due(scheduler: Scheduler, lane: Lane) -> bool:
    """Whether an error of the lane has stated its rate limits, and the attempt's end is reported next. What it states
    holds from then on."""
    return any(
        ticket.state is _IN_FLIGHT and ticket.ending
        for agent in scheduler.agents.values()
        if agent.in_flight
        for ticket in agent.tickets.values()
        if ticket.request.lane == lane.key
    )


def _ends(scheduler: Scheduler, lane: Lane) -> bool:
    """Whether an attempt is in flight whose end makes the lane look again."""
    return any(
        ticket.state is _IN_FLIGHT
        and (ticket.request.lane == lane.key or _shares_slots(lane, scheduler.lanes.get(ticket.request.lane)))
        for agent in scheduler.agents.values()
        if agent.in_flight
        for ticket in agent.tickets.values()
    )


def _shares_slots(lane: Lane, other: Lane | None) -> bool:
    return lane.total is not None and other is not None and other.total is lane.total


def _oldest(scheduler: Scheduler, lane: Lane) -> Ticket | None:
    waiting = (
        ticket
        for agent in scheduler.agents.values()
        for ticket in agent.tickets.values()
        if ticket.state is _QUEUED and ticket.request.lane == lane.key
    )
    return min(waiting, key=lambda ticket: ticket.arrived_at, default=None)


def _near(counted: float, real: float) -> bool:
    return math.isclose(counted, real, rel_tol=_ROUNDING, abs_tol=1e-6)


def _plural(number: int, one: str, many: str = "") -> str:
    """As :func:`hivemind.text.humanise.plural`, which is of a layer above."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _are(number: int, one: str) -> str:
    return _plural(number, f"{one} is", f"{one}s are")


def _requests(number: int) -> str:
    return _plural(number, "waiting request")


def _waiting(number: int) -> str:
    return _plural(number, "request waits", "requests wait")


def _free(lane: Lane) -> str:
    return "slots are free" if math.isinf(lane.vacant) else f"{_are(int(lane.vacant), 'slot')} free"


def _not(yes: bool) -> str:
    return "" if yes else " not"
