"""What each member of a fleet may use of one lane: the function that the store runs for every sync.

:func:`sync` takes the lane's state and one member's report, and returns the answer. It does no I/O and has no clock and
no randomness of its own. In production `allocator.lua` does the same inside the store, function by function under the
same names; tests hold one against the other. Times are seconds of the store's clock, lists by class have the priority
classes first and the spare (:data:`~hivemind.scheduler.lease.SPARE`) last.

Rate windows are leased as credits, because a rate that moves between members is spent twice inside one minute. Whoever
holds credits uses them up or gives them back; until then they count as used.
"""

from __future__ import annotations

from fleet.model.allocation.reports import take_circuit, take_level, take_pause, take_report, take_use
from fleet.model.allocation.slots import share_slots
from fleet.model.allocation.state import (
    PERIOD_S,
    SPARE,
    MemberWindow,
    OtherProtocol,
    State,
    begin_epoch,
    expire,
    is_stale,
    level_of,
    limit_of,
    relearn,
    used_in_minute,
)
from fleet.model.allocation.windows import room_of, share_window

from hivemind.fleet.messages import KICK_APART_S, PROTOCOL, RING_S, Reply, Report, WindowLease


def sync(state: State | None, report: Report, now: float, seed: str) -> tuple[State, Reply]:
    """Take in a report at `now`, and answer it. The state passed in is used up: the one returned replaces it.

    `seed` is random and goes into the name of an epoch, should one begin.

    Raises:
        OtherProtocol: The report, or a state in use, is of another protocol.
    """
    if report.protocol != PROTOCOL:
        raise OtherProtocol(f"the report is of protocol {report.protocol}, this is {PROTOCOL}")
    if state is not None and state.protocol != PROTOCOL:
        if now - state.now < RING_S:
            raise OtherProtocol(f"the state is of protocol {state.protocol}, this is {PROTOCOL}")
        state = None
    if state is None or is_stale(state, report, now):
        state = begin_epoch(state, report, now, seed)
    now = state.now = max(state.now, now)
    member = state.members.get(report.member)
    if member is not None and report.seq <= member.seq:
        return state, answer(state, report.member, now, [])
    state.version += 1
    relearn(state, report, now)
    expire(state, now)
    member = take_report(state, report, now)
    take_use(state, member, report, now)
    take_level(state, report, now)
    take_pause(state, report, now)
    take_circuit(state, report, now)
    kick: set[str] = set()
    if report.leaving:
        del state.members[report.member]
        if state.circuit.prober == report.member:
            state.circuit.prober = None
        return state, answer(state, report.member, now, [])
    for name in sorted(state.windows):
        mine = member.windows[name]
        mine.gave = share_window(state, name, report.member, now, kick)
        mine.left += mine.gave
    share_slots(state, report.member, now, kick)
    return state, answer(state, report.member, now, kicked(state, report.member, now, kick))


def kicked(state: State, me: str, now: float, kick: set[str]) -> list[str]:
    """Return whom to kick: nobody twice before it has synced, or just after that."""
    names = []
    for name in sorted(kick):
        member = state.members[name]
        if name == me or (not member.kicked and now - member.heard_at >= KICK_APART_S):
            member.kicked = True
            names.append(name)
    return names


def answer(state: State, me: str, now: float, kick: list[str]) -> Reply:
    """Return what a member may use. It follows from the state alone, so that a repeated report is answered as it was
    the first time, if nothing has changed since; what was given then is part of the state."""
    member = state.members.get(me)
    level = level_of(state)
    circuit = state.circuit
    mode = "closed" if not circuit.open else "probe" if circuit.prober == me else "open"
    return Reply(
        state.epoch,
        state.version,
        learning=now < state.learn_until,
        windows={name: window_lease(state, name, member.windows[name], now) for name in sorted(member.windows)}
        if member is not None
        else {},
        slots=None if level is None or member is None else member.slots,
        level=level,
        cuts=state.cuts,
        paused_for_s=max(0.0, state.pause_until - now),
        circuit=mode,  # type: ignore[arg-type]
        trips=circuit.trips,
        reopens_in_s=None if circuit.reopens_at is None else max(0.0, circuit.reopens_at - now),
        forced=circuit.forced,  # type: ignore[arg-type]
        pinned=state.pinned,
        members=len(state.members),
        flying=sum(sum(each.flying) for each in state.members.values()),
        waiting=sum(sum(each.waiting) for each in state.members.values()),
        kick=kick,
    )


def window_lease(state: State, name: str, mine: MemberWindow, now: float) -> WindowLease:
    """Return what a member is told of a window."""
    window = state.windows[name]
    fresh = 1.0 - (now % PERIOD_S) / PERIOD_S
    limit = limit_of(state, name)
    return WindowLease(
        give=mine.gave,
        limit=limit,
        room=None if limit is None else room_of(state, name, limit, now),
        used=used_in_minute(window, now),
        mine=max(0.0, mine.mine + mine.mine_before * fresh),
        tight=0 <= window.marginal < SPARE,
    )
