"""Rate limits of a provider, fitted to the headers of its responses.

Several keys or models may share a window: they do if counting the requests of all of them explains the reported
remainders better. Clients outside the recording may use it, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from hivemind.lab.fit.limiter import ONE_END_S, FittedLimit, LimitState, Pools, amounts_of
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.scheduler.types import FailureKind, WindowKind, WindowReading

TimedReading = tuple[float, WindowReading]
"""The time of a response, and what its headers said of one window."""
Reading = tuple[float, str, tuple[WindowReading, ...], LimitState]
"""A time, what a response said then of the windows of a family, and the limiter of its lane as it should stand."""
Moment = tuple[float, bool, str, RequestStep, TracedAttempt]
"""A time, whether an attempt begins or ends then, its lane, its request, and the attempt."""
Limits = Mapping[str, Sequence[FittedLimit]]
"""By lane."""

_SPANS_S = (1.0, 10.0, 60.0, 300.0, 3600.0, 18_000.0, 86_400.0)
"""Usual lengths of windows."""
_NEARLY = 0.12
"""A fitted length that differs by at most this share is rounded to a usual one: readings are late and rounded."""
_ROUNDED_S = 0.02
"""A reset this close to a whole second was rounded."""
_MINUTE_S = 60.0
"""The length of a window if nothing else is known."""
_BRIEF_S = 15.0
"""A shorter recording shows too few ends of windows."""
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


def fit_limits(reported: Iterable[tuple[float, str, tuple[WindowReading, ...]]], began_at: float) -> list[FittedLimit]:
    """Fit each window that responses reported."""
    by_window: dict[tuple[str, WindowKind], list[TimedReading]] = {}
    for at, family, readings in reported:
        for reading in readings:
            by_window.setdefault((family, reading.kind), []).append((at, reading))
    fitted = (_fitted(family, kind, each, began_at) for (family, kind), each in by_window.items())
    found = [each for each in fitted if each is not None]
    # A provider implements all its limits in one way, which the window that is used most shows best.
    sure = max(found, key=lambda each: each.used_most, default=None)
    if sure is None or sure.fixed:
        return found
    return [each if not each.fixed else replace(each, fixed=False, span_s=sure.span_s, spent=0.0) for each in found]


def _fitted(family: str, kind: WindowKind, reported: Sequence[TimedReading], began_at: float) -> FittedLimit | None:
    limits = Counter(reading.limit for _, reading in reported if reading.limit)
    if not limits:
        return None
    limit = limits.most_common(1)[0][0] or 0
    readings = [
        (at, reading.remaining, reading.reset_in_s)
        for at, reading in reported
        if reading.remaining is not None and reading.reset_in_s is not None and reading.limit == limit
    ]
    if not readings:
        return FittedLimit(family, kind, limit, True, _MINUTE_S)
    size = _size(limit, readings)
    used_most = 1 - min(left for _, left, _ in readings) / (size or limit)
    if size is not None or _is_bucket(limit, limit, readings):
        spans = [
            reset_in_s * limit / ((size or limit) - left) for _, left, reset_in_s in readings if left < (size or limit)
        ]
        span_s = median(spans) if spans else _MINUTE_S
        if size is not None:
            # The remainder is rounded down, in a small bucket by much: the reading rounded least is the best one.
            span_s = _MINUTE_S if _rounded(readings) or not spans else max(spans)
        return FittedLimit(family, kind, limit, False, _usual(span_s), size, _rounded(readings), used_most=used_most)
    span_s = _span_s(readings)
    first_at, left, reset_in_s = readings[0]
    began_before = first_at + reset_in_s - span_s < began_at - 1.0
    spent = float(limit - left) if began_before else 0.0
    left_s = first_at + reset_in_s - began_at if began_before else 0.0
    return FittedLimit(
        family,
        kind,
        limit,
        True,
        span_s,
        whole_seconds=_rounded(readings),
        used_most=used_most,
        spent=spent,
        spent_for_s=left_s,
    )


def _size(limit: int, readings: Sequence[tuple[float, int, float]]) -> int | None:
    """Return the size of a bucket that is soon full, but never near its limit; None: it holds its limit."""
    most = max(left for _, left, _ in readings)
    longest_s = max(reset_in_s for _, _, reset_in_s in readings)
    small = most < limit * 0.5 and len(readings) >= 10 and longest_s <= (most + 2) * 60.0 / limit + 1.0
    if not small:
        return None
    full_s = 1.0 if _rounded(readings) else 0.0
    full = any(left == most and reset_in_s <= full_s for _, left, reset_in_s in readings)
    return max(1, most if full else most + 1)


def _is_bucket(size: int, limit: int, readings: Sequence[tuple[float, int, float]]) -> bool:
    """Return whether it is a bucket: its resets depend on what is missing, a fixed window's only on its end."""
    missing = [(size - left, reset_in_s) for _, left, reset_in_s in readings if left < size]
    if not missing:
        return False
    span_s = median(reset_in_s * limit / gone for gone, reset_in_s in missing)
    off_as_bucket = median(abs(reset_in_s - gone * span_s / limit) for gone, reset_in_s in missing)
    ends = sorted(at + reset_in_s for at, _, reset_in_s in readings)
    window_s = max(reset_in_s for _, _, reset_in_s in readings)
    groups, began = 0, -math.inf
    for end in ends:
        if end - began > ONE_END_S:
            groups, began = groups + 1, end
    recorded_s = readings[-1][0] - readings[0][0]
    if groups > recorded_s / max(window_s, 1.0) * 1.3 + 2:
        return True
    kinds = len({round(gone / limit, 2) for gone, _ in missing})
    return recorded_s < _BRIEF_S and kinds >= 5 and off_as_bucket < 0.02 * span_s + 0.05


