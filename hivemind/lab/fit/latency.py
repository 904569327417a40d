"""A model of how latency depends on the size of a request, on requests in flight, and on time.

A simulation scales recorded latencies by the ratio of this model's values for the simulated and the recorded
conditions. With the recorded settings that factor is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

_SIGMA_PER_MAD = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""
SIGNIFICANT = 4.0
"""An effect below so many of its standard errors is taken to be none."""
MIN_SAMPLES = 30
"""With fewer answers nothing is fitted."""
BINS = 60
SHORTEST_BIN_S = 10.0
_STEEPEST = 2.0
"""A steeper slope is taken for a coincidence."""
_PRIOR = 2.0
"""The effect of a bin is shrunk as if it had so many average answers more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One recorded answer."""

    at: float
    in_flight: int
    size: float
    """Characters of the prompt, or tokens of the answer."""
    duration_s: float


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """The fitted model: the logarithm of the duration is a sum of these effects."""

    by_size: float = 0.0
    """The power of the size that the duration grows with."""
    by_in_flight: float = 0.0
    """The power of the requests in flight that the duration grows with."""
    began_at: float = 0.0
    bin_s: float = math.inf
    by_time: tuple[float, ...] = ()
    """The effect of each interval of `bin_s` seconds."""

    def factor(self, at: float, in_flight: int, recorded_at: float, recorded_in_flight: int) -> float:
        """Return the factor for an answer that begins at another time with other requests in flight."""
        exponent = 0.0
        if self.by_in_flight and in_flight != recorded_in_flight:
            exponent = self.by_in_flight * math.log(max(1, in_flight) / max(1, recorded_in_flight))
        if self.by_time:
            exponent += self._slower(at) - self._slower(recorded_at)
        return math.exp(exponent) if exponent else 1.0

    def size_factor(self, size: float, recorded_size: float) -> float:
        """Return the factor for a request of another size."""
        if not self.by_size:
            return 1.0
        return math.pow((size + 1.0) / (recorded_size + 1.0), self.by_size)

    def _slower(self, at: float) -> float:
        place = int((at - self.began_at) / self.bin_s)
        return self.by_time[place] if 0 <= place < len(self.by_time) else 0.0


def fit_latency(samples: Sequence[Sample]) -> LatencyModel:
    """Fit the significant effects."""
    usable = [each for each in samples if each.duration_s > 0]
    if len(usable) < MIN_SAMPLES:
        return LatencyModel()
    times = [math.log(each.duration_s) for each in usable]
    sizes = [math.log(each.size + 1.0) for each in usable]
    in_flight = [math.log(max(1, each.in_flight)) for each in usable]
    by_size, by_in_flight = _slopes(sizes, in_flight, times)
    rest = [t - by_size * s - by_in_flight * f for t, s, f in zip(times, sizes, in_flight, strict=True)]
    usual = median(rest)
    began_at = min(each.at for each in usable)
    recorded_s = max(each.at for each in usable) - began_at
    bin_s = max(SHORTEST_BIN_S, recorded_s / BINS)
    by_time = _by_time(usable, [each - usual for each in rest], began_at, bin_s)
    return LatencyModel(by_size, by_in_flight, began_at, bin_s, by_time)


def _slopes(sizes: Sequence[float], in_flight: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """Fit both by least squares at once, since they may be correlated; an insignificant slope is 0."""
    a, b, t = _centred(sizes), _centred(in_flight), _centred(times)
    aa, bb, ab = _dot(a, a), _dot(b, b), _dot(a, b)
    at, bt = _dot(a, t), _dot(b, t)
    n = len(t)
    flat_a, flat_b = aa < 1e-3 * n, bb < 1e-3 * n
    if flat_a or flat_b or aa * bb - ab * ab < 0.05 * aa * bb:
        # One of them hardly varies, or they are collinear: then the effect is attributed to the size.
        return (0.0 if flat_a else _slope(a, t, aa, at)), (_slope(b, t, bb, bt) if flat_a and not flat_b else 0.0)
    det = aa * bb - ab * ab
    by_a, by_b = (at * bb - bt * ab) / det, (bt * aa - at * ab) / det
    noise = _dot(t, t) - by_a * at - by_b * bt
    variance = max(noise, 0.0) / max(1, n - 3)
    significant_a = abs(by_a) > SIGNIFICANT * math.sqrt(variance * bb / det)
    significant_b = abs(by_b) > SIGNIFICANT * math.sqrt(variance * aa / det)
    if significant_a and significant_b:
        return _bounded(by_a), _bounded(by_b)
    if significant_a or significant_b:
        return (_slope(a, t, aa, at), 0.0) if significant_a else (0.0, _slope(b, t, bb, bt))
    return 0.0, 0.0


def _slope(x: Sequence[float], t: Sequence[float], xx: float, xt: float) -> float:
    slope = xt / xx
    noise = max(_dot(t, t) - slope * xt, 0.0) / max(1, len(t) - 2)
    return _bounded(slope) if abs(slope) > SIGNIFICANT * math.sqrt(noise / xx) else 0.0


def _by_time(samples: Sequence[Sample], rest: Sequence[float], began_at: float, bin_s: float) -> tuple[float, ...]:
    bins: dict[int, list[float]] = {}
    for each, left in zip(samples, rest, strict=True):
        bins.setdefault(int((each.at - began_at) / bin_s), []).append(left)
    # The median absolute deviation, because the slow intervals to be found would inflate the standard deviation.
    spread = _SIGMA_PER_MAD * median(abs(each) for each in rest) or 1e-9
    effects = [0.0] * (max(bins) + 1)
    for place, lefts in bins.items():
        mean, n = fmean(lefts), len(lefts)
        if abs(mean) > SIGNIFICANT * spread / math.sqrt(n):
            effects[place] = mean * n / (n + _PRIOR)
    return tuple(effects) if any(effects) else ()


def _centred(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    return [each - mean for each in values]


def _dot(one: Sequence[float], two: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(one, two, strict=True))


def _bounded(slope: float) -> float:
    """Clamp a slope: more load never makes answers faster."""
    return min(max(slope, 0.0), _STEEPEST)
