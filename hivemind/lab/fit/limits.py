"""The rate limits of a provider, worked out from what its replies said of them, or from when it refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from hivemind.lab.fit.rate_models import Allowance, FixedWindow, SharedAllowance, TokenBucket
from hivemind.scheduler.types import Usage, WindowKind, WindowReading

Told = tuple[float, WindowReading]
"""When a reply came, and what it said of one window."""

_SPANS_S = (1.0, 10.0, 60.0, 300.0, 3600.0, 18_000.0, 86_400.0)
"""What windows usually last."""
_NEARLY = 0.12
"""By so much may a span differ from one of these and still be meant to be it: readings are late and rounded."""
_ROUNDED_S = 0.02
"""A reset this near to a whole second was rounded to it."""
_ONE_END_S = 1.5
"""A window's end is told so exactly."""
_MINUTE_S = 60.0
"""What a limit is of, where nothing tells better."""
_BRIEF_S = 15.0
"""A recording so short shows too few ends to tell by."""
MARGIN = 0.03
"""Of a limit: a refusal by one of which so little was left is explained by it."""


@dataclass(frozen=True, slots=True)
class FittedLimit:
    """One window of a family of models."""

    family: str
    kind: WindowKind
    limit: int
    fixed: bool
    """A window that begins anew; else a bucket that drips."""
    span_s: float
    size: int | None = None
    """Of a bucket that holds less than a whole limit."""
    whole_seconds: bool = False
    """Replies tell the moment it is whole again by the full second."""
    told: bool = True
    """Replies tell of it."""
    used_most: float = 0.0
    """The largest part of it that was seen used, 0 to 1."""
    spent: float = 0.0
    """Used already when the recording began, of the window that ends in `spent_for_s`."""
    spent_for_s: float = 0.0
    pool: str = ""
    """Whoever has the same name here draws on the same window; empty: nobody else does."""

    others: tuple[tuple[float, float], ...] = ()
    """What was taken of it by others, and when."""

    def begin(self, now: float) -> Allowance:
        """As it stood when the recording began."""
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


def fit_limits(told: Iterable[tuple[float, str, tuple[WindowReading, ...]]], began_at: float) -> list[FittedLimit]:
    """Each window that replies told of."""
    by_window: dict[tuple[str, WindowKind], list[Told]] = {}
    for at, family, readings in told:
        for reading in readings:
            by_window.setdefault((family, reading.kind), []).append((at, reading))
    fitted = (_fitted(family, kind, each, began_at) for (family, kind), each in by_window.items())
    found = [each for each in fitted if each is not None]
    # A provider counts in one way. A window that is hardly used doesn't show which; the one that is used most does.
    sure = max(found, key=lambda each: each.used_most, default=None)
    if sure is None or sure.fixed:
        return found
    return [each if not each.fixed else replace(each, fixed=False, span_s=sure.span_s, spent=0.0) for each in found]


def _fitted(family: str, kind: WindowKind, told: Sequence[Told], began_at: float) -> FittedLimit | None:
    limits = Counter(reading.limit for _, reading in told if reading.limit)
    if not limits:
        return None
    limit = limits.most_common(1)[0][0] or 0
    whole = [
        (at, reading.remaining, reading.reset_in_s)
        for at, reading in told
        if reading.remaining is not None and reading.reset_in_s is not None and reading.limit == limit
    ]
    if not whole:
        return FittedLimit(family, kind, limit, True, _MINUTE_S)
    size = _size(limit, whole)
    used_most = 1 - min(left for _, left, _ in whole) / (size or limit)
    if size is not None or _drips(limit, limit, whole):
        spans = [
            reset_in_s * limit / ((size or limit) - left) for _, left, reset_in_s in whole if left < (size or limit)
        ]
        span_s = median(spans) if spans else _MINUTE_S
        if size is not None:
            # What remains is rounded down, of a small bucket by much: the reading that is rounded least says most.
            span_s = _MINUTE_S if _rounded(whole) or not spans else max(spans)
        return FittedLimit(family, kind, limit, False, _usual(span_s), size, _rounded(whole), used_most=used_most)
    span_s = _span_s(whole)
    first_at, left, reset_in_s = whole[0]
    began_before = first_at + reset_in_s - span_s < began_at - 1.0
    spent = float(limit - left) if began_before else 0.0
    left_s = first_at + reset_in_s - began_at if began_before else 0.0
    return FittedLimit(
        family,
        kind,
        limit,
        True,
        span_s,
        whole_seconds=_rounded(whole),
        used_most=used_most,
        spent=spent,
        spent_for_s=left_s,
    )


