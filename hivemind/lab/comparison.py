"""Comparison of two sets of runs, with one rule for which differences count, and intervals of means.

Predictions have the same measures and the same rule (:mod:`hivemind.lab.foresight.foretold`), so that nothing disagrees
on what is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Generic, Literal, TypeVar

from hivemind.journal.figures import Figures
from hivemind.lab.student_t import t_quantile
from hivemind.scheduler.types import Priority

NOISE = 0.01
"""A difference of at most this share of a figure is noise.

Latencies of a real provider vary by more than a percent between two identical runs, and a simulation is seldom closer
to its recording. A smaller difference would be another one next time, and no reason to change a setting.
"""
_ROUNDING = 0.0005
"""A difference below this share of a figure vanishes when it is shown."""
Unit = Literal["count", "seconds", "tokens", "dollars", "share"]
Verdict = Literal["better", "worse", "same", "unclear", "other work", ""]
"""`unclear`: the difference is noise or chance; `other work`: the runs didn't
answer the same number of requests, so that time and cost can't be compared; empty: nothing to judge."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several runs."""

    mean: float
    half: float
    """Half the width of the 95 % confidence interval of the mean (Student's t); 0 for a single run."""
    runs: int

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half


def spread(values: Sequence[float]) -> Spread:
    """Return mean and interval of at least one independent figure."""
    runs = len(values)
    half = t_quantile(runs - 1, 0.05) * stdev(values) / math.sqrt(runs) if runs > 1 else 0.0
    return Spread(fmean(values), half, runs)


@dataclass(frozen=True, slots=True)
class Measure(Generic[T]):
    """A figure by which runs are compared."""

    name: str
    unit: Unit
    better: Literal["more", "less", ""]
    """Empty: neither is better."""
    of: Callable[[T], float | None]
    """Return the figure of a run; None: the run doesn't have it."""
    counts_endings: bool = False
    """It counts how requests or agents ended, so that it can be compared even where less was done."""


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """A measure of two sets of runs."""

    measure: Measure[T]
    base: float
    """The mean of the first set, over the pairs in which both runs have the figure."""
    difference: Spread | None
    """The second less the first; None: no such pair."""
    verdict: Verdict


def compare(
    measures: Sequence[Measure[T]],
    before: Sequence[T],
    after: Sequence[T],
    *,
    more_work: float = 0,
) -> list[Row[T]]:
    """Compare runs pairwise: the first with the first, and so on.

    `more_work` is positive if more was done after than before, negative if less was.
    """
    return [_row(each, before, after, more_work) for each in measures]


def is_noise(difference: float, base: float) -> bool:
    """Return whether a difference from `base` is too small to count."""
    return abs(difference) <= NOISE * abs(base)


def _row(measure: Measure[T], before: Sequence[T], after: Sequence[T], more_work: float) -> Row[T]:
    pairs = [
        (one, two)
        for one, two in ((measure.of(one), measure.of(two)) for one, two in zip(before, after, strict=True))
        if one is not None and two is not None
    ]
    difference = spread([two - one for one, two in pairs]) if pairs else None
    base = fmean(one for one, _ in pairs) if pairs else 0.0
    return Row(measure, base, difference, _verdict(measure, difference, base, more_work))


def _verdict(measure: Measure[T], difference: Spread | None, base: float, more_work: float) -> Verdict:
    if difference is None or not measure.better:
        return ""
    if abs(difference.mean) <= _ROUNDING * abs(base) and not difference.half:
        return "same"
    uncertain = difference.runs > 1 and difference.low <= 0 <= difference.high
    if uncertain or is_noise(difference.mean, base):
        return "unclear"
    good = (difference.mean < 0) == (measure.better == "less")
    if not measure.counts_endings and (more_work < 0 if good else more_work > 0):
        return "other work"
    return "better" if good else "worse"


# --- Simulated and recorded runs ---------------------------------------------------------------------------------


def run_measures(runs: Sequence[Figures]) -> tuple[Measure[Figures], ...]:
    """Return everything by which these runs can be compared; waits by priority where there are several."""
    return (
        Measure("agents finished", "count", "more", lambda run: run.finished, counts_endings=True),
        Measure("wall time", "seconds", "less", lambda run: run.wall_s),
        Measure("wait, total", "seconds", "less", lambda run: run.waited_s),
        Measure("wait, p50", "seconds", "less", lambda run: run.together.p50_s),
        Measure("wait, p95", "seconds", "less", lambda run: run.together.p95_s),
        *_waits_by_priority(runs),
        Measure("retries", "count", "less", lambda run: run.retries),
        Measure("tokens", "tokens", "", lambda run: run.tokens),
        Measure("tokens wasted", "tokens", "less", lambda run: run.wasted_tokens),
        Measure("dollars", "dollars", "less", lambda run: run.dollars),
        Measure("fairness", "share", "more", lambda run: run.fairness),
        Measure("failed", "count", "less", lambda run: run.failed, counts_endings=True),
        Measure("refused", "count", "less", lambda run: run.refused, counts_endings=True),
        Measure("given up", "count", "less", lambda run: run.left, counts_endings=True),
        Measure("most in flight", "count", "", lambda run: run.busiest),
    )


def _waits_by_priority(runs: Sequence[Figures]) -> Iterator[Measure[Figures]]:
    seen = {name for run in runs for name in run.waits}
    if len(seen) > 1:
        for priority in (each.name.lower() for each in Priority if each.name.lower() in seen):
            for quantile in ("p50", "p95"):
                yield Measure(f"  {priority}, {quantile}", "seconds", "less", partial(_wait, priority, quantile))


def _wait(priority: str, quantile: str, run: Figures) -> float | None:
    waits = run.waits.get(priority)
    return None if waits is None else waits.p50_s if quantile == "p50" else waits.p95_s
