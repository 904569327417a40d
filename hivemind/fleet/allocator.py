"""What each member of a fleet may use of one lane: the function that the store runs for every sync.

:func:`sync` takes the lane's state and one member's report, and returns the answer. It does no I/O and has no clock and
no randomness of its own. In production `allocator.lua` does the same inside the store, function by function under the
same names; tests hold one against the other. Times are seconds of the store's clock, lists by class have the priority
classes first and the spare (:data:`~hivemind.scheduler.lease.SPARE`) last.

Rate windows are leased as credits, because a rate that moves between members is spent twice inside one minute. Whoever
holds credits uses them up or gives them back; until then they count as used.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

from hivemind.fleet.messages import (
    CREDITS_TTL_S,
    KICK_APART_S,
    PROTOCOL,
    RING_S,
    SLOTS_TTL_S,
    SYNC_S,
    Reply,
    Report,
    WindowDemand,
    WindowLease,
)

CLASSES = 4
SPARE = 4
PERIOD_S = 60.0
FRESH_S = 1.25
"""How long the state of an empty key gives nothing if it is told by a proxy that has just started. The fleet may be as
new, or the key was lost and others haven't synced yet, which takes an idle one a second."""
AGEING_S = 30.0
"""A class that waits without being given anything counts one higher for each of these, as in the local queue."""
OVERDUE_S = 60.0
"""A member that waits for so long without being given anything is next in its class, as an agent in the local queue;
room for a large request gathers only so."""
MAX_SHARE = 0.9
"""A request larger than this share of a limit needs only so much, as locally, or it would never be sent."""
RESERVE = 0.01
"""Share of a limit that only CRITICAL is given, as long as there are such requests: a full window frees little in any
one second."""
RESERVED_FOR_S = 120.0
"""After the last CRITICAL request."""
SLOT_MOVES_S = 1.0
"""Slot-seconds by which a member without a slot must be behind one that has it to get it instead."""
MOST_OWED_S = 60.0
"""Slot-seconds that a member can be behind or ahead at most."""
BACKWARDS_S = 60.0
"""A clock that goes back further than this begins a new epoch; until then the latest time counts."""
EPS = 1e-6
"""Amounts below this are rounding."""


class OtherProtocol(Exception):
    """The state of the lane is of another protocol than the report, so proxies of two versions share it."""


class MemberWindow(Struct):
    """What a member last told of one window, and what it is due."""

    wanted: list[float] = field(default_factory=lambda: [0.0] * 5)
    left: float = 0.0
    first: float = 0.0
    limit: float | None = None  # as told, if not from headers
    rank: int = 0
    due: float = 0.0
    """Its account: its part of what has become free since its class doesn't fit as a whole; below 0 after a turn."""
    gave: float = 0.0  # in the last answer
    unmet_since: float = 0.0
    """Since when it wants something and was given nothing."""
    mine: float = 0.0  # used in this minute of the clock
    mine_before: float = 0.0  # and in the one before
    lapsed: float = 0.0  # credits that counted as spent when it fell silent
    lapsed_at: int = 0  # the second of the ring in which they did


class Member(Struct):
    """One member of the fleet."""

    seq: int
    heard_at: float
    flying: list[int] = field(default_factory=lambda: [0] * CLASSES)
    waiting: list[int] = field(default_factory=lambda: [0] * CLASSES)
    agents: list[float] = field(default_factory=lambda: [0.0] * CLASSES)
    slots: int = 0  # as last answered
    slots_before: int = 0  # as answered before that: in force until the next report shows that the answer has come
    owed: float = 0.0  # slot-seconds by which it is behind its share
    kicked: bool = False  # since its last report
    ceiling: float | None = None
    windows: dict[str, MemberWindow] = field(default_factory=dict)


class Window(Struct):
    """One window of the lane."""

    ring: list[float] = field(default_factory=lambda: [0.0] * RING_S)
    """What was used, by second modulo the length."""
    second: int = 0  # the newest of the ring
    limit: float | None = None  # as stated by headers
    foreign: float = 0.0  # used by other clients of the key, as of the newest statement
    stated_at: float = 0.0
    marginal: int = -1  # class that doesn't fit as a whole; -1: all fits
    served_at: list[float] = field(default_factory=lambda: [0.0] * CLASSES)
    """By class: when it was last given something, or wanted nothing."""


class Circuit(Struct):
    """The circuit of the lane."""

    open: bool = False
    trips: int = 0
    reopens_at: float | None = None
    open_for_s: float = 0.0
    prober: str | None = None  # the member that sends the probe
    forced: str | None = None


