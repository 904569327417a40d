"""What explains failures of attempts: load (the more requests are in flight, the larger the share that fails), and
spells, times in which more attempts fail than usual."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from statistics import fmean

from msgspec import Struct

from hivemind.lab.fit.chain import Chain, Outcome, log_likelihood, runs_of, share_failed
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


_SHORTEST_S = 1e-6


class Spell(Struct, frozen=True):
    """One spell of the recording, and what is known of its bounds."""

    began_at: float
    ended_at: float
    begins: tuple[float, float]
    """It began after the one, the last attempt before it, and before the other, its first failure."""
    ends: tuple[float, float]
    """It ended after the one, its last failure, and before the other, the next attempt; infinite: there is none."""
    tried: int
    failed: int


class Spells(Struct, frozen=True):
    """The spells of one lane."""

    share: float
    """Of the attempts in a spell, so many fail."""
    chain: Chain
    recorded: tuple[Spell, ...]
    lasts_s: float
    """On average."""

    def within(self, at: float) -> bool:
        """Return whether a time of the recording lies in a spell."""
        index = bisect_right(self.recorded, at, key=lambda spell: spell.began_at) - 1
        return index >= 0 and at < self.recorded[index].ended_at

    def drawn(self, rng: random.Random) -> Spells:
        """Return others that the recording allows as well."""
        tried = sum(each.tried for each in self.recorded)
        failed = sum(each.failed for each in self.recorded)
        share = rng.betavariate(failed + 0.7, tried - failed + 0.3)
        count = len(self.recorded)
        chain = replace(
            self.chain,
            begins_per_s=self.chain.begins_per_s * rng.gammavariate(count + 0.5, 1.0) / (count + 0.5),
            ends_per_s=self.chain.ends_per_s * rng.gammavariate(count + 0.5, 1.0) / (count + 0.5),
        )
        recorded = tuple(_placed(each, chain, rng) for each in self.recorded)
        return replace(self, share=share, chain=chain, lasts_s=1.0 / chain.ends_per_s, recorded=recorded)

    def next(self, after: float, rng: random.Random) -> tuple[float, float]:
        """Draw when the next spell begins and ends, after the end of one, or where nothing is known."""
        begins_at = after + rng.expovariate(self.chain.begins_per_s)
        return begins_at, begins_at + max(rng.expovariate(1.0 / self.lasts_s), _SHORTEST_S)


def spells_of(chain: Chain, outcomes: Sequence[Outcome], began_at: float) -> Spells | None:
    """Return the spells of a recording that began at a time; None: there is none."""
    runs = runs_of(outcomes, chain.longest_run_s)
    spells = []
    for first, last in chain.spells(runs):
        within = runs[first : last + 1]
        before_at = runs[first - 1].ends_at if first else min(began_at, within[0].begins_at)
        after_at = runs[last + 1].begins_at if last + 1 < len(runs) else math.inf
        begins, ends = (before_at, within[0].begins_at), (within[-1].ends_at, after_at)
        tried = sum(run.attempts for run in within)
        failed = sum(run.attempts for run in within if run.failed)
        spells.append(Spell(begins[1], ends[0], begins, ends, tried, failed))
    if not spells:
        return None
    placed = tuple(_placed(each, chain, None) for each in spells)
    tried, failed = sum(each.tried for each in placed), sum(each.failed for each in placed)
    lasts_s = fmean(each.ended_at - each.began_at for each in placed)
    return Spells(failed / tried, chain, placed, max(lasts_s, _SHORTEST_S))


def _placed(spell: Spell, chain: Chain, rng: random.Random | None) -> Spell:
    """Return the spell with its likely bounds, or (with `rng`) possible ones."""
    (earliest, first), (last, latest) = spell.begins, spell.ends
    before_s, after_s = _in_gap_s(chain, first - earliest, rng), _in_gap_s(chain, latest - last, rng)
    return replace(spell, began_at=first - before_s, ended_at=last + max(after_s, _SHORTEST_S))


def _in_gap_s(chain: Chain, gap_s: float, rng: random.Random | None) -> float:
    """Return how much of a gap at the edge of a spell belongs to it."""
    if rng is None:
        return chain.in_gap_s(gap_s)
    rate = max(chain.ends_per_s - chain.begins_per_s, 1e-6)
    reached = 1.0 if math.isinf(gap_s) else -math.expm1(-rate * gap_s)
    return -math.log1p(-rng.random() * reached) / rate


def timeline(
    spells: Spells, began_at: float, ends_at: float, rng: random.Random, *, redrawn: bool
) -> Iterator[tuple[float, float]]:
    """Yield when spells begin and end in a simulation: as recorded, or drawn anew; drawn beyond the recording."""
    at = began_at
    if not redrawn:
        for spell in spells.recorded:
            yield spell.began_at, spell.ended_at
        at = max(ends_at, spells.recorded[-1].ended_at)
    elif rng.random() < spells.chain.begins_per_s / (spells.chain.begins_per_s + spells.chain.ends_per_s):
        at += rng.expovariate(spells.chain.ends_per_s)
        yield began_at, at
    while True:
        begins_at, at = spells.next(at, rng)
        yield begins_at, at
