"""Rate windows that several keys or models share, and their use by clients outside the recording.

A window is shared if counting the requests of all that share it explains the reported remainders better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from hivemind.lab.fit.limiter import FittedLimit, Limiter, Pools, amounts_of
from hivemind.lab.trace.steps import Attempt, RequestAttempt, RequestStep
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.scheduler.types import FailureKind, WindowKind, WindowReading

_BETTER = 0.6
"""A pool is taken if its misfit is below this share of the misfit without pools."""
_WORST = 0.01
"""A misfit of at most this share of a limit needs no pool."""
_POOL_NAMES: tuple[Callable[[LaneTrace, str], str], ...] = (
    lambda lane, family: lane.key,
    lambda lane, family: f"{lane.upstream} {family}",
    lambda lane, family: lane.upstream,
)
"""What may share a window: all models of a key, all keys with one model, or all."""

Limits = Mapping[str, Sequence[FittedLimit]]
"""By lane."""


def limiters(trace: Trace, lanes: Mapping[str, LaneTrace], limits: Limits) -> dict[str, Limiter]:
    """Return a limiter for each lane, as at the beginning."""
    pools: Pools = {}
    return {
        key: Limiter(each, trace.began.at, trace.wall_offset, reserves=lanes[key].reserves, pools=pools)
        for key, each in limits.items()
    }


Reading = tuple[float, str, tuple[WindowReading, ...], Limiter]
"""A time, what a response said then of the windows of a family, and the limiter of its lane as it should stand."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The lanes of a recording and their attempts."""

    trace: Trace
    lanes: Mapping[str, LaneTrace]
    attempts: Mapping[str, Sequence[RequestAttempt]]

    def readings(self, limits: Limits) -> Iterator[Reading]:
        """Yield all readings, each with the limiter after everything charged before."""
        by_lane = limiters(self.trace, self.lanes, limits)
        to_come = sorted(
            ((at, key, family, windows) for key in self.attempts for at, family, windows in self.lanes[key].readings),
            key=lambda each: each[0],
            reverse=True,
        )
        for at, begins, key, request, attempt in _moments(self.attempts):
            while to_come and to_come[-1][0] < at:
                read_at, lane, family, windows = to_come.pop()
                yield read_at, family, windows, by_lane[lane]
            if not begins:
                by_lane[key].settle(at, request.arrived.family, attempt.usage)
            elif not attempt.uncharged:
                by_lane[key].charge(at, request.arrived.family, amounts_of(request, attempt))


def explain(traffic: Traffic, limits: Limits) -> dict[str, list[Attempt]]:
    """Return the refusals that the fitted windows cause in a simulation, by lane."""
    by_lane = limiters(traffic.trace, traffic.lanes, limits)
    found: dict[str, list[Attempt]] = {lane: [] for lane in by_lane}
    for at, begins, lane, request, one in _moments(traffic.attempts):
        limiter, family, amounts = by_lane[lane], request.arrived.family, amounts_of(request, one)
        if not begins:
            limiter.settle(at, family, one.usage)
        elif one.failed_as(FailureKind.RATE_LIMITED):
            if limiter.wait_s(at, family, amounts) > 0 or limiter.nearly_used_up(at, family):
                found[lane].append(one)
        elif not one.uncharged:
            limiter.charge(at, family, amounts)
    return found


def _moments(taken: Mapping[str, Sequence[RequestAttempt]]) -> list[tuple[float, int, str, RequestStep, Attempt]]:
    """Return beginnings (1) and ends (0) of all attempts in order."""
    found = []
    for lane, pairs in taken.items():
        for request, one in pairs:
            found.append((one.granted_at, 1, lane, request, one))
            found.append((one.granted_at + one.duration_s, 0, lane, request, one))
    found.sort(key=lambda moment: moment[:2])
    return found


def shared_limits(traffic: Traffic, limits: Limits) -> Limits:
    """Return the limits with pools, if any fit better."""
    candidates = [pooled for name in _POOL_NAMES if (pooled := _pooled(traffic.lanes, limits, name)) != limits]
    if not candidates:
        return limits
    best, least = limits, _misfit(traffic, limits)
    if least <= _WORST:
        return limits
    for pooled in candidates:
        misfit = _misfit(traffic, pooled)
        if misfit < _BETTER * least:
            best, least = pooled, misfit
    return best


def _pooled(lanes: Mapping[str, LaneTrace], limits: Limits, name: Callable[[LaneTrace, str], str]) -> Limits:
    """Put equal limits into one pool, each with the parameters of the member that was used most."""
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
        return replace(most, family=limit.family, reported=limit.reported, pool=f"{pool} {limit.limit}")

    return {key: [in_pool(key, limit) for limit in each] for key, each in limits.items()}


def _misfit(traffic: Traffic, limits: Limits) -> float:
    """Return by what share of a limit computed and reported remainders differ on average."""
    misfits: list[float] = []
    for at, family, windows, limiter in traffic.readings(limits):
        left = limiter.left(at, family)
        for each in windows:
            if each.remaining is not None and each.limit and each.kind in left:
                misfits.append(abs(left[each.kind] - each.remaining) / each.limit)
    return fmean(misfits) if misfits else 0.0


def with_outside_use(traffic: Traffic, limits: Limits) -> Limits:
    """Return the limits with their use by other clients of the same key, who aren't in the recording."""
    found: dict[int, list[tuple[float, float]]] = {}
    for at, family, windows, limiter in traffic.readings(limits):
        for limit, missing in limiter.missing(at, family, windows):
            found.setdefault(id(limit), []).append((at, missing))
    if not found:
        return limits
    pools = {each.pool: found[id(each)] for mine in limits.values() for each in mine if each.pool and id(each) in found}

    def others(limit: FittedLimit) -> tuple[tuple[float, float], ...]:
        return tuple(pools.get(limit.pool, ()) if limit.pool else found.get(id(limit), ()))

    return {key: [replace(each, others=others(each)) for each in mine] for key, mine in limits.items()}
