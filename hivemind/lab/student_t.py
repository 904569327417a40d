"""Quantiles of Student's t, for the intervals of comparisons, predictions and experiments."""

from __future__ import annotations

import math
from functools import lru_cache

_STEPS = 400
_PRECISION = 1e-12
_TINY = 1e-300


@lru_cache(maxsize=1024)
def t_quantile(degrees: int, alpha: float) -> float:
    """Return what |t| exceeds with probability `alpha`, at one degree of freedom or more."""
    low, high = 0.0, 1.0
    while _beyond(high, degrees) > alpha:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if high - low <= _PRECISION * high:
            break
        low, high = (middle, high) if _beyond(middle, degrees) > alpha else (low, middle)
    return high


def _beyond(t: float, degrees: int) -> float:
    """Return the probability that |t| is larger: the regularised incomplete beta function of (degrees/2, 1/2)."""
    return _beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def _beta(a: float, b: float, x: float) -> float:
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    whole = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)
    return math.exp(whole) / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            found *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return found