class State(Struct):
    """All that is known of one lane."""

    protocol: int
    epoch: str
    """Milliseconds of its beginning in 13 digits, and random ones: of two states the later one is known."""
    now: float  # of the last sync
    begun_at: float
    learn_until: float
    version: int = 0
    pause_until: float = 0.0
    resumed_in: int = 0  # version in which an operator ended a pause
    level: float | None = None  # None: at the ceiling
    cuts: int = 0
    changed_at: float = 0.0  # the level
    pinned: float | None = None
    critical_at: float = 0.0  # when there last were CRITICAL requests
    served_at: list[float] = field(default_factory=lambda: [0.0] * CLASSES)
    """By class: when it last had a request in flight, or none waited."""
    owed_at: float = 0.0  # as of when slot-seconds are counted
    circuit: Circuit = field(default_factory=Circuit)
    windows: dict[str, Window] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)


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


# --- what has been


def is_stale(state: State, report: Report, now: float) -> bool:
    """Whether the state has lost writes (a failover to a replica that was behind, a clock set back)."""
    if state.now - now > BACKWARDS_S or begun_ms(report.epoch) > begun_ms(state.epoch):
        return True
    return report.epoch == state.epoch and report.version > state.version


def begun_ms(epoch: str) -> int:
    """Return when an epoch began; 0: none."""
    digits = epoch[:13]
    return int(digits) if digits.isdecimal() and digits.isascii() else 0


def begin_epoch(state: State | None, report: Report, now: float, seed: str) -> State:
    """Return a state that knows nothing, and gives nothing until those who do have told it."""
    earlier = max(begun_ms(report.epoch), begun_ms(state.epoch) if state is not None else 0)
    begun = max(int(now * 1000), earlier + 1)
    learn_s = CREDITS_TTL_S if report.epoch or state is not None else FRESH_S
    return State(PROTOCOL, f"{begun:013d}{seed}", now, now, now + learn_s, owed_at=now, served_at=[now] * CLASSES)


def relearn(state: State, report: Report, now: float) -> None:
    """After the store was away for all, give nothing until the others have told what they used meanwhile."""
    others = [each for name, each in state.members.items() if name != report.member]
    heard_at = max((each.heard_at for each in state.members.values()), default=now)
    if others and now - heard_at >= CREDITS_TTL_S:
        state.learn_until = max(state.learn_until, now + CREDITS_TTL_S)


def expire(state: State, now: float) -> None:
    """Count the credits of silent members as spent, and forget those that were silent for longer."""
    for name in sorted(state.members):
        member = state.members[name]
        silent_s = now - member.heard_at
        if silent_s >= CREDITS_TTL_S:
            lapse(state, member, now)
        if silent_s >= SLOTS_TTL_S:
            del state.members[name]
            if state.circuit.prober == name:
                state.circuit.prober = None


def lapse(state: State, member: Member, now: float) -> None:
    """Count what a member holds as spent at the last moment at which it could spend it, and its wishes as gone."""
    second = int(member.heard_at + CREDITS_TTL_S)
    member.waiting = [0] * CLASSES
    for name in sorted(member.windows):
        mine = member.windows[name]
        mine.wanted, mine.first, mine.due = [0.0] * 5, 0.0, 0.0
        if mine.left > 0:
            add_use(state.windows[name], second, mine.left, now)
            mine.lapsed, mine.lapsed_at = mine.left, second
        mine.left = 0.0


def add_use(window: Window, second: int, amount: float, now: float) -> None:
    """Add to what was used in a second; those that have left the ring are of no interest."""
    newest = int(now)
    if newest > window.second:
        for passed in range(max(window.second, newest - RING_S) + 1, newest + 1):
            window.ring[passed % RING_S] = 0.0
        window.second = newest
    if window.second - RING_S < second:
        window.ring[min(second, window.second) % RING_S] += amount


# --- what a member tells


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


def window_of(state: State, name: str, now: float) -> Window:
    """Return a window of the lane, made if it is new."""
    if name not in state.windows:
        state.windows[name] = Window(second=int(now), served_at=[now] * CLASSES)
    return state.windows[name]


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


def ceiling(state: State) -> float:
    """Return the smallest of the members' ceilings; inf: none has one."""
    return min((each.ceiling for each in state.members.values() if each.ceiling is not None), default=math.inf)


