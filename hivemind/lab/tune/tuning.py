"""Searches for settings that would have served recorded traffic better over the range of what the recording allows.

Every candidate is simulated on the same draws of fits and luck as the recorded settings, and ranked by the lower end
of its gain. First single changes are tried, then the best are refined and combined, as long as each further change is
worth it. The best few are compared on other draws, and the winner is foretold on draws not used before, with the
error that the models have on parts of the recording that they haven't seen. Only what is better over that whole
interval is recommended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev
from typing import Literal

from msgspec import Struct, field

from hivemind.journal.figures import Figures
from hivemind.lab.foresight.draws import Job
from hivemind.lab.tune.promise import LEAST_GAIN, REDUCED, Goal, Promise, goes_beyond, harm, promised
from hivemind.lab.tune.simulations import Simulations
from hivemind.lab.tune.space import Changes, RecordedSettings, agree, distance, neighbours, single_changes

SCREENED, SEARCHED, CHOSEN = 2, 6, 12
"""Draws of a candidate to see whether it does any good, of one that does in the search, and to choose between the
best."""
FINALISTS, _VALIDATED = 5, 2
"""So many are compared, and of these so many foretold at most."""
_MOST_CHANGES = 3
_AT_ONCE = 8
"""Candidates per batch, independent of the number of cores, so that a seed gives the same search everywhere."""
_WORTH_A_CHANGE = 0.1
"""One more change has to add at least this share to the gain."""
_SOME = 0.002
"""A candidate that gains less in each of the first draws isn't tried on more."""
_STAGE, _SEED = 10_000, 100_000
"""Distances between the numbers of draws of two stages, and of two seeds; those of predictions begin at 0."""
_CERTAIN = 1.0
"""Standard errors below the mean at which candidates are ranked."""
Stage = Literal["search", "choose", "check"]


class TuningPlan(Struct, frozen=True):
    """The goal and the effort of a search."""

    goal: Goal
    trials: int
    """Candidates to try, without the recorded settings."""
    draws: int | None = None
    """Number of draws for the validation; None: by the recording's length."""
    seed: int = 0
    """The seed of the search."""


class Candidate(Struct, frozen=True):
    """A candidate and its simulations."""

    changes: Changes
    gains: tuple[float, ...]
    """By draw, the logarithm of the ratio of the goal's figure with the recorded settings to that with the changes."""
    harms: str
    """What gets worse; empty: nothing that counts."""
    beyond: bool
    """More is in flight than was recorded."""

    @property
    def gain(self) -> float:
        """The share taken off the goal's figure."""
        return -math.expm1(-fmean(self.gains))

    @property
    def score(self) -> float:
        """The lower end of the gain."""
        spread = stdev(self.gains) if len(self.gains) > 1 else 0.0
        return fmean(self.gains) - _CERTAIN * spread / math.sqrt(len(self.gains))


class TuningResult(Struct, frozen=True):
    """The result of a search."""

    goal: Goal
    trials: int
    """Candidates tried."""
    kept: Changes
    """The best found; empty: nothing looked better."""
    searched: float
    """The gain that these had in the search, some of which is luck."""
    promise: Promise | None
    """None: nothing to validate, or ended before that."""
    experiment: Candidate | None
    """What to try on live traffic, where the recording can't tell."""
    interrupted: bool = False

    @property
    def recommended(self) -> bool:
        """Whether the changes are certainly better, as far as the recording shows."""
        return self.promise is not None and not self.promise.why_not


class TuningProgress(Struct, frozen=True):
    """The progress of a search."""

    stage: Stage
    done: int
    of: int
    best: float
    """The gain of the best candidate so far."""


