"""Rates and times as folded from events, in steps of the proxy's clock (:data:`~hivemind.world.health.STEP_S`), so that
a replay shows what was shown live. Each event costs the same; a view costs as much as the steps of a minute."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.scheduler.events import LaneState
from hivemind.scheduler.types import WindowKind
from hivemind.world.health import BOUNDS_S, FINE_BOUNDS_S, STEP_S, Histogram, Vitals

STEPS_KEPT = 60
"""Whole steps of which the series tell: five minutes."""
RECENT_STEPS = 12
"""Whole steps over which rates and quantiles are: a minute, and the present step besides."""
LEAST_SPAN_S = 60.0
"""Amounts by the minute and hour are over no less, so that the first request of a run is no fortune an hour."""
_Range = tuple[float, float]
"""The shortest and the longest of some times."""
_COARSE = tuple(bisect_left(BOUNDS_S, bound) for bound in (*FINE_BOUNDS_S, math.inf))
"""For each fine bin the coarse one that it is a part of."""


class Step(Struct):
    """What happened in one step."""

    requests: int = 0
    """Requests that ended; of them, those whose agent saw an error; likewise attempts."""
    failed: int = 0
    attempts: int = 0
    errors: int = 0
    tokens: int = 0
    dollars: float = 0.0
    tasks_done: int | None = None
    """How many tasks were done at the end of the step; None: as before."""
    waits: dict[int, int] = field(default_factory=dict)
    """How many in each bin of :data:`~hivemind.world.health.FINE_BOUNDS_S`; empty once they are no longer recent."""
    ttfts: dict[int, int] = field(default_factory=dict)
    wait_p95_s: float | None = None
    """Once the step is over; None: there was none."""
    ttft_p95_s: float | None = None
    waits_range_s: _Range | None = None
    """None: unknown, or there are none."""
    ttfts_range_s: _Range | None = None


class Times(Struct):
    """A histogram since the start."""

    bins: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0
    range_s: _Range | None = None
    """None: unknown, or there are none."""

    def copy(self) -> Times:
        """Return a copy of it."""
        return Times(self.bins.copy(), self.sum_s, self.range_s)

    def add(self, step: Mapping[int, int], range_s: _Range | None) -> None:
        """Add those of a step, but for their sum."""
        if step:
            self.range_s = _joined([range_s, *([self.range_s] if any(self.bins) else [])])
        for number, count in step.items():
            self.bins[_COARSE[number]] += count

    def histogram(self, step: Mapping[int, int], range_s: _Range | None) -> Histogram:
        """Return it with what a step adds."""
        found = self.copy()
        found.add(step, range_s)
        return Histogram(tuple(found.bins), found.sum_s, found.range_s)


@dataclasses.dataclass(slots=True)
class VitalsState:
    """The fold as the next part of a journal begins with it."""

    number: int = 0
    """Of the present step, counted from the clock's zero."""
    steps: list[Step] = dataclasses.field(default_factory=lambda: [Step()])
    """The present step is the last."""
    waits: Times = dataclasses.field(default_factory=Times)
    """Of the steps that are over, but for the sum, which is of all; times to first token likewise."""
    ttfts: Times = dataclasses.field(default_factory=Times)
    tasks_before: int = 0
    """Tasks that were done before the first of these steps."""