def level_of(state: State) -> float | None:
    """Return the level in force; None: no limit."""
    if state.pinned is not None:
        return state.pinned
    level = min(state.level if state.level is not None else math.inf, ceiling(state))
    return None if math.isinf(level) else level


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


# --- sharing a rate window


def share_window(state: State, name: str, me: str, now: float, kick: set[str]) -> float:
    """Return the credits that a member gets of a window.

    Class by class: one whose unmet demand fits is met whole, whoever of it syncs. The first that doesn't (the marginal
    one) is shared through accounts (:func:`share_margin`), and nothing is left for those below.
    """
    window, mine = state.windows[name], state.members[me].windows[name]
    limit = limit_of(state, name)
    if limit is None:
        window.marginal = -1
        return max(0.0, sum(mine.wanted) - mine.left)
    shift = ages(window.served_at, now)
    needs = {each: needs_of(state.members[each].windows.get(name), shift) for each in sorted(state.members)}
    room = room_of(state, name, limit, now)
    closed = now < state.pause_until or now < state.learn_until
    give, marginal = 0.0, -1
    whole_until = SPARE + 1
    for cls in range(SPARE + 1):
        if cls == 1 and now - state.critical_at < RESERVED_FOR_S:
            room = max(0.0, room - RESERVE * limit)
        total = sum(need[cls] for need in needs.values())
        if total > room + EPS:
            marginal = whole_until = cls
            break
        room -= total
        give += needs[me][cls]
    if closed:
        return 0.0
    part = 0.0
    if marginal >= 0:
        part = share_margin(state, name, needs, marginal, room, give, limit, shift, me, now, kick)
    else:
        for each in state.members.values():
            if name in each.windows:
                each.windows[name].due = 0.0
    window.marginal = marginal
    give += part
    for other in needs:
        if other != me:
            ask_back_or_offer(state.members[other].windows.get(name), other, needs[other], whole_until, limit, kick)
    note_served(state, name, me, shift, whole_until if part <= EPS else whole_until + 1, now)
    if give > EPS or sum(needs[me][:SPARE]) <= EPS:
        mine.unmet_since = now
    return give


def limit_of(state: State, name: str) -> float | None:
    """Return the limit in force: the smallest that settings name, but not above the headers'; else the headers'; else
    the smallest that a profile assumes. None: there is none."""
    by_rank: list[float | None] = [None, state.windows[name].limit, None]
    for member in state.members.values():
        mine = member.windows.get(name)
        if mine is not None and mine.limit is not None and mine.rank != 1:
            known = by_rank[mine.rank]
            by_rank[mine.rank] = mine.limit if known is None else min(known, mine.limit)
    profile, headers, settings = by_rank
    if settings is not None:
        return settings if headers is None else min(settings, headers)
    return headers if headers is not None else profile


def used_in_minute(window: Window, now: float) -> float:
    """Return what all used in the seconds that the ring holds."""
    add_use(window, int(now), 0.0, now)
    return max(0.0, sum(window.ring))


def held(state: State, name: str) -> float:
    """Return the credits that all members hold."""
    return sum(max(each.windows[name].left, 0.0) for each in in_order(state) if name in each.windows)


def in_order(state: State) -> list[Member]:
    """Return the members in the order of their names, so that sums come out the same everywhere."""
    return [state.members[name] for name in sorted(state.members)]


def room_of(state: State, name: str, limit: float, now: float) -> float:
    """Return what may still be given of a window."""
    window = state.windows[name]
    free = limit
    if window.limit is not None and now - window.stated_at < PERIOD_S:
        free = min(free, window.limit - window.foreign)
    return max(0.0, free - used_in_minute(window, now) - held(state, name))


def ages(served_at: list[float], now: float) -> list[int]:
    """Return the class that each class counts as; the spare doesn't age."""
    return [max(0, cls - int((now - served_at[cls]) / AGEING_S)) for cls in range(CLASSES)] + [SPARE]


def needs_of(mine: MemberWindow | None, shift: list[int]) -> list[float]:
    """Return what a member wants beyond what it holds, by the class that it counts as; higher classes use up first what
    it holds, and a debt is paid first."""
    need = [0.0] * (SPARE + 1)
    if mine is None:
        return need
    left = mine.left
    for cls in range(SPARE + 1):
        if mine.wanted[cls] > 0:
            lacks = mine.wanted[cls] - left
            left = max(-lacks, 0.0)
            need[shift[cls]] += max(lacks, 0.0)
    return need


def lack_of(mine: MemberWindow, base: float, limit: float) -> float:
    """Return what a member that holds `base` lacks for its next request; at most 0: nothing, or none waits."""
    return min(mine.first, MAX_SHARE * limit) - base if mine.first > 0 else 0.0


