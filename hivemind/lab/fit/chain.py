"""How attempts ended, and a chain of two states in continuous time that explains it: well, and a spell in which more
attempts fail.

The chain is fitted by expectation and maximisation. Where no attempt was made, for example while the circuit was
open, a spell may have ended at any time; so the time in a gap is shared out by the lengths of spells seen elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

_ROUNDS = 25
_ENOUGH = 1e-3
"""Rounds end when the log-likelihood grows by less."""
_MOST_RUN = 50
_STEPS = 3000
"""Outcomes alike are joined while they span less than this part of the recording."""
_LENGTHS = (0.01, 0.08)
"""Lengths of spells to begin with, as shares of the recording."""


class Outcome(NamedTuple):
    """How one attempt ended that neither places nor rate limits refused."""

    at: float
    """When it began."""
    failed: bool
    in_flight: int
    """Requests in flight when it began, itself included."""


def log_likelihood(outcomes: Sequence[Outcome], shares: Sequence[float]) -> float:
    """Return the log-likelihood of outcomes by the share that was expected to fail of each."""
    return math.fsum(
        math.log(max(1e-9, share if one.failed else 1.0 - share)) for one, share in zip(outcomes, shares, strict=True)
    )


def share_failed(outcomes: Sequence[Outcome]) -> float:
    """Return the share that failed, never quite 0 or 1."""
    return (sum(one.failed for one in outcomes) + 0.5) / (len(outcomes) + 1.0)


class ChainRun(NamedTuple):
    """Neighbouring attempts that ended alike."""

    begins_at: float
    ends_at: float
    failed: bool
    attempts: int


def runs_of(outcomes: Sequence[Outcome], longest_s: float) -> list[ChainRun]:
    """Join neighbouring outcomes that are alike."""
    runs: list[ChainRun] = []
    for at, failed, _ in outcomes:
        last = runs[-1] if runs else None
        if last and last.failed == failed and at - last.begins_at <= longest_s and last.attempts < _MOST_RUN:
            runs[-1] = ChainRun(last.begins_at, at, failed, last.attempts + 1)
        else:
            runs.append(ChainRun(at, at, failed, 1))
    return runs


class _Expected(Struct):
    """What a pass expects of the states."""

    likelihood: float
    within: list[float]
    """The probability that each run lies in a spell."""
    began: float = 0.0
    """Spells."""
    ended: float = 0.0
    well_s: float = 0.0
    spell_s: float = 0.0


class Chain(Struct, frozen=True):
    """The fitted chain."""

    outside: float
    """The share that fails outside of spells."""
    within: float
    """The share that fails in a spell."""
    begins_per_s: float
    """Of time outside of spells."""
    ends_per_s: float
    longest_run_s: float
    """How long outcomes that are alike are joined for."""

    def score(self, segments: Sequence[Sequence[Outcome]]) -> float:
        """Return the log-likelihood of parts of a recording; nothing is known of the state in which each begins."""
        return sum(self._pass(runs_of(segment, self.longest_run_s))[0] for segment in segments)

    def spells(self, runs: Sequence[ChainRun]) -> Iterator[tuple[int, int]]:
        """Yield the first and the last index of the runs in each spell; both of these failed."""
        expected = _Expected(0.0, [])
        self._expect(runs, expected)
        begun: int | None = None
        for index, within in enumerate([*expected.within, 0.0]):
            if within > 0.5:
                begun = index if begun is None else begun
            elif begun is not None:
                failed = [each for each in range(begun, index) if runs[each].failed]
                if failed:
                    yield failed[0], failed[-1]
                begun = None

    def in_gap_s(self, gap_s: float) -> float:
        """Return the expected part of a gap that belongs to the spell at one end of it."""
        rate = self.ends_per_s - self.begins_per_s
        if math.isinf(gap_s):
            return 1.0 / self.ends_per_s
        if abs(rate * gap_s) < 1e-3:
            return gap_s / 2
        return 1.0 / rate - gap_s / math.expm1(rate * gap_s) if rate * gap_s < 500 else 1.0 / rate

    def _pass(self, runs: Sequence[ChainRun]) -> tuple[float, list[tuple[float, float, float, float, float]]]:
        """Return the log-likelihood, and of each run the filtered state, its emissions and the two jumps before it."""
        both = self.begins_per_s + self.ends_per_s
        ill = self.begins_per_s / both
        state, likelihood, before_at = ill, 0.0, None
        steps = []
        for run in runs:
            begins = ends = 0.0
            if before_at is not None:
                changed = -math.expm1(-both * (run.begins_at - before_at))
                begins, ends = ill * changed, (1.0 - ill) * changed
                state = state * (1.0 - ends) + (1.0 - state) * begins
            span_s = run.ends_at - run.begins_at
            if run.failed:
                well, bad = self.outside**run.attempts, self.within**run.attempts
            else:
                well, bad = (1.0 - self.outside) ** run.attempts, (1.0 - self.within) ** run.attempts
            if span_s:
                well *= math.exp(-self.begins_per_s * span_s)
                bad *= math.exp(-self.ends_per_s * span_s)
            total = max(1e-300, state * bad + (1.0 - state) * well)
            state = state * bad / total
            likelihood += math.log(total)
            steps.append((state, well / total, bad / total, begins, ends))
            before_at = run.ends_at
        return likelihood, steps

    def _expect(self, runs: Sequence[ChainRun], into: _Expected) -> None:
        """Add what is expected of one segment."""
        likelihood, steps = self._pass(runs)
        into.likelihood += likelihood
        within = [0.0] * len(runs)
        back_well = back_bad = 1.0
        for index in range(len(runs) - 1, -1, -1):
            state, well, bad, begins, ends = steps[index]
            now = within[index] = state * back_bad / max(1e-300, state * back_bad + (1.0 - state) * back_well)
            span_s = runs[index].ends_at - runs[index].begins_at
            into.spell_s += now * span_s
            into.well_s += (1.0 - now) * span_s
            if not index:
                break
            before = steps[index - 1][0]
            to_bad, to_well = bad * back_bad, well * back_well
            joint = (
                (1.0 - before) * begins * to_bad,
                before * ends * to_well,
                before * (1.0 - ends) * to_bad,
                (1.0 - before) * (1.0 - begins) * to_well,
            )
            total = max(1e-300, math.fsum(joint))
            gap_s = runs[index].begins_at - runs[index - 1].ends_at
            began, ended, stayed = joint[0] / total, joint[1] / total, joint[2] / total
            in_spell_s = stayed * gap_s + (began + ended) * self.in_gap_s(gap_s)
            into.began += began
            into.ended += ended
            into.spell_s += in_spell_s
            into.well_s += gap_s - in_spell_s
            back_well, back_bad = (to_well * (1.0 - begins) + to_bad * begins, to_bad * (1.0 - ends) + to_well * ends)
            scale = back_well + back_bad
            back_well, back_bad = back_well / scale, back_bad / scale
        into.within += within


def fit_chain(segments: Sequence[Sequence[Outcome]], recorded_s: float) -> Chain | None:
    """Fit a chain to parts of a recording; None: nothing like spells is in them."""
    runs = [runs_of(each, recorded_s / _STEPS) for each in segments if each]
    fits = [_fit(runs, recorded_s, recorded_s * length) for length in _LENGTHS]
    best = max(fits, key=lambda each: each[1])[0]
    return best if best.within > max(2 * best.outside, 0.2) else None


def _fit(segments: Sequence[Sequence[ChainRun]], recorded_s: float, length_s: float) -> tuple[Chain, float]:
    failed = sum(run.attempts for segment in segments for run in segment if run.failed)
    tried = sum(run.attempts for segment in segments for run in segment)
    outside = 0.3 * (failed + 0.5) / (tried + 1.0)
    chain = Chain(outside, 0.9, 5.0 / recorded_s, 1.0 / length_s, recorded_s / _STEPS)
    likelihood = -math.inf
    for _ in range(_ROUNDS):
        expected = _Expected(0.0, [])
        for segment in segments:
            chain._expect(segment, expected)
        if expected.likelihood - likelihood < _ENOUGH:
            break
        likelihood = expected.likelihood
        chain = _improved(segments, expected, recorded_s)
    return chain, likelihood


def _improved(segments: Sequence[Sequence[ChainRun]], expected: _Expected, recorded_s: float) -> Chain:
    """Return the chain by which the expected states are most likely, with weak priors."""
    bad = failed_bad = well = failed_well = 0.0
    runs = (run for segment in segments for run in segment)
    for run, within in zip(runs, expected.within, strict=True):
        bad += within * run.attempts
        well += (1.0 - within) * run.attempts
        if run.failed:
            failed_bad += within * run.attempts
            failed_well += (1.0 - within) * run.attempts
    return Chain(
        (failed_well + 0.3) / (well + 1.0),
        (failed_bad + 1.0) / (bad + 1.2),
        (expected.began + 0.5) / (expected.well_s + recorded_s / 10),
        (expected.ended + 0.5) / (expected.spell_s + 1.0),
        recorded_s / _STEPS,
    )
