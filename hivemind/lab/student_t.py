"""Quantiles of Student's t, for the intervals of predictions."""

from __future__ import annotations

import math
from functools import lru_cache

_PRECISION = 1e-12


@lru_cache(maxsize=1024)
def t_quantile(degrees: int, alpha: float) -> float:
    """Return what |t| exceeds with probability `alpha`, at one degree of freedom or more."""
    low, high = 0.0, math.pi / 2
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - _within(middle, degrees) > alpha else (low, middle)
    return math.tan(high) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    """Return the probability that |t| is at most sqrt(degrees) * tan(angle): the finite series for whole degrees of
    freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    found = 0.0
    for n in range(2 + odd, degrees + 1, 2):
        found += term
        term *= math.cos(angle) ** 2 * (n - 1) / n
    return 2 / math.pi * (angle + math.sin(angle) * found) if odd else math.sin(angle) * found
