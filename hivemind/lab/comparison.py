"""What runs are compared by, and one rule for which differences count, so that nothing disagrees on what is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from hivemind.journal.figures import Figures
from hivemind.scheduler.types import Priority
from hivemind.text.humanise import count, dollars, duration

NOISE = 0.01
"""A difference of at most this share of a figure is noise.

Latencies of a real provider vary by more than a percent between two identical runs, and a simulation is seldom closer
to its recording. A smaller difference would be another one next time, and no reason to change a setting.
"""
Unit = Literal["count", "seconds", "tokens", "dollars", "share"]
Verdict = Literal["better", "worse", "same", "unclear", "other work", ""]
"""`unclear`: the difference is noise or chance; `other work`: the runs didn't
answer the same number of requests, so that time and cost can't be compared; empty: nothing to judge."""
T = TypeVar("T")


class Measure(Struct, Generic[T], frozen=True):
    """A figure by which runs are compared."""

    name: str
    unit: Unit
    better: Literal["more", "less", ""]
    """Empty: neither is better."""
    of: Callable[[T], float | None]
    """Return the figure of a run; None: the run doesn't have it."""
    counts_endings: bool = False
    """It counts how requests or agents ended, so that it can be compared even where less was done."""


def is_noise(difference: float, base: float) -> bool:
    """Return whether a difference from `base` is too small to count."""
    return abs(difference) <= NOISE * abs(base)


def judged(
    measure: Measure[T], difference: float, low: float, high: float, base: float, *, more_work: float
) -> Verdict:
    """Return what a difference from `base` means, if it lies between `low` and `high`.

    `more_work` is positive if more was done than in what it is compared with, negative if less was.
    """
    if not measure.better:
        return ""
    if low <= 0 <= high or is_noise(difference, base):
        return "unclear"
    good = (difference < 0) == (measure.better == "less")
    if not measure.counts_endings and (more_work < 0 if good else more_work > 0):
        return "other work"
    return "better" if good else "worse"


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


def amount_of(unit: Unit, value: float, unpriced: int = 0) -> str:
    """Return a figure as text. `unpriced` counts tokens of unknown price, which dollars mark by a `+`."""
    if unit == "seconds":
        return duration(value)
    if unit == "dollars":
        return dollars(value, unpriced)
    if unit == "share":
        return f"{value:.3f}"
    if unit == "tokens":
        return count(round(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