def share_margin(
    state: State,
    name: str,
    needs: dict[str, list[float]],
    cls: int,
    room: float,
    given: float,
    limit: float,
    shift: list[int],
    me: str,
    now: float,
    kick: set[str],
) -> float:
    """Return a member's part of the room that is left for the class that doesn't fit.

    Dividing what is there at each sync favours whoever syncs first. So what becomes free is divided at once between the
    accounts of all who want some, and each gets its account at its own sync. A part of a request doesn't help, so that
    with small limits or large requests one member at a time gets what the others' accounts hold, and its own goes below
    0 (deficit round robin, Shreedhar and Varghese 1995).
    """
    unmet = contenders(state, name, needs, cls, room, limit, shift, now)
    settle_accounts(state, name, needs, cls, room, unmet, shift)
    part = 0.0
    mine = state.members[me].windows[name]
    if me in unmet:
        base = mine.left + given
        lack = lack_of(mine, base, limit)
        account = min(mine.due, needs[me][cls], room)
        if lack > account + EPS:
            covered, next_one = turns(state, name, needs, cls, unmet, limit, shift, me, now)
            if next_one == me and lack <= room - covered + EPS:
                part = lack
        elif account > 0:
            part = whole_requests(mine, name, base, account, needs[me][cls], limit)
        mine.due -= part
        room -= part
    covered, next_one = turns(state, name, needs, cls, unmet, limit, shift, "", now)
    for each in unmet:
        theirs = state.members[each].windows[name]
        above = sum(needs[each][:cls])
        lack = lack_of(theirs, theirs.left + above, limit)
        if lack > 0 and (lack <= min(theirs.due, room) + EPS or (each == next_one and lack <= room - covered + EPS)):
            kick.add(each)
    return part


def contenders(
    state: State,
    name: str,
    needs: dict[str, list[float]],
    cls: int,
    room: float,
    limit: float,
    shift: list[int],
    now: float,
) -> list[str]:
    """Return who shares the marginal class: all who want some; or the one whose turn it is, if it waits for too long
    and the room isn't enough for it: then room gathers."""
    unmet = [each for each, need in needs.items() if need[cls] > EPS]
    first, most, since = "", -math.inf, math.inf
    for each in unmet:
        member = state.members[each]
        theirs = member.windows[name]
        if theirs.first <= 0 or now - member.heard_at > 2 * SYNC_S:
            continue
        ratio = theirs.due / weight(state, each, cls, shift)
        if ratio > most + EPS or (ratio > most - EPS and theirs.unmet_since < since):
            first, most, since = each, ratio, theirs.unmet_since
    if now - since < OVERDUE_S:
        return unmet
    theirs = state.members[first].windows[name]
    return [first] if lack_of(theirs, theirs.left + sum(needs[first][:cls]), limit) > room + EPS else unmet


def settle_accounts(
    state: State, name: str, needs: dict[str, list[float]], cls: int, room: float, unmet: list[str], shift: list[int]
) -> None:
    """Make the accounts add up to the room: divide what was added to it by weight, but to none more than it wants; or
    take off in proportion what was lost."""
    taking_part = set(unmet)
    total = positive = 0.0
    for each in needs:
        theirs = state.members[each].windows.get(name)
        if theirs is None:
            continue
        if needs[each][cls] <= EPS or each not in taking_part:
            theirs.due = min(theirs.due, 0.0)  # a turn isn't forgotten while its request is in flight
        else:
            theirs.due = min(theirs.due, needs[each][cls])
            total += theirs.due
            positive += max(theirs.due, 0.0)
    if room > total:
        accounts = {each: state.members[each].windows[name] for each in unmet}
        caps = {each: needs[each][cls] - accounts[each].due for each in unmet}
        for each, share in fill(room - total, {each: weight(state, each, cls, shift) for each in unmet}, caps).items():
            accounts[each].due += share
    elif positive > 0:
        factor = max(0.0, positive + room - total) / positive
        for each in unmet:
            theirs = state.members[each].windows[name]
            if theirs.due > 0:
                theirs.due *= factor


def fill(amount: float, weights: dict[str, float], caps: dict[str, float]) -> dict[str, float]:
    """Divide an amount by weight, nobody getting more than its cap (weighted water-filling)."""
    shares = {}
    total = sum(weights[each] for each in sorted(weights))
    for each in sorted(weights, key=lambda each: (caps[each] / weights[each], each)):
        share = min(caps[each], amount * weights[each] / total)
        shares[each] = share
        amount -= share
        total -= weights[each]
    return shares