class VitalsFold(VitalsState):
    """Counts what happens. Its methods are to be called in the order of time."""

    __slots__ = ("_series", "_step", "_until")

    def __init__(self, at: float = 0.0) -> None:
        """Begin at this moment, so that no step before is shown as one in which nothing happened."""
        super().__init__(int(at / STEP_S))
        self._resume()

    def _resume(self) -> None:
        self._step = self.steps[-1]
        self._until = (self.number + 1) * STEP_S
        self._series: tuple[int, dict[str, tuple[float | None, ...]]] | None = None

    def restore(self, state: VitalsState) -> None:
        """Take over a state, which stays as it is; one of other bins, as another version has, is left out."""
        if not _is_sound(state):
            return
        own = copied(state)
        self.number, self.steps, self.tasks_before = own.number, own.steps, own.tasks_before
        self.waits, self.ttfts = own.waits, own.ttfts
        self._resume()

    def waited(self, at: float, waited_s: float) -> None:
        """Count a wait for an attempt, the pause before a retry included."""
        if at >= self._until:
            self._advance(at)
        step = self._step
        waits, number, range_s = step.waits, bisect_left(FINE_BOUNDS_S, waited_s), step.waits_range_s
        if range_s is None or not range_s[0] <= waited_s <= range_s[1]:
            step.waits_range_s = _wider(range_s, waited_s, waits)
        waits[number] = waits.get(number, 0) + 1
        self.waits.sum_s += waited_s

    def sent_at_once(self, at: float) -> None:
        """Count an attempt without a wait."""
        if at >= self._until:
            self._advance(at)
        step = self._step
        waits, range_s = step.waits, step.waits_range_s
        if range_s is None or range_s[0] > 0.0:
            step.waits_range_s = _wider(range_s, 0.0, waits)
        waits[0] = waits.get(0, 0) + 1

    def first_content(self, at: float, ttft_s: float) -> None:
        """Count a time to first token."""
        if at >= self._until:
            self._advance(at)
        step = self._step
        ttfts, number, range_s = step.ttfts, bisect_left(FINE_BOUNDS_S, ttft_s), step.ttfts_range_s
        if range_s is None or not range_s[0] <= ttft_s <= range_s[1]:
            step.ttfts_range_s = _wider(range_s, ttft_s, ttfts)
        ttfts[number] = ttfts.get(number, 0) + 1
        self.ttfts.sum_s += ttft_s

    def finished(self, at: float, tokens: int) -> None:
        """Count a request that was answered, its attempt, and its tokens."""
        if at >= self._until:
            self._advance(at)
        step = self._step
        step.requests += 1
        step.attempts += 1
        step.tokens += tokens

    def attempt_failed(self, at: float, *, retried: bool) -> None:
        """Count an attempt that failed, and its request unless that is retried."""
        if at >= self._until:
            self._advance(at)
        step = self._step
        step.attempts += 1
        step.errors += 1
        step.requests += not retried
        step.failed += not retried

    def ended(self, at: float, *, failed: bool) -> None:
        """Count a request that was refused (`failed`), or whose client left."""
        if at >= self._until:
            self._advance(at)
        self._step.requests += 1
        self._step.failed += failed

    def used(self, at: float, tokens: int) -> None:
        """Count tokens."""
        if at >= self._until:
            self._advance(at)
        self._step.tokens += tokens

    def tasks(self, at: float, done: int) -> None:
        """Note how many tasks are done."""
        if at >= self._until:
            self._advance(at)
        self._step.tasks_done = done

    def priced(self, at: float, dollars: float) -> None:
        """Add what was spent at a moment that may be past."""
        ago = self.number - int(at / STEP_S)
        if ago < len(self.steps):
            self.steps[-1 - max(0, ago)].dollars += dollars
            self._series = None

    def _advance(self, at: float) -> None:
        """Go on to the step of this moment."""
        number, steps = int(at / STEP_S), self.steps
        self._close(self._step)
        skipped = min(number - self.number - 1, STEPS_KEPT)
        steps += [Step() for _ in range(skipped + 1)]
        self.number = number
        for gone in steps[: -STEPS_KEPT - 1]:
            self.tasks_before = self.tasks_before if gone.tasks_done is None else gone.tasks_done
        del steps[: -STEPS_KEPT - 1]
        for old in steps[-RECENT_STEPS - 2 - skipped : -RECENT_STEPS - 1]:
            old.waits, old.ttfts = {}, {}
        self._resume()

    def _close(self, step: Step) -> None:
        self.waits.add(step.waits, step.waits_range_s)
        self.ttfts.add(step.ttfts, step.ttfts_range_s)
        step.wait_p95_s = quantile(_summed([(step.waits, step.waits_range_s)]), 0.95)
        step.ttft_p95_s = quantile(_summed([(step.ttfts, step.ttfts_range_s)]), 0.95)

    # --- The views ---------------------------------------------------------------------------------------------------

    def view(
        self,
        at: float,
        started_at: float,
        tasks: Mapping[str, int],
        limit: float | None,
        waiting_s: Iterable[float] = (),
        slow_s: Iterable[float] = (),
    ) -> Vitals:
        """Return the vitals at this moment; `tasks` is the number of tasks by state, `limit` the tokens a minute, and
        `waiting_s` are the waits of requests that are still to be sent, `slow_s` of what is hung without content."""
        if at >= self._until:
            self._advance(at)
        recent = self.steps[-RECENT_STEPS - 1 :]
        span_s = max(1.0, at - max(started_at, (self.number - len(recent) + 1) * STEP_S))
        requests, attempts = sum(each.requests for each in recent), sum(each.attempts for each in recent)
        waits = _with_longer(_summed([(each.waits, each.waits_range_s) for each in recent]), waiting_s)
        ttfts = _with_longer(_summed([(each.ttfts, each.ttfts_range_s) for each in recent]), slow_s)
        long_s = max(span_s, LEAST_SPAN_S)
        return Vitals(
            span_s=span_s,
            requests_per_s=requests / span_s,
            tokens_per_min=sum(each.tokens for each in recent) * 60.0 / long_s,
            tokens_limit=limit,
            error_share=sum(each.errors for each in recent) / attempts if attempts else None,
            failed_share=sum(each.failed for each in recent) / requests if requests else None,
            wait_p50_s=quantile(waits, 0.5),
            wait_p95_s=quantile(waits, 0.95),
            ttft_p50_s=quantile(ttfts, 0.5),
            ttft_p95_s=quantile(ttfts, 0.95),
            dollars_per_hour=sum(each.dollars for each in recent) * 3600.0 / long_s,
            tasks_done=tasks.get("done", 0),
            tasks=sum(tasks.values()),
            series=self._past(),
            recent_waits=waits,
            recent_ttfts=ttfts,
            waits=self.waits.histogram(self._step.waits, self._step.waits_range_s),
            ttfts=self.ttfts.histogram(self._step.ttfts, self._step.ttfts_range_s),
        )

    def _past(self) -> Mapping[str, tuple[float | None, ...]]:
        """Return the series of the steps that are over; the same object until there is news."""
        if self._series is not None and self._series[0] == self.number:
            return self._series[1]
        over, done = self.steps[:-1], [self.tasks_before]
        for each in over:
            done.append(done[-1] if each.tasks_done is None else each.tasks_done)
        series: dict[str, tuple[float | None, ...]] = {
            "requests_per_s": tuple([each.requests / STEP_S for each in over]),
            "tokens_per_min": tuple([each.tokens * 60.0 / STEP_S for each in over]),
            "error_share": tuple([each.errors / each.attempts if each.attempts else None for each in over]),
            "wait_p95_s": tuple([each.wait_p95_s for each in over]),
            "ttft_p95_s": tuple([each.ttft_p95_s for each in over]),
            "dollars_per_hour": tuple([each.dollars * 3600.0 / STEP_S for each in over]),
            "tasks_done": tuple(done[1:]),
        }
        self._series = self.number, series
        return series