def _size(limit: int, whole: Sequence[tuple[float, int, float]]) -> int | None:
    """Of a bucket that is never seen near its limit though it says that it is soon whole; None: as large as that."""
    most = max(left for _, left, _ in whole)
    longest_s = max(reset_in_s for _, _, reset_in_s in whole)
    small = most < limit * 0.5 and len(whole) >= 10 and longest_s <= (most + 2) * 60.0 / limit + 1.0
    if not small:
        return None
    full_s = 1.0 if _rounded(whole) else 0.0
    full = any(left == most and reset_in_s <= full_s for _, left, reset_in_s in whole)
    return max(1, most if full else most + 1)


def _drips(size: int, limit: int, whole: Sequence[tuple[float, int, float]]) -> bool:
    """A bucket says how long until it is full, which is by what is missing; a window when it ends, whatever is left."""
    missing = [(size - left, reset_in_s) for _, left, reset_in_s in whole if left < size]
    if not missing:
        return False
    span_s = median(reset_in_s * limit / gone for gone, reset_in_s in missing)
    off_as_bucket = median(abs(reset_in_s - gone * span_s / limit) for gone, reset_in_s in missing)
    ends = sorted(at + reset_in_s for at, _, reset_in_s in whole)
    window_s = max(reset_in_s for _, _, reset_in_s in whole)
    groups, began = 0, -math.inf
    for end in ends:
        if end - began > _ONE_END_S:
            groups, began = groups + 1, end
    recorded_s = whole[-1][0] - whole[0][0]
    if groups > recorded_s / max(window_s, 1.0) * 1.3 + 2:
        return True
    kinds = len({round(gone / limit, 2) for gone, _ in missing})
    return recorded_s < _BRIEF_S and kinds >= 5 and off_as_bucket < 0.02 * span_s + 0.05


def _span_s(whole: Sequence[tuple[float, int, float]]) -> float:
    """Of a fixed window: the longest time that was told until its end, or more, where no beginning was seen."""
    longest_s = max(reset_in_s for _, _, reset_in_s in whole)
    usual_s = _usual(longest_s)
    if usual_s != longest_s:
        return usual_s
    ends = sorted(at + reset_in_s for at, _, reset_in_s in whole)
    if ends[-1] - ends[0] > _ONE_END_S:
        return longest_s
    return min((each for each in _SPANS_S if each >= longest_s), default=longest_s)


def _usual(span_s: float) -> float:
    return min((each for each in _SPANS_S if abs(each - span_s) <= _NEARLY * each), default=span_s)


def _rounded(whole: Sequence[tuple[float, int, float]]) -> bool:
    """Resets stand on whole seconds of the clock on the wall, from which the proxy's differs by a constant."""
    parts = [(at + reset_in_s) % 1.0 for at, _, reset_in_s in whole]
    one = parts[0]
    same = sum(1 for each in parts if min(abs(each - one), 1 - abs(each - one)) <= _ROUNDED_S)
    return len(parts) >= 3 and same >= 0.9 * len(parts)


