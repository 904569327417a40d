"""Mean and confidence interval of independent figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.959964


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
    mean = fmean(values)
    if len(values) == 1:
        return Spread(mean, 0.0, 1)
    return Spread(mean, student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values)), len(values))


def student_t(degrees: int) -> float:
    """Return the two-sided 95 % quantile of Student's t: tabulated up to 30 degrees of freedom, expanded beyond."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    first = (_NORMAL**3 + _NORMAL) / 4
    second = (5 * _NORMAL**5 + 16 * _NORMAL**3 + 3 * _NORMAL) / 96
    return _NORMAL + first / degrees + second / degrees**2
