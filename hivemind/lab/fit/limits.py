"""Rate limits of a provider, fitted to the headers of its responses, and their state in a simulation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from hivemind.lab.fit.rate_models import Allowance, FixedWindow, SharedAllowance, TokenBucket
from hivemind.scheduler.types import Usage, WindowKind, WindowReading

TimedReading = tuple[float, WindowReading]
"""The time of a response, and what its headers said of one window."""

_SPANS_S = (1.0, 10.0, 60.0, 300.0, 3600.0, 18_000.0, 86_400.0)
"""Usual lengths of windows."""
_NEARLY = 0.12
"""A fitted length that differs by at most this share is rounded to a usual one: readings are late and rounded."""
_ROUNDED_S = 0.02
"""A reset this close to a whole second was rounded."""
_ONE_END_S = 1.5
"""Readings of one window's end differ by at most so much."""
_MINUTE_S = 60.0
"""The length of a window if nothing else is known."""
_BRIEF_S = 15.0
"""A shorter recording shows too few ends of windows."""
MARGIN = 0.03
"""A limit explains a refusal if at most this share of it was left."""


@dataclass(frozen=True, slots=True)
class FittedLimit:
    """One window of a family of models."""

    family: str
    kind: WindowKind
    limit: int
    fixed: bool
    """A fixed window; otherwise a token bucket."""
    span_s: float
    size: int | None = None
    """The size of a bucket that holds less than its limit."""
    whole_seconds: bool = False
    """Responses report resets in whole seconds."""
    reported: bool = True
    """Responses report it."""
    used_most: float = 0.0
    """The largest used share, 0 to 1."""
    spent: float = 0.0
    """Used before the recording began, in the window that ends in `spent_for_s`."""
    spent_for_s: float = 0.0
    pool: str = ""
    """Limits with the same name share one window; empty: not shared."""
    others: tuple[tuple[float, float], ...] = ()
    """Times and amounts of use by others."""

    def begin(self, now: float) -> Allowance:
        """Return its state when the recording began."""
        allowance = self._begun(now)
        return SharedAllowance(allowance, self.others) if self.others else allowance

    def _begun(self, now: float) -> Allowance:
        if not self.fixed:
            return TokenBucket(self.limit, self.span_s, self.size)
        window = FixedWindow(self.limit, self.span_s)
        if self.spent:
            window.take(now - (self.span_s - self.spent_for_s), self.spent)
        return window

    def __str__(self) -> str:
        how = "a fixed window" if self.fixed else "a bucket"
        return f"{self.limit:,} {self.kind.value} in {self.span_s:g} s ({how})"


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
        if end - began > _ONE_END_S:
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
    if ends[-1] - ends[0] > _ONE_END_S:
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


class Amounts(NamedTuple):
    """What one request charges to each kind of window."""

    tokens_in: int
    max_out: int

    def first(self, kind: WindowKind, *, reserves: bool) -> float:
        """Return the charge at the beginning. `reserves`: the provider charges the longest possible answer."""
        if kind is WindowKind.REQUESTS:
            return 1.0
        if kind is WindowKind.OUTPUT:
            return 0.0
        return float(max(self.tokens_in, self.max_out if reserves and kind is WindowKind.TOKENS else 0))


Pools = dict[tuple[str, WindowKind], Allowance]
"""Shared windows by the name of their pool."""


def _same_end(reported_s: float | None, found_s: float) -> bool:
    """Return whether both readings are of the same window, and it isn't nearly over."""
    return reported_s is not None and reported_s > _ONE_END_S and abs(reported_s - found_s) <= _ONE_END_S


class Limiter:
    """The windows of one lane in use: a request is charged to each of its family, or to none."""

    def __init__(
        self,
        limits: Iterable[FittedLimit],
        began_at: float,
        wall_offset: float,
        *,
        reserves: bool,
        pools: Pools | None = None,
    ) -> None:
        """`wall_offset` converts times to seconds since the epoch; `pools` holds the windows that limiters share."""
        pools = {} if pools is None else pools
        self._windows: dict[str, list[tuple[FittedLimit, Allowance]]] = {}
        self._wall_offset = wall_offset
        self._reserves = reserves
        for each in limits:
            allowance = each.begin(began_at)
            if each.pool:
                allowance = pools.setdefault((each.pool, each.kind), allowance)
            self._windows.setdefault(each.family, []).append((each, allowance))

    def wait_s(self, now: float, family: str, amounts: Amounts) -> float:
        """Return the seconds until the request fits; 0: it fits now."""
        longest_s = 0.0
        for limit, allowance in self._windows.get(family, ()):
            wait_s = allowance.wait_s(now, amounts.first(limit.kind, reserves=self._reserves))
            if wait_s > longest_s:
                longest_s = wait_s
        return longest_s

    def left(self, now: float, family: str) -> dict[WindowKind, int]:
        """Return what remains of each window."""
        return {limit.kind: allowance.reading(now)[0] for limit, allowance in self._windows.get(family, ())}

    def missing(
        self, now: float, family: str, readings: Iterable[WindowReading]
    ) -> Iterator[tuple[FittedLimit, float]]:
        """Charge and yield what readings lack in windows of requests: use by others."""
        reported = {each.kind: each for each in readings}
        for limit, allowance in self._windows.get(family, ()):
            reading = reported.get(limit.kind)
            if limit.kind is not WindowKind.REQUESTS or reading is None or reading.remaining is None:
                continue
            left, reset_in_s = allowance.reading(now)
            missing = left - reading.remaining
            # Around the start of a window the two may differ in which one they mean; a bucket's level is rounded.
            if limit.fixed and not _same_end(reading.reset_in_s, reset_in_s):
                continue
            if missing >= (1 if limit.fixed else 2):
                allowance.take(now, missing)
                yield limit, float(missing)

    def nearly_used_up(self, now: float, family: str) -> bool:
        """Return whether some window has so little left that it explains a refusal."""
        return any(
            allowance.reading(now)[0] <= max(2.0, MARGIN * limit.limit)
            for limit, allowance in self._windows.get(family, ())
        )

    def charge(self, now: float, family: str, amounts: Amounts) -> None:
        """Charge a request that was accepted."""
        for limit, allowance in self._windows.get(family, ()):
            allowance.take(now, amounts.first(limit.kind, reserves=self._reserves))

    def settle(self, now: float, family: str, usage: Usage | None) -> None:
        """Charge the usage of an answer that is over."""
        if usage is None or not usage.output_tokens:
            return
        for limit, allowance in self._windows.get(family, ()):
            if limit.kind is WindowKind.OUTPUT or (limit.kind is WindowKind.TOKENS and not self._reserves):
                allowance.settle(now, usage.output_tokens)

    def readings(self, now: float, family: str) -> tuple[WindowReading, ...]:
        """Return the windows as a response reports them."""
        windows = self._windows.get(family)
        if not windows:
            return ()
        return tuple([self._reading(now, limit, allowance) for limit, allowance in windows if limit.reported])

    def _reading(self, now: float, limit: FittedLimit, allowance: Allowance) -> WindowReading:
        left, reset_in_s = allowance.reading(now)
        if limit.whole_seconds:
            wall = now + self._wall_offset
            reset_in_s = math.ceil(wall + reset_in_s - 1e-6) - wall
        return WindowReading(limit.kind, limit.limit, left, reset_in_s)