def weight(state: State, name: str, cls: int, shift: list[int]) -> float:
    """Return the agents of a member whose class counts as this one; of all classes for the spare."""
    agents = state.members[name].agents
    count = sum(agents[own] for own in range(CLASSES) if cls >= CLASSES or shift[own] == cls)
    return count if count > 0 else 1.0


def turns(
    state: State,
    name: str,
    needs: dict[str, list[float]],
    cls: int,
    unmet: list[str],
    limit: float,
    shift: list[int],
    me: str,
    now: float,
) -> tuple[float, str]:
    """Return what is in the accounts that suffice for their members' next request (but `me`'s), and whose turn it is of
    the others: who has most in relation to its weight. One that syncs late is passed over."""
    covered, next_one, most = 0.0, "", -math.inf
    for each in unmet:
        member = state.members[each]
        theirs = member.windows[name]
        lack = lack_of(theirs, theirs.left + sum(needs[each][:cls]), limit)
        if lack <= 0:
            continue
        if lack <= min(theirs.due, needs[each][cls]) + EPS:
            covered += theirs.due if each != me else 0.0
        elif now - member.heard_at <= 2 * SYNC_S:
            ratio = theirs.due / weight(state, each, cls, shift)
            if ratio > most + EPS or (each == me and ratio >= most - EPS):
                most, next_one = ratio, each
    return covered, next_one


def whole_requests(mine: MemberWindow, name: str, base: float, account: float, need: float, limit: float) -> float:
    """Return so much of an account as makes up whole requests; parts held by many would use up a small limit."""
    if account >= need - EPS:
        return account
    unit = min(mine.first, MAX_SHARE * limit)
    if unit <= 0 and name.endswith("|requests"):
        unit = 1.0
    if unit <= 0:
        return account
    return max(0.0, unit * math.floor((base + account) / unit + EPS) - base)


def ask_back_or_offer(
    theirs: MemberWindow | None, name: str, need: list[float], whole_until: int, limit: float, kick: set[str]
) -> None:
    """Kick a member whose waiting requests fit whole, or that keeps spare credits while there isn't enough."""
    if theirs is None:
        return
    tight = whole_until < SPARE
    if tight and theirs.left - sum(theirs.wanted[:SPARE]) > EPS:
        kick.add(name)
    above = sum(need[:whole_until])
    if theirs.first > 0 and above > EPS and lack_of(theirs, theirs.left, limit) > EPS:
        kick.add(name)


def note_served(state: State, name: str, me: str, shift: list[int], below: int, now: float) -> None:
    """Begin the ageing anew of the classes of which the member got something, and of those that nobody wants."""
    window = state.windows[name]
    mine = state.members[me].windows[name]
    for cls in range(CLASSES):
        wanted = sum(each.windows[name].wanted[cls] for each in state.members.values() if name in each.windows)
        if wanted <= EPS or (mine.wanted[cls] > EPS and shift[cls] < below):
            window.served_at[cls] = now


# --- sharing slots


def share_slots(state: State, me: str, now: float, kick: set[str]) -> None:
    """Set the slots of a member: its part of the level, as far as the others have left it room.

    The part may be below what is in flight. What is in flight counts as held, and so does what was leased before, until
    the member's next report shows that it knows better. While a higher class waits for a slot, nobody may fill one
    again that becomes free in a lower class, wherever that is; otherwise the higher class would wait for one member's.
    """
    level = level_of(state)
    member = state.members[me]
    member.slots_before = member.slots
    if level is None:
        member.slots = 0
        return
    targets, urgent = slot_targets(state, int(level), now)
    flying = sum(member.flying)
    if now < state.learn_until:
        member.slots = flying
        return
    others = sum(held_slots(state.members[each]) for each in state.members if each != me)
    free = max(0, int(level) - others)
    member.slots = min(targets[me], free)
    unmet = sum(max(0, targets[each] - state.members[each].slots) for each in urgent)
    if unmet > 0 and me not in urgent:
        member.slots = min(member.slots, max(0, flying - unmet))
    free -= max(flying, member.slots, member.slots_before)
    for each in targets:
        other = state.members[each]
        waits = sum(other.waiting) > 0 if unmet <= 0 else each in urgent
        if free > 0 and waits and targets[each] > other.slots:
            kick.add(each)
        if unmet > 0 and each not in urgent and other.slots > max(0, sum(other.flying) - unmet):
            kick.add(each)
    waiting = [each for each in targets if sum(state.members[each].waiting) > 0]
    short = any(targets[each] > state.members[each].slots for each in waiting)
    for each in targets:
        if short and state.members[each].slots > targets[each]:
            kick.add(each)
    if short and held_slots(member) > max(flying, member.slots):
        kick.add(me)  # what it gives up is free only when it has said that it knows


