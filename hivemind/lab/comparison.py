"""What runs are compared by: each figure with its name, its unit, and which way is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Literal

from hivemind.journal.figures import Figures
from hivemind.scheduler.types import Priority

Unit = Literal["count", "seconds", "tokens", "dollars", "share"]
Better = Literal["more", "less", ""]


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of a comparison."""

    name: str
    unit: Unit
    better: Better
    """Empty: neither."""
    of: Callable[[Figures], float | None]
    """None: this run doesn't have it."""


def measures(runs: Sequence[Figures]) -> tuple[Measure, ...]:
    """Everything by which these runs can be compared."""
    several = len({name for run in runs for name in run.waits}) > 1
    rows = [
        Measure("agents finished", "count", "more", lambda run: run.finished),
        Measure("wall time", "seconds", "less", lambda run: run.wall_s),
        Measure("wait, total", "seconds", "less", lambda run: run.waited_s),
        Measure("wait, p50", "seconds", "less", lambda run: run.together.p50_s),
        Measure("wait, p95", "seconds", "less", lambda run: run.together.p95_s),
    ]
    for priority in (each.name.lower() for each in Priority):
        if several and any(priority in run.waits for run in runs):
            rows.append(Measure(f"  {priority}, p50", "seconds", "less", partial(_p50, priority)))
            rows.append(Measure(f"  {priority}, p95", "seconds", "less", partial(_p95, priority)))
    return (
        *rows,
        Measure("retries", "count", "less", lambda run: run.retries),
        Measure("tokens", "tokens", "", lambda run: run.tokens),
        Measure("tokens wasted", "tokens", "less", lambda run: run.wasted_tokens),
        Measure("dollars", "dollars", "less", lambda run: run.dollars),
        Measure("fairness", "share", "more", lambda run: run.fairness),
        Measure("failed", "count", "less", lambda run: run.failed),
        Measure("refused", "count", "less", lambda run: run.refused),
        Measure("given up", "count", "less", lambda run: run.left),
        Measure("most in flight", "count", "", lambda run: run.busiest),
    )


def _p50(priority: str, run: Figures) -> float | None:
    return run.waits[priority].p50_s if priority in run.waits else None


def _p95(priority: str, run: Figures) -> float | None:
    return run.waits[priority].p95_s if priority in run.waits else None


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several runs."""

    mean: float
    half: float
    """Half the width of the interval in which the true mean lies in 95 of 100 cases (Student's t); 0 for a single
    run, which says nothing of it."""
    runs: int

    @property
    def low(self) -> float:
        """Where that interval begins."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Where it ends."""
        return self.mean + self.half


def spread(values: Sequence[float]) -> Spread:
    """Mean and interval of figures that were drawn independently of each other. At least one."""
    mean = fmean(values)
    if len(values) == 1:
        return Spread(mean, 0.0, 1)
    return Spread(mean, student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values)), len(values))


_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.959964


def student_t(degrees: int) -> float:
    """The value that Student's t with so many degrees of freedom stays within, either way, in 95 of 100 cases; from the
    usual table up to 30, by the first terms of its expansion from there."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    first = (_NORMAL**3 + _NORMAL) / 4
    second = (5 * _NORMAL**5 + 16 * _NORMAL**3 + 3 * _NORMAL) / 96
    return _NORMAL + first / degrees + second / degrees**2
