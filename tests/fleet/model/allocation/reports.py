"""What a member tells the allocator: what it holds, used and wants, and what happened to it."""

from __future__ import annotations

import math

from fleet.model.allocation.state import (
    CLASSES,
    PERIOD_S,
    SPARE,
    Circuit,
    Member,
    MemberWindow,
    State,
    Window,
    add_use,
    ceiling,
    held,
    used_in_minute,
    window_of,
)

from hivemind.fleet.messages import CREDITS_TTL_S, Report, WindowDemand


def take_report(state: State, report: Report, now: float) -> Member:
    """Note what a member holds and wants."""
    member = state.members.get(report.member)
    if member is None:
        member = state.members[report.member] = Member(report.seq, now)
    if report.epoch and report.epoch != state.epoch:
        # It knows a state that was lost, so there are others who do.
        state.learn_until = max(state.learn_until, state.begun_at + CREDITS_TTL_S)
        state.cuts = max(state.cuts, report.cuts)
        state.circuit.trips = max(state.circuit.trips, report.trips)
        if report.level is not None and now < state.learn_until:
            state.level = report.level if state.level is None else min(state.level, report.level)
    turn_minute(member, now)
    member.seq, member.heard_at, member.kicked = report.seq, now, False
    member.flying = whole(report.flying)
    member.waiting = whole(report.waiting)
    member.agents = padded(report.agents, CLASSES)
    member.ceiling = report.ceiling
    if member.flying[0] + member.waiting[0] > 0:
        state.critical_at = now
    for name in report.windows:
        window_of(state, name, now)
    for name in state.windows:
        mine = member.windows.setdefault(name, MemberWindow(unmet_since=now))
        # A window that isn't told of is one in which nothing is held, wanted or new.
        demand = report.windows.get(name) or WindowDemand(limit=mine.limit, rank=mine.rank)
        take_demand(state.windows[name], mine, demand, now)
    return member


def turn_minute(member: Member, now: float) -> None:
    """Begin another minute of what the member used, if the clock has."""
    minutes = int(now / PERIOD_S) - int(member.heard_at / PERIOD_S)
    if minutes:
        for mine in member.windows.values():
            mine.mine_before = mine.mine if minutes == 1 else 0.0
            mine.mine = 0.0


def take_demand(window: Window, mine: MemberWindow, demand: WindowDemand, now: float) -> None:
    """Note what a member holds and wants of a window."""
    if mine.lapsed > 0:  # it is back, and tells itself what it used
        add_use(window, mine.lapsed_at, -mine.lapsed, now)
        mine.lapsed = 0.0
    mine.wanted = padded(demand.wanted, SPARE + 1)
    mine.left = demand.left
    mine.first = max(demand.first, 0.0)
    mine.rank = demand.rank
    mine.limit = demand.limit if demand.rank != 1 else None
    if demand.rank == 1 and window.limit is None:
        window.limit = demand.limit


def take_use(state: State, member: Member, report: Report, now: float) -> None:
    """Add what a member used to the ring, and hear what the headers state.

    A member that learns of a new epoch tells its last minute once, from which a lost state rebuilds itself; what it
    used since the report before is part of that.
    """
    if report.epoch == state.epoch:
        for name in sorted(report.windows if not report.minute else report.minute):
            uses = report.minute[name] if report.minute else report.windows[name].used
            window = window_of(state, name, now)
            mine = member.windows.setdefault(name, MemberWindow(unmet_since=now))
            for age_s, amount in uses:
                add_use(window, int(now - max(age_s, 0.0)), amount, now)
                mine.mine += amount
        if report.minute:
            state.learn_until = max(state.learn_until, min(state.begun_at + CREDITS_TTL_S, now + CREDITS_TTL_S))
    for name in sorted(report.windows):
        take_statement(state, name, report.windows[name], now)


