"""Spells that come again after the same time, found by folding the recording at every period that may be meant."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hivemind.lab.fit.chain import ChainRun

MOST_DUTY = 0.5
"""A spell that lasts for a larger share of its period isn't one."""
_PARTS = (1, 2, 3)
"""A spell that nobody met may lie between two that were found."""
_FINE = 10
_MOST_CANDIDATES = 40
_BOUNDS = (0.002, 0.98)


@dataclass(frozen=True, slots=True)
class Period:
    """Every `every_s` seconds a spell of `lasts_s` begins, one of them at `first_at`."""

    every_s: float
    first_at: float
    lasts_s: float
    begins_sooner_s: float = 0.0
    """The beginning may be earlier by as much."""
    ends_later_s: float = 0.0
    """The end may be later by as much, or earlier."""
    every_within_s: float = 0.0
    """The period may be longer or shorter by as much."""

    def within(self, at: float) -> bool:
        """Return whether a time lies in a spell."""
        return (at - self.first_at) % self.every_s < self.lasts_s

    def drawn(self, rng: random.Random) -> Period:
        """Return another one that the recording allows as well."""
        sooner_s = rng.uniform(-self.begins_sooner_s, self.begins_sooner_s)
        later_s = rng.uniform(-self.ends_later_s, self.ends_later_s)
        return replace(
            self,
            every_s=self.every_s + rng.uniform(-self.every_within_s, self.every_within_s),
            first_at=self.first_at - sooner_s,
            lasts_s=max(0.1 * self.lasts_s, self.lasts_s + sooner_s + later_s),
        )


def fit_period(
    runs: Sequence[ChainRun], firsts: Sequence[float], outside: float, within: float, shortest_s: float
) -> Period | None:
    """Fit a period to runs with spells whose first attempts failed at `firsts`; None: none fits at all."""
    low, high = _BOUNDS
    outside, within = min(max(outside, low), 0.9), min(max(within, low), high)
    gains = (math.log((1 - within) / (1 - outside)), math.log(within / outside))
    points = [((run.begins_at + run.ends_at) / 2, gains[run.failed] * run.attempts) for run in runs]
    if len(points) < 2:
        return None
    recorded_s = points[-1][0] - points[0][0]
    candidates = [each for each in _candidates(firsts) if shortest_s / MOST_DUTY < each <= recorded_s / 1.5]
    if not candidates:
        return None
    best = max((_folded(points, each) for each in candidates), key=lambda each: each[0])
    every_s = best[1].every_s
    for scale in (best[1].lasts_s / recorded_s, best[1].lasts_s / recorded_s / _FINE):
        tried = [_folded(points, every_s * (1 + scale * step / _FINE)) for step in range(-_FINE, _FINE + 1)]
        most = max(gain for gain, _ in tried)
        good = [each.every_s for gain, each in tried if gain > most - 0.5]
        every_s = good[len(good) // 2]
        spread_s = (good[-1] - good[0]) / 2
    gain, found = _folded(points, every_s)
    return replace(found, every_within_s=spread_s) if gain > 0 else None


def _candidates(firsts: Sequence[float]) -> Iterator[float]:
    """Yield periods: each difference of neighbours, improved by the ones further away."""
    seen = 0
    for index, (one, two) in enumerate(pairwise(firsts)):
        for parts in _PARTS:
            every_s = (two - one) / parts
            for other in firsts[index + 2 :]:
                every_s = (other - one) / max(1, round((other - one) / every_s)) if every_s > 0 else 0.0
            if every_s > 0:
                yield every_s
                seen += 1
        if seen >= _MOST_CANDIDATES:
            return


def _folded(points: Sequence[tuple[float, float]], every_s: float) -> tuple[float, Period]:
    """Return the best spell in a recording folded at a period, and by how much more likely it makes the outcomes."""
    folded = sorted((at % every_s, gain) for at, gain in points)
    count = len(folded)
    best, bounds = 0.0, (0, 0)
    total, begun = 0.0, 0
    worst, worst_bounds = 0.0, (0, 0)
    least, least_begun = 0.0, 0
    everything = 0.0
    for index, (_, gain) in enumerate(folded):
        everything += gain
        if total <= 0.0:
            total, begun = 0.0, index
        total += gain
        if total > best:
            best, bounds = total, (begun, index)
        if least >= 0.0:
            least, least_begun = 0.0, index
        least += gain
        if least < worst:
            worst, worst_bounds = least, (least_begun, index)
    if everything - worst > best and worst_bounds != (0, count - 1):
        # The spell lies around the ends of the folded recording: everything but the best time without one.
        best, bounds = everything - worst, (worst_bounds[1] + 1, worst_bounds[0] - 1 + count)
    first, last = bounds

    def at(index: int) -> float:
        return folded[index % count][0] + (index // count) * every_s

    begins_gap_s, ends_gap_s = at(first) - at(first - 1), at(last + 1) - at(last)
    lasts_s = at(last) - at(first) + (begins_gap_s + ends_gap_s) / 2
    if lasts_s > MOST_DUTY * every_s:
        best = 0.0
    period = Period(every_s, at(first) - begins_gap_s / 2, lasts_s, begins_gap_s / 2, ends_gap_s / 2)
    return best, period
