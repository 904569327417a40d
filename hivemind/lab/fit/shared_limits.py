"""Rate windows that several keys, or several models, draw on together.

What replies say tells: where a window empties by what others send too, counting them all explains what remains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from hivemind.lab.fit.limits import FittedLimit, Limiter, Pools
from hivemind.lab.fit.refusals import RequestAttempt, amounts_of, moments, uncharged
from hivemind.lab.simulate.trace import LaneTrace
from hivemind.scheduler.types import WindowKind, WindowReading

_BETTER = 0.6
"""By so much must a pool explain better what remains."""
_WORST = 0.01
"""Of a limit: what is explained so well needs no pool."""
_NAMES: tuple[Callable[[LaneTrace, str], str], ...] = (
    lambda lane, family: lane.key,
    lambda lane, family: f"{lane.upstream} {family}",
    lambda lane, family: lane.upstream,
)
"""Who may be in one pool: all models of a key, all keys with one model, all."""

Heard = tuple[float, str, tuple[WindowReading, ...], Limiter]
"""When, of which models, what, and the limiter."""
Limits = dict[str, list[FittedLimit]]
"""By lane."""


def reserves(lane: LaneTrace) -> bool:
    """Its provider sets the longest possible answer aside."""
    return lane.config is not None and lane.config.reserve_max_tokens


def shared_limits(
    lanes: Mapping[str, LaneTrace],
    taken: Mapping[str, Sequence[RequestAttempt]],
    limits: Limits,
    began_at: float,
    offset: float,
) -> Limits:
    """The same limits, with pools where there are any."""
    pools = [pooled for name in _NAMES if (pooled := _pooled(lanes, limits, name)) != limits]
    if not pools:
        return limits
    best, least = limits, _misfit(lanes, taken, limits, began_at, offset)
    if least <= _WORST:
        return limits
    for pooled in pools:
        off = _misfit(lanes, taken, pooled, began_at, offset)
        if off < _BETTER * least:
            best, least = pooled, off
    return best


def _pooled(lanes: Mapping[str, LaneTrace], limits: Limits, name: Callable[[LaneTrace, str], str]) -> Limits:
    """Limits alike in one pool: then each window is taken to be as the one that shows most of itself."""
    pools: dict[tuple[str, WindowKind, int], list[FittedLimit]] = {}
    for key, each in limits.items():
        for limit in each:
            pools.setdefault((name(lanes[key], limit.family), limit.kind, limit.limit), []).append(limit)

    def in_pool(key: str, limit: FittedLimit) -> FittedLimit:
        pool = name(lanes[key], limit.family)
        members = pools[pool, limit.kind, limit.limit]
        if len(members) == 1:
            return limit
        most = max(members, key=lambda each: each.used_most)
        return replace(most, family=limit.family, told=limit.told, pool=f"{pool} {limit.limit}")

    return {key: [in_pool(key, limit) for limit in each] for key, each in limits.items()}


def _misfit(
    lanes: Mapping[str, LaneTrace],
    taken: Mapping[str, Sequence[RequestAttempt]],
    limits: Limits,
    began_at: float,
    offset: float,
) -> float:
    """By what part of a limit what should remain differs from what replies said, on average."""
    offs: list[float] = []
    for at, family, readings, limiter in heard(lanes, taken, limits, began_at, offset):
        offs += _off(limiter.left(at, family), readings)
    return fmean(offs) if offs else 0.0


def heard(
    lanes: Mapping[str, LaneTrace],
    taken: Mapping[str, Sequence[RequestAttempt]],
    limits: Limits,
    began_at: float,
    offset: float,
) -> Iterator[Heard]:
    """What replies said, each with the limiter of its lane as it should stand then."""
    pools: Pools = {}
    limiters = {
        key: Limiter(limits[key], began_at, offset, reserves=reserves(lanes[key]), pools=pools) for key in taken
    }
    told = sorted(
        ((at, key, family, readings) for key in taken for at, family, readings in lanes[key].readings),
        key=lambda each: each[0],
        reverse=True,
    )
    for at, begins, key, request, one in moments(taken):
        while told and told[-1][0] < at:
            heard_at, lane, family, readings = told.pop()
            yield heard_at, family, readings, limiters[lane]
        if not begins:
            limiters[key].settle(at, request.arrived.family, one.usage)
        elif not uncharged(one):
            limiters[key].charge(at, request.arrived.family, amounts_of(request, one))


def _off(left: Mapping[WindowKind, int], readings: Iterable[WindowReading]) -> Iterator[float]:
    """Of each window, what part of its limit is wrong."""
    for each in readings:
        if each.remaining is not None and each.limit and each.kind in left:
            yield abs(left[each.kind] - each.remaining) / each.limit


def with_outside_use(
    lanes: Mapping[str, LaneTrace],
    taken: Mapping[str, Sequence[RequestAttempt]],
    limits: Limits,
    began_at: float,
    offset: float,
) -> Limits:
    """The same limits, with what was taken of them by nobody who is in the recording: others who have the key."""
    found: dict[int, list[tuple[float, float]]] = {}
    for at, family, readings, limiter in heard(lanes, taken, limits, began_at, offset):
        for limit, missing in limiter.missing(at, family, readings):
            found.setdefault(id(limit), []).append((at, missing))
    if not found:
        return limits
    pools = {each.pool: found[id(each)] for mine in limits.values() for each in mine if each.pool and id(each) in found}

    def of(limit: FittedLimit) -> tuple[tuple[float, float], ...]:
        return tuple(pools.get(limit.pool, ()) if limit.pool else found.get(id(limit), ()))

    return {key: [replace(each, others=of(each)) for each in mine] for key, mine in limits.items()}