def tokens_limit(lanes: Iterable[LaneState]) -> float | None:
    """Return the tokens a minute that the rate windows of all lanes allow together; None: unknown for one of them."""
    total = 0.0
    for lane in lanes:
        limits: dict[str, dict[WindowKind, float]] = {}
        for window in lane.windows:
            limits.setdefault(window.family, {})[window.kind] = window.limit
        if not limits:
            return None
        for by_kind in limits.values():
            kinds = (WindowKind.TOKENS,) if WindowKind.TOKENS in by_kind else (WindowKind.INPUT, WindowKind.OUTPUT)
            total += sum(by_kind.get(kind, math.inf) for kind in kinds)
    return total if 0.0 < total < math.inf else None


def copied(state: VitalsState) -> VitalsState:
    """Return a copy that doesn't change with what happens next."""
    steps = [replace(each, waits=each.waits.copy(), ttfts=each.ttfts.copy()) for each in state.steps]
    return VitalsState(state.number, steps, state.waits.copy(), state.ttfts.copy(), state.tasks_before)


def _is_sound(state: VitalsState) -> bool:
    fine = range(len(FINE_BOUNDS_S) + 1)
    return (
        bool(state.steps)
        and all(len(each.bins) == len(BOUNDS_S) + 1 for each in (state.waits, state.ttfts))
        and all(number in fine for each in state.steps for number in (*each.waits, *each.ttfts))
    )


# --- Quantiles --------------------------------------------------------------------------------------------------------


def quantile(times: Histogram, share: float) -> float | None:
    """Return the time that this share of them doesn't exceed, to within a few percent where the bins are fine, and
    within the times' range where that is known; None: there are none. Where it isn't, what is in the first bin counts
    as nothing, and what is longer than all bounds as the last one."""
    bounds = FINE_BOUNDS_S if len(times.bins) == len(FINE_BOUNDS_S) + 1 else BOUNDS_S
    if not (number := sum(times.bins)):
        return None
    found, wanted, before = bounds[-1], share * number, 0
    for each, count in enumerate(times.bins[:-1]):
        if count and before + count >= wanted:
            low, high = (bounds[each - 1], bounds[each]) if each else (0.0, 0.0)
            found = low + (high - low) * (wanted - before) / count
            break
        before += count
    shortest_s, longest_s = times.range_s or (0.0, math.inf)
    return min(max(found, shortest_s), longest_s)


