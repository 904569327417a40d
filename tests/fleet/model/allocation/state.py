"""What the allocator knows of one lane, and the questions that all of its parts ask of it.

Times are seconds of the store's clock, lists by class have the priority classes first and the spare
(:data:`~hivemind.scheduler.lease.SPARE`) last.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

from hivemind.fleet.messages import CREDITS_TTL_S, PROTOCOL, RING_S, SLOTS_TTL_S, Report

CLASSES = 4
SPARE = 4
PERIOD_S = 60.0
FRESH_S = 1.25
"""How long the state of an empty key gives nothing if it is told by a proxy that has just started. The fleet may be as
new, or the key was lost and others haven't synced yet, which takes an idle one a second."""
AGEING_S = 30.0
"""A class that waits without being given anything counts one higher for each of these, as in the local queue."""
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


def window_of(state: State, name: str, now: float) -> Window:
    """Return a window of the lane, made if it is new."""
    if name not in state.windows:
        state.windows[name] = Window(second=int(now), served_at=[now] * CLASSES)
    return state.windows[name]


def ceiling(state: State) -> float:
    """Return the smallest of the members' ceilings; inf: none has one."""
    return min((each.ceiling for each in state.members.values() if each.ceiling is not None), default=math.inf)


def level_of(state: State) -> float | None:
    """Return the level in force; None: no limit."""
    if state.pinned is not None:
        return state.pinned
    level = min(state.level if state.level is not None else math.inf, ceiling(state))
    return None if math.isinf(level) else level


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


def ages(served_at: list[float], now: float) -> list[int]:
    """Return the class that each class counts as; the spare doesn't age."""
    return [max(0, cls - int((now - served_at[cls]) / AGEING_S)) for cls in range(CLASSES)] + [SPARE]


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
