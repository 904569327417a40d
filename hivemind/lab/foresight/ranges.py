"""Intervals of predicted figures: what one real run with the changed settings will show in nine of ten cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, fmean

from msgspec import Struct

CONFIDENCE = 0.9
"""Of real runs an interval holds so many."""
_NORMAL = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
_FEW = 5.0
"""Counts below this are compared by difference, not by share: a share of little says little."""


class Range(Struct, frozen=True):
    """A figure and the interval that holds it in nine of ten runs."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        assert self.low <= self.value <= self.high


class Evidence(Struct, frozen=True):
    """What a prediction of one figure follows from."""

    recorded: float
    own: float
    """With the changes and the recorded luck."""
    before: Sequence[float]
    """Of draws with the recorded settings."""
    after: Sequence[float]
    share: float
    """Of the recording that was drawn from."""
    parts: Sequence[int]
    """By draw, the part of the recording that it simulates; the luck of draws shows within a part."""
    error: float
    """The model's own error, as a standard deviation of the logarithm."""
    least: float = _FEW
    """A figure below this is too small for shares."""
    adds_up: bool = True
    """The figure of a whole is the sum of its parts', as a total wait is, and a p95 isn't."""

    @property
    def scale(self) -> float:
        """What the figure of the part that was drawn from is to be divided by."""
        return self.share if self.adds_up else 1.0

    @property
    def quantile(self) -> float:
        """Student's t for the number of draws that show luck."""
        return t_quantile(max(1, len(self.parts) - len(set(self.parts))), 1.0 - CONFIDENCE)

    def variance(self, values: Sequence[float]) -> float:
        """Return the variance of figures of the draws within parts."""
        within = len(self.parts) - len(set(self.parts))
        if within < 1:
            return 0.0
        means = {
            part: fmean(each for each, of in zip(values, self.parts, strict=True) if of == part) for part in self.parts
        }
        return sum((each - means[of]) ** 2 for each, of in zip(values, self.parts, strict=True)) / within


def changed(evidence: Evidence) -> Range:
    """Return the figure of a run with the changes.

    The value is the middle of two estimates: the recorded luck under the changed settings, and what was recorded times
    the change among draws, in which the model's bias cancels out. The interval has the luck of the recorded run and
    that of a new one, which are independent, the doubt about the fit, and the model's error.
    """
    if not _by_share(evidence):
        return _by_difference(evidence)
    before, after = _logarithms(evidence.before), _logarithms(evidence.after)
    by_draws = math.log(evidence.recorded) + fmean(after) - fmean(before)
    middle = (math.log(evidence.own) + by_draws) / 2
    luck = math.sqrt((evidence.variance(before) + evidence.variance(after)) * evidence.share)
    apart = (math.log(evidence.own) - by_draws) / 2
    half = math.hypot(evidence.quantile * luck, _NORMAL * evidence.error, _NORMAL * apart)
    return Range(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def difference(evidence: Evidence) -> Range | None:
    """Return by what share the changes alter the figure, luck being the same; None: it is too small for shares."""
    if not _by_share(evidence):
        return None
    pairs = [two - one for one, two in zip(_logarithms(evidence.before), _logarithms(evidence.after), strict=True)]
    own = math.log(evidence.own / evidence.recorded)
    middle = (own + fmean(pairs)) / 2
    spread = math.sqrt(evidence.variance(pairs) * evidence.share)
    # What the settings don't touch has no error.
    error = evidence.error * min(1.0, (abs(middle) + spread) / evidence.error) if evidence.error else 0.0
    half = math.hypot(evidence.quantile * spread, _NORMAL * error, _NORMAL * (own - fmean(pairs)) / 2)
    return Range(*(math.expm1(each) for each in (middle, middle - half, middle + half)))


def shift(evidence: Evidence) -> Range:
    """Return by how much the changes alter the figure, in its unit, luck being the same."""
    pairs = [(two - one) / evidence.scale for one, two in zip(evidence.before, evidence.after, strict=True)]
    own = evidence.own - evidence.recorded
    middle = (own + fmean(pairs)) / 2
    spread = math.sqrt(evidence.variance(pairs) * evidence.share)
    half = evidence.quantile * math.hypot(spread, evidence.error * middle, (own - fmean(pairs)) / 2)
    return Range(middle, middle - half, middle + half)


def _by_difference(evidence: Evidence) -> Range:
    pairs = [two - one for one, two in zip(evidence.before, evidence.after, strict=True)]
    moved = fmean(pairs) / evidence.scale
    value = max(0.0, (evidence.own + evidence.recorded + moved) / 2)
    luck = math.sqrt((evidence.variance(evidence.before) + evidence.variance(evidence.after)) * evidence.share)
    spread = luck / evidence.scale
    half = math.hypot(
        evidence.quantile * spread, _NORMAL * evidence.error * value, _NORMAL * (evidence.own - value) / 2
    )
    return Range(value, max(0.0, value - half), value + half)


def _by_share(evidence: Evidence) -> bool:
    drawn = min(*evidence.before, *evidence.after) / max(evidence.scale, 1e-9)
    return min(evidence.recorded, evidence.own, drawn) >= evidence.least


def _logarithms(values: Sequence[float]) -> list[float]:
    return [math.log(each) for each in values]


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