def held_slots(member: Member) -> int:
    """Return the slots that a member may be using."""
    return max(sum(member.flying), member.slots, member.slots_before)


def slot_targets(state: State, level: int, now: float) -> tuple[dict[str, int], set[str]]:
    """Divide the level into whole slots: class by class; by weight in the one that doesn't fit; the rest evenly. Return
    the members' parts, and for whom requests of a higher class wait than the one that doesn't fit; these get slots
    beside all that is in flight there."""
    names = sorted(state.members)
    shift = slot_ages(state, now)
    part = dict.fromkeys(names, 0.0)
    rest = float(level)
    torn: dict[str, float] = {}  # the members of the class that doesn't fit, and their part of it
    above = dict.fromkeys(names, 0)  # waiting requests of higher classes
    for cls in range(CLASSES):
        caps = {each: slots_wanted(state.members[each], cls, shift) for each in names}
        caps = {each: cap for each, cap in caps.items() if cap > 0}
        total = sum(caps[each] for each in sorted(caps))
        if total > rest:
            torn = fill(rest, {each: weight(state, each, cls, shift) for each in caps}, caps)
            break
        for each, cap in caps.items():
            part[each] += cap
            above[each] += sum(state.members[each].waiting[own] for own in range(CLASSES) if shift[own] == cls)
        rest -= total
    for each, share in torn.items():
        part[each] += share
    count_owed(state, part, torn, now)
    if not torn:
        spare, more = divmod(int(rest), len(names))
        return {each: int(part[each]) + spare + (1 if index < more else 0) for index, each in enumerate(names)}, set()
    targets = rounded(state, part, level, torn)
    urgent = {each for each in names if above[each] > 0}
    for each in urgent:
        targets[each] = max(targets[each], sum(state.members[each].flying) + above[each])
    return targets, urgent


def slot_ages(state: State, now: float) -> list[int]:
    """Return the class that each class counts as."""
    for cls in range(CLASSES):
        waiting = sum(each.waiting[cls] for each in state.members.values())
        flying = sum(each.flying[cls] for each in state.members.values())
        if waiting == 0 or flying > 0:
            state.served_at[cls] = now
    return ages(state.served_at, now)


def slots_wanted(member: Member, cls: int, shift: list[int]) -> float:
    """Return the requests of a member that count as of a class."""
    return float(sum(member.flying[each] + member.waiting[each] for each in range(CLASSES) if shift[each] == cls))


def count_owed(state: State, part: dict[str, float], torn: dict[str, float], now: float) -> None:
    """Add up by how many slot-seconds each member that shares the marginal class is behind its part."""
    passed_s = now - state.owed_at
    state.owed_at = now
    for name in part:
        member = state.members[name]
        if name not in torn:
            member.owed = 0.0
        else:
            behind = member.owed + (part[name] - max(sum(member.flying), member.slots)) * passed_s
            member.owed = min(max(behind, -MOST_OWED_S), MOST_OWED_S)


def rounded(state: State, part: dict[str, float], level: int, torn: dict[str, float]) -> dict[str, int]:
    """Return whole slots that add up to the level: what is left of a rounding down goes to those most behind, and moves
    only if it is worth it."""
    targets = {name: int(part[name] + EPS) for name in part}
    rest = level - sum(targets.values())
    behind = []
    for name in sorted(torn):
        if part[name] - targets[name] > EPS:
            member = state.members[name]
            stays = SLOT_MOVES_S if member.slots > targets[name] else 0.0
            behind.append((-(member.owed + stays), targets[name] - part[name], name))
    for _, _, name in sorted(behind)[:rest]:
        targets[name] += 1
    return targets


# --- the answer


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


def padded(values: list[float], length: int) -> list[float]:
    """Return the values by class, those that weren't told as 0, none below."""
    return [max(float(value), 0.0) for value in values[:length]] + [0.0] * (length - len(values))


def whole(values: list[int]) -> list[int]:
    """Return the counts by class, those that weren't told as 0, none below."""
    return [max(value, 0) for value in values[:CLASSES]] + [0] * (CLASSES - len(values))