def take_statement(state: State, name: str, demand: WindowDemand, now: float) -> None:
    """Let the provider's own count correct ours: what it counts beyond all that members used or hold, others used.

    What they hold is taken off, because they may have used it without having said so yet. A state that is learning
    doesn't know enough to compare.
    """
    stated, window = demand.stated, state.windows[name]
    if stated is None or stated.limit <= 0 or now - stated.age_s < window.stated_at:
        return
    window.limit = stated.limit
    if now < state.learn_until:
        return
    window.stated_at = now - stated.age_s
    ours = used_in_minute(window, now) + held(state, name)
    window.foreign = max(0.0, stated.limit - max(stated.remaining, 0.0) - ours)


def take_level(state: State, report: Report, now: float) -> None:
    """Move the concurrency level as :class:`~hivemind.scheduler.admission.aimd.Aimd` does for one proxy.

    A cut belongs to a number of cuts, so that one congestion that several members meet cuts once.
    """
    top = ceiling(state)
    if report.pin is not None:
        state.pinned = min(max(report.pin, report.floor), top) if report.pin > 0 else None
        state.level, state.changed_at = state.pinned if state.pinned is not None else state.level, now
    if state.pinned is not None:
        return
    if report.cut is not None and report.cuts == state.cuts:
        height = min(state.level if state.level is not None else math.inf, top)
        if math.isinf(height):
            height = float(sum(sum(each.flying) for each in state.members.values()))
        state.level = max(min(report.floor, top), height * report.cut)
        state.cuts += 1
        state.changed_at = now
    elif report.grow > 0 and state.level is not None and now - state.changed_at >= report.settle_s:
        state.level += report.grow
        state.changed_at = now
    if state.level is not None and state.level >= top:
        state.level = None  # at the ceiling, and follows it up


def take_pause(state: State, report: Report, now: float) -> None:
    """Pause for all what the provider asked one for. A member that doesn't know yet that an operator ended the pause
    still tells of it, which doesn't count."""
    if report.resumed:
        state.pause_until = now
        state.resumed_in = state.version
    elif report.paused_for_s > 0 and (report.epoch != state.epoch or report.version >= state.resumed_in):
        state.pause_until = max(state.pause_until, now + report.paused_for_s)


def take_circuit(state: State, report: Report, now: float) -> None:
    """Open and close the circuit for all, and let one member send the probe."""
    circuit = state.circuit
    idle = sum(report.waiting) == 0
    if report.forced is not None:
        circuit.forced = report.forced if report.forced in ("open", "closed") else None
        circuit.open = report.forced in ("open", "probe")
        circuit.reopens_at = now if report.forced == "probe" else None
        circuit.prober = None
        circuit.trips += 1
    elif circuit.forced is None and report.trips == circuit.trips:
        if not circuit.open and report.opened_for_s is not None:
            trip(circuit, report.opened_for_s, now)
        elif circuit.open and circuit.prober == report.member and report.probe_ok is not None:
            if report.probe_ok:
                circuit.open, circuit.reopens_at, circuit.prober = False, None, None
                circuit.trips += 1
            else:
                trip(circuit, report.opened_for_s if report.opened_for_s is not None else circuit.open_for_s, now)
    if circuit.prober == report.member and idle and sum(report.flying) == 0:
        circuit.prober = None
    ripe = circuit.open and circuit.reopens_at is not None and now >= circuit.reopens_at
    if ripe and circuit.prober is None and not idle and not report.leaving:
        circuit.prober = report.member


def trip(circuit: Circuit, open_for_s: float, now: float) -> None:
    """Open the circuit for so long."""
    circuit.open, circuit.open_for_s, circuit.reopens_at, circuit.prober = True, open_for_s, now + open_for_s, None
    circuit.trips += 1


def padded(values: list[float], length: int) -> list[float]:
    """Return the values by class, those that weren't told as 0, none below."""
    return [max(float(value), 0.0) for value in values[:length]] + [0.0] * (length - len(values))


def whole(values: list[int]) -> list[int]:
    """Return the counts by class, those that weren't told as 0, none below."""
    return [max(value, 0) for value in values[:CLASSES]] + [0] * (CLASSES - len(values))