def _with_longer(waits: Histogram, waiting_s: Iterable[float]) -> Histogram:
    """Return the waits with those that aren't over but are longer already than nearly all that are: without them no
    wait would be seen while nothing gets through. Shorter ones tell nothing yet of how long they will be."""
    least_s = quantile(waits, 0.95) or 0.0
    longer: dict[int, int] = {}
    range_s = None
    for each in waiting_s:
        if each > least_s:
            number = bisect_left(FINE_BOUNDS_S, each)
            range_s = _wider(range_s, each, longer)
            longer[number] = longer.get(number, 0) + 1
    return _summed([(dict(enumerate(waits.bins)) if any(waits.bins) else {}, waits.range_s), (longer, range_s)])


def _summed(parts: Iterable[tuple[Mapping[int, int], _Range | None]]) -> Histogram:
    """Return the sum of fine bins and their ranges."""
    bins, ranges = [0] * (len(FINE_BOUNDS_S) + 1), list[_Range | None]()
    for found, range_s in parts:
        if found:
            ranges.append(range_s)
        for number, count in found.items():
            bins[number] += count
    return Histogram(tuple(bins), range_s=_joined(ranges))


def _joined(ranges: Sequence[_Range | None]) -> _Range | None:
    """Return the range of times that have these; None: one of them isn't known, or there are none."""
    known = [each for each in ranges if each is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _wider(range_s: _Range | None, time_s: float, others: Mapping[int, int]) -> _Range | None:
    """Return the range with one more time; `others` are the bins of those before."""
    if range_s is None:
        return None if others else (time_s, time_s)
    return min(range_s[0], time_s), max(range_s[1], time_s)


# --- Of several proxies -----------------------------------------------------------------------------------------------


def merged_vitals(parts: Sequence[Vitals], limit: float | None) -> Vitals:
    """Return the vitals of all parts together; `limit` is the tokens a minute that all lanes allow."""
    recent_waits, recent_ttfts = (
        _histogram([getattr(each, name) for each in parts]) for name in ("recent_waits", "recent_ttfts")
    )
    requests = [each.requests_per_s for each in parts]
    return Vitals(
        span_s=max(each.span_s for each in parts),
        requests_per_s=sum(requests),
        tokens_per_min=sum(each.tokens_per_min for each in parts),
        tokens_limit=limit,
        error_share=_mean_share([each.error_share for each in parts], requests),
        failed_share=_mean_share([each.failed_share for each in parts], requests),
        wait_p50_s=quantile(recent_waits, 0.5),
        wait_p95_s=quantile(recent_waits, 0.95),
        ttft_p50_s=quantile(recent_ttfts, 0.5),
        ttft_p95_s=quantile(recent_ttfts, 0.95),
        dollars_per_hour=sum(each.dollars_per_hour for each in parts),
        tasks_done=sum(each.tasks_done for each in parts),
        tasks=sum(each.tasks for each in parts),
        series={name: _merged_series(name, parts) for name in dict.fromkeys(chain(*(each.series for each in parts)))},
        recent_waits=recent_waits,
        recent_ttfts=recent_ttfts,
        waits=_histogram([each.waits for each in parts]),
        ttfts=_histogram([each.ttfts for each in parts]),
    )


def _histogram(parts: Sequence[Histogram]) -> Histogram:
    """Return the sum of those with times, which have the same bins."""
    some = [each for each in parts if any(each.bins)]
    bins = tuple(map(sum, zip(*(each.bins for each in some), strict=False)))
    range_s = _joined([each.range_s for each in some])
    return Histogram(bins or parts[0].bins, sum(each.sum_s for each in parts), range_s)


def _mean_share(shares: Iterable[float | None], weights: Iterable[float]) -> float | None:
    """Return the mean of the shares that are known, by these weights; if they have none, without."""
    known = [(share, weight) for share, weight in zip(shares, weights, strict=True) if share is not None]
    total = sum(weight for _, weight in known)
    if not total:
        return sum(share for share, _ in known) / len(known) if known else None
    return sum(share * weight for share, weight in known) / total


def _merged_series(name: str, parts: Sequence[Vitals]) -> tuple[float | None, ...]:
    """Return a series of all parts with the newest points last: sums, of shares means, of quantiles the longest time,
    as those of a step don't add up."""
    found = [part.series.get(name, ())[::-1] for part in parts]
    points = zip_longest(*found)
    if name.endswith("_p95_s"):
        made = [max((value for value in each if value is not None), default=None) for each in points]
    elif name == "error_share":
        weights = zip_longest(*(part.series.get("requests_per_s", ())[::-1] for part in parts))
        made = [_mean_share(each, [weight or 0.0 for weight in by]) for each, by in zip(points, weights, strict=False)]
    else:
        made = [sum(value or 0.0 for value in each) for each in points]
    return tuple(made[::-1])