class Amounts(NamedTuple):
    """What one request takes of each kind of window."""

    tokens_in: int
    max_out: int

    def first(self, kind: WindowKind, *, reserves: bool) -> float:
        """Before its answer is known. `reserves`: the provider sets the longest possible answer aside."""
        if kind is WindowKind.REQUESTS:
            return 1.0
        if kind is WindowKind.OUTPUT:
            return 0.0
        return float(max(self.tokens_in, self.max_out if reserves and kind is WindowKind.TOKENS else 0))


Pools = dict[tuple[str, WindowKind], Allowance]
"""Windows that several draw on, by the name of the pool."""


def _same_end(told_s: float | None, found_s: float) -> bool:
    """Both are about the same window, which isn't nearly over."""
    return told_s is not None and told_s > _ONE_END_S and abs(told_s - found_s) <= _ONE_END_S


class Limiter:
    """The windows of one lane while they are used: a request is charged to each of its family, or to none."""

    def __init__(
        self,
        limits: Iterable[FittedLimit],
        began_at: float,
        wall_offset: float,
        *,
        reserves: bool,
        pools: Pools | None = None,
    ) -> None:
        """`wall_offset` is added to a moment to have the time of day; `pools` is what limiters share."""
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
        """How long the request would have to wait; 0: it fits."""
        longest_s = 0.0
        for limit, allowance in self._windows.get(family, ()):
            wait_s = allowance.wait_s(now, amounts.first(limit.kind, reserves=self._reserves))
            if wait_s > longest_s:
                longest_s = wait_s
        return longest_s

    def left(self, now: float, family: str) -> dict[WindowKind, int]:
        """What remains of each window."""
        return {limit.kind: allowance.reading(now)[0] for limit, allowance in self._windows.get(family, ())}

    def missing(
        self, now: float, family: str, readings: Iterable[WindowReading]
    ) -> Iterator[tuple[FittedLimit, float]]:
        """Windows of requests of which less remains than should; it is taken."""
        told = {each.kind: each for each in readings}
        for limit, allowance in self._windows.get(family, ()):
            reading = told.get(limit.kind)
            if limit.kind is not WindowKind.REQUESTS or reading is None or reading.remaining is None:
                continue
            left, reset_in_s = allowance.reading(now)
            missing = left - reading.remaining
            # Of a window that has just begun anew one side may not have heard; a bucket's drops are rounded.
            if limit.fixed and not _same_end(reading.reset_in_s, reset_in_s):
                continue
            if missing >= (1 if limit.fixed else 2):
                allowance.take(now, missing)
                yield limit, float(missing)

    def nearly(self, now: float, family: str) -> bool:
        """Of some window so little is left that a refusal is no wonder."""
        return any(
            allowance.reading(now)[0] <= max(2.0, MARGIN * limit.limit)
            for limit, allowance in self._windows.get(family, ())
        )

    def charge(self, now: float, family: str, amounts: Amounts) -> None:
        """It was let in."""
        for limit, allowance in self._windows.get(family, ()):
            allowance.take(now, amounts.first(limit.kind, reserves=self._reserves))

    def settle(self, now: float, family: str, usage: Usage | None) -> None:
        """Its answer is over."""
        if usage is None or not usage.output_tokens:
            return
        for limit, allowance in self._windows.get(family, ()):
            if limit.kind is WindowKind.OUTPUT or (limit.kind is WindowKind.TOKENS and not self._reserves):
                allowance.settle(now, usage.output_tokens)

    def readings(self, now: float, family: str) -> tuple[WindowReading, ...]:
        """What a reply says."""
        windows = self._windows.get(family)
        if not windows:
            return ()
        return tuple([self._reading(now, limit, allowance) for limit, allowance in windows if limit.told])

    def _reading(self, now: float, limit: FittedLimit, allowance: Allowance) -> WindowReading:
        left, reset_in_s = allowance.reading(now)
        if limit.whole_seconds:
            wall = now + self._wall_offset
            reset_in_s = math.ceil(wall + reset_in_s - 1e-6) - wall
        return WindowReading(limit.kind, limit.limit, left, reset_in_s)
