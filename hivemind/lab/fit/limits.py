"""Rate limits of a provider, fitted to the headers of its responses.

Several keys or models may share a window: they do if counting the requests of all of them explains the reported
remainders better. Clients outside the recording may use it, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from hivemind.lab.fit.limiter import ONE_END_S, FittedLimit, LimitState, Pools, amounts_of
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.records import replace
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
_CLOSE = 0.03
"""A bucket's span is a usual one if that is as close to what readings allow."""
_SURE, _DOUBTFUL = 1.3, 2.0
"""A span whose bounds differ by less than the first factor is certain; else it may be so many times another."""
_DOUBT = 0.1
"""A bucket is taken if it agrees with nearly as many readings as windows do: theirs agree with no bucket."""
_LATE_S = 0.05
"""A reading may be late by as much. If few agree with a bucket then, they may be off as far as a window's ends are."""
_ROUNDED_S = 0.02
"""A reset this close to a whole second was rounded."""
_MINUTE_S = 60.0
"""The length of a window if nothing else is known."""
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
    if sure is None or sure.form != "bucket":
        return found
    return [
        each if each.form == "bucket" else replace(each, form="bucket", span_s=sure.span_s, spent=0.0) for each in found
    ]


def stated_by_refusals(
    reported: Iterable[tuple[float, str, tuple[WindowReading, ...]]],
) -> Iterator[tuple[float, str, WindowKind, int]]:
    """Yield the time, the family, what is counted and how much of it, of limits that refusals stated in words."""
    for at, family, readings in reported:
        yield from (
            (at, family, each.kind, each.limit) for each in readings if each.limit and _says_only_how_much(each)
        )


def _says_only_how_much(reading: WindowReading) -> bool:
    return reading.remaining is None and reading.reset_in_s is None