class Tuner(Struct):
    """One search over recordings with these settings."""

    simulations: Simulations
    recorded: Sequence[RecordedSettings]
    knobs: Sequence[str]
    plan: TuningPlan
    tell: Callable[[TuningProgress], object] = lambda _: None
    _seen: dict[tuple[int, Changes], Candidate | None] = field(default_factory=dict)
    _before: dict[int, list[Figures]] = field(default_factory=dict)
    """By first draw of a stage, the runs with the recorded settings."""
    _found: dict[Changes, Candidate] = field(default_factory=dict)
    _best: Candidate | None = None
    _promise: Promise | None = None

    def run(self) -> TuningResult:
        """Search, choose and validate. Ctrl-C gives the best so far."""
        interrupted = False
        try:
            self._search()
            finalists = self._choose()
            if finalists:
                self._best = finalists[0]
                self._validate(finalists)
        except KeyboardInterrupt:
            interrupted = True
        promise = self._promise
        changes = promise.changes if promise is not None else self._best.changes if self._best is not None else ()
        searched = self._found[changes].gain if changes in self._found else 0.0
        experiment = self._experiment()
        return TuningResult(self.plan.goal, len(self._found), changes, searched, promise, experiment, interrupted)

    # --- Stages --------------------------------------------------------------------------------------------------

    def _search(self) -> None:
        self._report("search")
        self._look_at([(each,) for each in single_changes(self.knobs, self.recorded)])
        for _ in range(_MOST_CHANGES - 1):
            best = self._best
            if best is None:
                return
            *before, last = best.changes
            self._look_at([(*before, each) for each in neighbours(last, self.recorded)])
            best = self._best or best
            more = [each.changes[0] for each in self._ranked() if len(each.changes) == 1]
            others = [each for each in more if each.name not in {change.name for change in best.changes}]
            by_knob = {each.name: each for each in reversed(others)}
            self._look_at([(*best.changes, each) for each in by_knob.values()])
            if self._best is best:
                return

    def _look_at(self, candidates: Iterable[Changes]) -> None:
        """Try candidates in batches, as far as there are trials left."""
        new = [each for each in dict.fromkeys(candidates) if each not in self._found and agree(each, self.recorded)]
        while new and len(self._found) < self.plan.trials:
            count = min(_AT_ONCE, self.plan.trials - len(self._found))
            batch, new = new[:count], new[count:]
            screened = [each for each in self._tried(batch, 0, SCREENED) if each is not None]
            self._found.update((each.changes, each) for each in screened)
            good = [each.changes for each in screened if max(each.gains) > _SOME]
            self._found.update((each.changes, each) for each in self._tried(good, 1, SEARCHED) if each is not None)
            self._best = self._winner(self._ranked())
            self._report("search")

    def _choose(self) -> list[Candidate]:
        """Return the best few, compared on other draws, the best first."""
        ranked = self._ranked()[:FINALISTS]
        if not ranked:
            return []
        self._report("choose")
        again = [each for each in self._tried([each.changes for each in ranked], 2, CHOSEN) if each is not None]
        left = sorted(filter(_is_good, again), key=_order)
        best = self._winner(left)
        return left if best is None else [best, *(each for each in left if each is not best)]

    def _validate(self, finalists: Sequence[Candidate]) -> None:
        """Foretell the finalists until one is recommended."""
        checked = None
        for number, each in enumerate(finalists[:_VALIDATED]):
            self._report("check", number, min(_VALIDATED, len(finalists)))
            checked = checked or self.simulations.checked()
            found = promised(
                self.plan.goal,
                each.changes,
                self.simulations.recordings,
                self.simulations,
                price=self.simulations.price,
                draws=self.plan.draws,
                checked=checked,
            )
            if self._promise is None or not found.why_not:
                self._promise = found
            if not found.why_not:
                return

    def _experiment(self) -> Candidate | None:
        """Return what to try on live traffic: what would be better if the model is right where it wasn't tried."""
        promise = self._promise
        if promise is not None and not promise.why_not:
            return None
        if promise is not None and promise.why_not in ("unclear", "refused") and promise.changes in self._found:
            return self._found[promise.changes]
        unsure = [each for each in self._seen_well() if not each.harms and each.score > LEAST_GAIN]
        return min(unsure, key=_order, default=None)

    # --- Candidates ----------------------------------------------------------------------------------------------

    def _ranked(self) -> list[Candidate]:
        """Return the candidates that may be recommended, the best first."""
        return sorted(filter(_is_good, self._seen_well()), key=_order)

    def _seen_well(self) -> list[Candidate]:
        """Return the candidates that were tried on more draws than the first ones."""
        return [each for each in self._found.values() if len(each.gains) >= SEARCHED]

    def _winner(self, ranked: Sequence[Candidate]) -> Candidate | None:
        """Return the best candidate, or one with fewer and smaller changes that is about as good."""
        if not ranked:
            return None
        enough = ranked[0].score * (1 - _WORTH_A_CHANGE)
        return min(
            (each for each in ranked if each.score >= enough),
            key=lambda each: (len(each.changes), distance(each.changes, self.recorded)),
        )

    def _tried(self, candidates: Sequence[Changes], stage: int, count: int) -> list[Candidate | None]:
        """Simulate each candidate once in every recording with every draw; None: its changes don't go together."""
        first = stage * _STAGE + (self.plan.seed + 1) * _SEED
        draws, places = range(first, first + count), range(len(self.recorded))
        new = [each for each in dict.fromkeys(candidates) if (first, each) not in self._seen]
        wanted = new if first in self._before else [(), *new]
        runs = self.simulations([(place, Job(each, draw)) for each in wanted for place in places for draw in draws])
        size = len(places) * count
        for number, each in enumerate(wanted):
            own = [run for run in runs[number * size : (number + 1) * size] if run is not None]
            if not each:
                self._before[first] = own
            else:
                self._seen[first, each] = self._candidate(each, self._before[first], own) if len(own) == size else None
        return [self._seen[first, each] for each in candidates]

    def _candidate(self, changes: Changes, before: Sequence[Figures], after: Sequence[Figures]) -> Candidate:
        draws, harms, beyond = len(before) // len(self.recorded), "", False
        gains = [0.0] * draws
        for place, recording in enumerate(self.simulations.recordings):
            part = slice(place * draws, (place + 1) * draws)
            was, now = before[part], after[part]
            harms = harms or harm(was, now)
            beyond = beyond or goes_beyond(recording.figures, was, now)
            for draw, (one, two) in enumerate(zip(was, now, strict=True)):
                gains[draw] += self._gain(one, two) / len(self.recorded)
        return Candidate(changes, tuple(gains), harms, beyond)

    def _gain(self, before: Figures, after: Figures) -> float:
        reduced = REDUCED[self.plan.goal]
        one, two = (max(reduced.of(run) or 0.0, reduced.least) for run in (before, after))
        return math.log(one / two)

    def _report(self, stage: Stage, done: int | None = None, of: int = 0) -> None:
        best = 0.0 if self._best is None else self._best.gain
        trials = done is None and stage == "search"
        self.tell(
            TuningProgress(stage, len(self._found) if trials else done or 0, self.plan.trials if trials else of, best)
        )


def _is_good(each: Candidate) -> bool:
    return not each.harms and not each.beyond and each.score > 0


def _order(each: Candidate) -> tuple[float, int, str]:
    return -each.score, len(each.changes), str(each.changes)
