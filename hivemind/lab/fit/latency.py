"""How long answers take, by what a request finds: how much else is in flight, and when.

An answer's own length and luck stay with it: what was recorded is scaled by how much slower (or faster) a request of
its kind would have been with so much in flight at that time. With the recorded settings that is a factor of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

_OF_MEDIAN = 1.4826
"""A normal deviation in units of the median one."""
SURE = 4.0
"""An effect that isn't so many times its own standard error is taken to be none."""
FEWEST = 30
"""Answers from which anything is concluded."""
BINS = 60
SHORTEST_BIN_S = 10.0
_STEEPEST = 2.0
_PRIOR = 2.0
"""A slow spell is believed in as if so many usual answers had come in it too."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer."""

    at: float
    in_flight: int
    size: float
    """What its time should depend on: characters of the prompt, or tokens of the answer."""
    duration_s: float


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """What was found. The factors are exponents of e, so that they add up."""

    samples: int
    by_size: float = 0.0
    """The time goes with this power of the size."""
    by_in_flight: float = 0.0
    """Likewise, of what is in flight."""
    began_at: float = 0.0
    bin_s: float = math.inf
    by_time: tuple[float, ...] = ()
    """In each stretch of so many seconds, how much slower it was than usual."""
    max_in_flight: int = 0
    """Beyond which nothing was seen."""

    def factor(self, at: float, in_flight: int, recorded_at: float, recorded_in_flight: int) -> float:
        """By how much the time of an answer changes that begins at another moment, with something else in flight."""
        exponent = 0.0
        if self.by_in_flight and in_flight != recorded_in_flight:
            exponent = self.by_in_flight * math.log(max(1, in_flight) / max(1, recorded_in_flight))
        if self.by_time:
            exponent += self._slower(at) - self._slower(recorded_at)
        return math.exp(exponent) if exponent else 1.0

    def size_factor(self, size: float, recorded_size: float) -> float:
        """By how much it changes for a request of another size."""
        if not self.by_size:
            return 1.0
        return math.pow((size + 1.0) / (recorded_size + 1.0), self.by_size)

    def _slower(self, at: float) -> float:
        place = int((at - self.began_at) / self.bin_s)
        return self.by_time[place] if 0 <= place < len(self.by_time) else 0.0


def fit_latency(samples: Sequence[Sample]) -> LatencyModel:
    """What the times of answers depend on, as far as it is sure."""
    usable = [each for each in samples if each.duration_s > 0]
    if len(usable) < FEWEST:
        return LatencyModel(len(usable), max_in_flight=max((each.in_flight for each in usable), default=0))
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
    most = max(each.in_flight for each in usable)
    return LatencyModel(len(usable), by_size, by_in_flight, began_at, bin_s, by_time, most)


def _slopes(sizes: Sequence[float], in_flight: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """Least squares on both at once, since they may go together; a slope that isn't sure is 0."""
    a, b, t = _centred(sizes), _centred(in_flight), _centred(times)
    aa, bb, ab = _dot(a, a), _dot(b, b), _dot(a, b)
    at, bt = _dot(a, t), _dot(b, t)
    n = len(t)
    flat_a, flat_b = aa < 1e-3 * n, bb < 1e-3 * n
    if flat_a or flat_b or aa * bb - ab * ab < 0.05 * aa * bb:
        # One of them hardly varies, or they can't be told apart: then size is the one that is believed.
        return (0.0 if flat_a else _slope(a, t, aa, at)), (_slope(b, t, bb, bt) if flat_a and not flat_b else 0.0)
    det = aa * bb - ab * ab
    by_a, by_b = (at * bb - bt * ab) / det, (bt * aa - at * ab) / det
    noise = _dot(t, t) - by_a * at - by_b * bt
    variance = max(noise, 0.0) / max(1, n - 3)
    sure_a = abs(by_a) > SURE * math.sqrt(variance * bb / det)
    sure_b = abs(by_b) > SURE * math.sqrt(variance * aa / det)
    if sure_a and sure_b:
        return _bounded(by_a), _bounded(by_b)
    if sure_a or sure_b:
        return (_slope(a, t, aa, at), 0.0) if sure_a else (0.0, _slope(b, t, bb, bt))
    return 0.0, 0.0


def _slope(x: Sequence[float], t: Sequence[float], xx: float, xt: float) -> float:
    slope = xt / xx
    noise = max(_dot(t, t) - slope * xt, 0.0) / max(1, len(t) - 2)
    return _bounded(slope) if abs(slope) > SURE * math.sqrt(noise / xx) else 0.0


def _by_time(samples: Sequence[Sample], rest: Sequence[float], began_at: float, bin_s: float) -> tuple[float, ...]:
    bins: dict[int, list[float]] = {}
    for each, left in zip(samples, rest, strict=True):
        bins.setdefault(int((each.at - began_at) / bin_s), []).append(left)
    # By the median too: a slow spell is what is looked for, and mustn't hide itself.
    spread = _OF_MEDIAN * median(abs(each) for each in rest) or 1e-9
    effects = [0.0] * (max(bins) + 1)
    for place, lefts in bins.items():
        mean, n = fmean(lefts), len(lefts)
        if abs(mean) > SURE * spread / math.sqrt(n):
            effects[place] = mean * n / (n + _PRIOR)
    return tuple(effects) if any(effects) else ()


def _centred(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    return [each - mean for each in values]


def _dot(one: Sequence[float], two: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(one, two, strict=True))


def _bounded(slope: float) -> float:
    """More load never makes answers come sooner, and a steeper slope than this is a coincidence."""
    return min(max(slope, 0.0), _STEEPEST)