def _span_s(readings: Sequence[tuple[float, int, float]]) -> float:
    """Return the length of a fixed window: the longest reset, or more if no beginning was seen."""
    longest_s = max(reset_in_s for _, _, reset_in_s in readings)
    usual_s = _usual(longest_s)
    if usual_s != longest_s:
        return usual_s
    ends = sorted(at + reset_in_s for at, _, reset_in_s in readings)
    if ends[-1] - ends[0] > ONE_END_S:
        return longest_s
    return min((each for each in _SPANS_S if each >= longest_s), default=longest_s)


def _usual(span_s: float) -> float:
    return min((each for each in _SPANS_S if abs(each - span_s) <= _NEARLY * each), default=span_s)


def _rounded(readings: Sequence[tuple[float, int, float]]) -> bool:
    """Return whether resets fall on whole seconds of a wall clock, from which the proxy's differs by a constant."""
    parts = [(at + reset_in_s) % 1.0 for at, _, reset_in_s in readings]
    one = parts[0]
    same = sum(1 for each in parts if min(abs(each - one), 1 - abs(each - one)) <= _ROUNDED_S)
    return len(parts) >= 3 and same >= 0.9 * len(parts)


# --- Shared windows ---------------------------------------------------------------------------------------------------


def limiters(trace: Trace, lanes: Mapping[str, LaneTrace], limits: Limits) -> dict[str, LimitState]:
    """Return a limiter for each lane, as at the beginning."""
    pools: Pools = {}
    return {
        key: LimitState(each, trace.began.at, trace.wall_offset, reserves=lanes[key].reserves, pools=pools)
        for key, each in limits.items()
    }


@dataclass(frozen=True, slots=True)
class Traffic:
    """The lanes of a recording and their attempts."""

    trace: Trace
    lanes: Mapping[str, LaneTrace]
    attempts: Mapping[str, Sequence[RequestAttempt]]

    def charged(self, limits: Limits) -> Iterator[tuple[Moment, Mapping[str, LimitState]]]:
        """Yield the beginnings and ends of all attempts in order, each with the limiters just before it is charged."""
        moments: list[Moment] = []
        for lane, pairs in self.attempts.items():
            for request, one in pairs:
                moments.append((one.granted_at, True, lane, request, one))
                moments.append((one.granted_at + one.duration_s, False, lane, request, one))
        moments.sort(key=lambda moment: moment[:2])
        by_lane = limiters(self.trace, self.lanes, limits)
        for moment in moments:
            yield moment, by_lane
            at, begins, lane, request, one = moment
            if not begins:
                by_lane[lane].settle(at, request.arrived.family, one.usage)
            elif not one.uncharged:
                by_lane[lane].charge(at, request.arrived.family, amounts_of(request, one))

    def readings(self, limits: Limits) -> Iterator[Reading]:
        """Yield all readings, each with the limiter after everything charged before."""
        to_come = sorted(
            ((at, key, family, windows) for key in self.attempts for at, family, windows in self.lanes[key].readings),
            key=lambda each: each[0],
            reverse=True,
        )
        for (at, *_), by_lane in self.charged(limits):
            while to_come and to_come[-1][0] < at:
                read_at, lane, family, windows = to_come.pop()
                yield read_at, family, windows, by_lane[lane]


def explain(traffic: Traffic, limits: Limits) -> dict[str, list[TracedAttempt]]:
    """Return the refusals that the fitted windows cause in a simulation, by lane."""
    found: dict[str, list[TracedAttempt]] = {lane: [] for lane in limits}
    for (at, begins, lane, request, one), by_lane in traffic.charged(limits):
        if begins and one.failed_as(FailureKind.RATE_LIMITED):
            limiter, family = by_lane[lane], request.arrived.family
            if limiter.wait_s(at, family, amounts_of(request, one)) > 0 or limiter.nearly_used_up(at, family):
                found[lane].append(one)
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
