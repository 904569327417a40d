"""Failures by load: the more requests are in flight, the larger the share that fails."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from msgspec import Struct

from hivemind.lab.fit.outcomes import Outcome, log_likelihood, share_failed
from hivemind.records import replace

_ROUNDS = 30
_PRIOR = 0.05
"""The slope is held back as if by a normal distribution with this precision."""
_STEEPEST = 12.0


class Load(Struct, frozen=True):
    """The logit of the share that fails grows with the logarithm of the number in flight."""

    at_mean: float
    """The logit at the mean."""
    slope: float
    mean: float
    """Of the logarithms."""
    errors: tuple[float, float] = (0.0, 0.0)
    """The standard errors of both."""

    def share(self, in_flight: int) -> float:
        """Return the share that fails with so many in flight."""
        exponent = self.at_mean + self.slope * (math.log(max(1, in_flight)) - self.mean)
        return 1.0 / (1.0 + math.exp(-min(max(exponent, -30.0), 30.0)))

    def score(self, segments: Sequence[Sequence[Outcome]]) -> float:
        """Return the log-likelihood of parts of a recording."""
        return sum(log_likelihood(each, [self.share(one.in_flight) for one in each]) for each in segments)

    def drawn(self, rng: random.Random) -> Load:
        """Return another one that the recording allows as well."""
        return replace(
            self, at_mean=rng.gauss(self.at_mean, self.errors[0]), slope=max(0.0, rng.gauss(self.slope, self.errors[1]))
        )


def fit_load(segments: Sequence[Sequence[Outcome]]) -> Load | None:
    """Fit by Newton's method; None: the share doesn't grow."""
    outcomes = [one for each in segments for one in each]
    counts: dict[int, list[int]] = {}
    for one in outcomes:
        count = counts.setdefault(max(1, one.in_flight), [0, 0])
        count[0] += one.failed
        count[1] += 1
    if len(counts) < 2:
        return None
    mean = sum(math.log(n) * tried for n, (_, tried) in counts.items()) / len(outcomes)
    share = share_failed(outcomes)
    level, slope = math.log(share / (1 - share)), 0.0
    for _ in range(_ROUNDS):
        load = Load(level, slope, mean)
        by_level, by_slope = 0.0, -_PRIOR * slope
        aa, ab, bb = 1e-6, 0.0, _PRIOR
        for n, (failed, tried) in counts.items():
            expected, x = load.share(n), math.log(n) - mean
            weight = tried * expected * (1 - expected)
            by_level += failed - tried * expected
            by_slope += (failed - tried * expected) * x
            aa, ab, bb = aa + weight, ab + weight * x, bb + weight * x * x
        det = aa * bb - ab * ab
        if det <= 0:
            return None
        steps = (bb * by_level - ab * by_slope) / det, (aa * by_slope - ab * by_level) / det
        level += min(max(steps[0], -1.0), 1.0)
        slope += min(max(steps[1], -1.0), 1.0)
        if max(map(abs, steps)) < 1e-6:
            break
    if not 0 < slope < _STEEPEST:
        return None
    return Load(level, slope, mean, (math.sqrt(bb / det), math.sqrt(aa / det)))