def _fitted(family: str, kind: WindowKind, reported: Sequence[TimedReading], began_at: float) -> FittedLimit | None:
    limits = Counter(reading.limit for _, reading in reported if reading.limit)
    if not limits:
        return None
    limit = limits.most_common(1)[0][0] or 0
    if all(map(_says_only_how_much, (reading for _, reading in reported))):
        return None  # refusals said so, and when they came tells more
    readings = [
        (at, reading.remaining, reading.reset_in_s)
        for at, reading in reported
        if reading.remaining is not None and reading.reset_in_s is not None and reading.limit == limit
    ]
    if not readings:
        return FittedLimit(family, kind, limit, "fixed", _MINUTE_S)
    size = _size(limit, readings)
    used_most = 1 - min(left for _, left, _ in readings) / (size or limit)
    whole_seconds = _rounded(readings)
    # Resets that state a time of day are read by clocks that may disagree by a second, as ends of windows are.
    spans = (
        BucketSpan.of(size or limit, limit, readings, whole_seconds=whole_seconds, off_s=off_s)
        for off_s in (_LATE_S, ONE_END_S)
    )
    likely = (each for each in spans if each is not None and (size is not None or _is_bucket(each, readings)))
    bucket = next(likely, None)
    if bucket is not None:
        span_s, spans_s = bucket.likely()
        return FittedLimit(
            *(family, kind, limit, "bucket", span_s, size, whole_seconds), used_most=used_most, spans_s=spans_s
        )
    span_s = _span_s(readings)
    first_at, left, reset_in_s = readings[0]
    began_before = first_at + reset_in_s - span_s < began_at - 1.0
    spent = float(limit - left) if began_before else 0.0
    left_s = first_at + reset_in_s - began_at if began_before else 0.0
    return FittedLimit(
        family,
        kind,
        limit,
        "fixed",
        span_s,
        whole_seconds=whole_seconds,
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


class BucketSpan(Struct, frozen=True):
    """The time in which an empty bucket is full again, if readings are those of a bucket."""

    low_s: float
    high_s: float
    fits: float
    """The share of the readings that agree with it."""

    @classmethod
    def of(
        cls,
        size: int,
        limit: int,
        readings: Sequence[tuple[float, int, float]],
        *,
        whole_seconds: bool,
        off_s: float = _LATE_S,
    ) -> BucketSpan | None:
        """Return what most readings agree with; None: it was always full.

        `off_s`: how far resets may be off. A reading of a bucket that little is missing from tells little, because
        what remains is rounded down, and the reset perhaps up: it agrees with a wide range.
        """
        rounded_s = 1.0 if whole_seconds else 0.0
        bounds: list[tuple[float, int]] = []
        for _, left, reset_in_s in readings:
            gone = size - left
            if gone > 0 and reset_in_s > 0:
                least = max(0.0, reset_in_s - rounded_s - off_s) * limit / gone
                most = (reset_in_s + off_s) * limit / (gone - 1) if gone > 1 else math.inf
                bounds += ((least, 0), (most, 1))
        bounds.sort()
        agree = best = 0
        low_s = high_s = 0.0
        for at, ends in bounds:
            if ends:
                if agree == best:
                    high_s = max(high_s, at) if high_s else at
                agree -= 1
            else:
                agree += 1
                if agree > best:
                    best, low_s, high_s = agree, at, 0.0
        return cls(low_s, high_s, best / (len(bounds) / 2)) if bounds else None

    def likely(self) -> tuple[float, tuple[float, float] | None]:
        """Return the likeliest span, and a range that it is in if it isn't certain."""
        low_s, high_s = self.low_s, self.high_s
        sure = high_s <= low_s * _SURE
        usual = [each for each in _SPANS_S if low_s * (1 - _CLOSE) <= each <= high_s * (1 + _CLOSE)]
        if _MINUTE_S in usual:
            likely_s = _MINUTE_S
        elif usual and sure:
            likely_s = usual[0]
        else:
            middle_s = (low_s + high_s) / 2 if high_s < math.inf else low_s
            likely_s = round(middle_s) if low_s <= round(middle_s) <= high_s else middle_s
        if sure:
            return likely_s, None
        return likely_s, (max(low_s, likely_s / _DOUBTFUL), min(high_s, likely_s * _DOUBTFUL))


def _is_bucket(bucket: BucketSpan, readings: Sequence[tuple[float, int, float]]) -> bool:
    """Return whether readings are those of a bucket rather than of fixed windows."""
    ends = [at + reset_in_s for at, _, reset_in_s in readings]
    if max(ends) - min(ends) <= ONE_END_S and bucket.likely()[0] not in _SPANS_S:
        return False  # all may be of one window of a usual length
    return bucket.fits > _windows_fit(readings) - _DOUBT


def _windows_fit(readings: Sequence[tuple[float, int, float]]) -> float:
    """Return the share of readings that agree with windows of which each ends before the next one begins."""
    agree, end = 0, -math.inf
    for at, _, reset_in_s in readings:
        if at >= end - ONE_END_S:
            end = at + reset_in_s
        agree += abs(at + reset_in_s - end) <= ONE_END_S
    return agree / len(readings)


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
    earlier = [(request, one) for request, one in trace.earlier if request.arrived.lane in limits]
    began_at = trace.began.at
    if earlier:
        began_at = earlier[0][1].granted_at
    pools: Pools = {}
    states = {
        key: LimitState(
            each, began_at, trace.wall_offset, reserves=lanes[key].reserves, pools=pools, unused=bool(earlier)
        )
        for key, each in limits.items()
    }
    for moment in _moments(earlier):
        if moment[0] < trace.began.at:
            _charge(states, moment)
    return states


def _moments(attempts: Iterable[RequestAttempt]) -> list[Moment]:
    """Return the beginnings and ends of attempts, in order."""
    moments: list[Moment] = []
    for request, one in attempts:
        lane = request.arrived.lane
        moments.append((one.granted_at, True, lane, request, one))
        moments.append((one.granted_at + one.duration_s, False, lane, request, one))
    moments.sort(key=lambda moment: moment[:2])
    return moments


def _charge(states: Mapping[str, LimitState], moment: Moment) -> None:
    at, begins, lane, request, one = moment
    if not begins:
        states[lane].settle(at, request.arrived.family, one.usage)
    elif not one.uncharged:
        states[lane].charge(at, request.arrived.family, amounts_of(request, one.usage))


class Traffic(Struct, frozen=True):
    """The lanes of a recording and their attempts."""

    trace: Trace
    lanes: Mapping[str, LaneTrace]
    attempts: Mapping[str, Sequence[RequestAttempt]]

    def charged(self, limits: Limits) -> Iterator[tuple[Moment, Mapping[str, LimitState]]]:
        """Yield the beginnings and ends of all attempts in order, each with the limiters just before it is charged."""
        by_lane = limiters(self.trace, self.lanes, limits)
        for moment in _moments(pair for pairs in self.attempts.values() for pair in pairs):
            yield moment, by_lane
            _charge(by_lane, moment)

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
            limiter, family, amounts = by_lane[lane], request.arrived.family, amounts_of(request, one.usage)
            if limiter.wait_s(at, family, amounts) > 0 or limiter.nearly_refuses(at, family, amounts):
                found[lane].append(one)
    return found


def formed_limits(traffic: Traffic, limits: Limits) -> Limits:
    """Return the limits as sliding windows, or with cached input counted, where that explains remainders better."""
    least = _misfit(traffic, limits)
    for form in (_sliding, lambda _, limit: replace(limit, counts_cached=True)):
        if least <= _WORST:
            break
        formed = {
            key: [form(traffic.lanes[key], each) if each.reported else each for each in mine]
            for key, mine in limits.items()
        }
        misfit = _misfit(traffic, formed)
        if misfit < _BETTER * least:
            limits, least = formed, misfit
    return limits


def _sliding(lane: LaneTrace, limit: FittedLimit) -> FittedLimit:
    resets = [
        each.reset_in_s
        for _, family, windows in lane.readings
        for each in windows
        if family == limit.family and each.kind is limit.kind and each.reset_in_s is not None
    ]
    span_s = _usual(max(resets, default=limit.span_s))
    return replace(limit, form="sliding", span_s=span_s, spans_s=None, size=None, spent=0.0)


def with_answers(limits: Sequence[FittedLimit], refusals: Sequence[TracedAttempt]) -> list[FittedLimit]:
    """Return limits whose refusals say when to come back if most of the recorded ones do."""
    told = sum(one.failure is not None and one.failure.delay_s is not None for one in refusals)
    return [replace(each, says_when=2 * told >= len(refusals)) for each in limits]


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
