"""Searches for settings that would have served recorded traffic better, and measures how certain the gain is.

Faults and latencies are drawn anew by seeds, the same for every candidate. The search uses a few seeds; the best
candidates are compared and pruned on other seeds; and the result is validated against the recorded settings on seeds
not used before, so that luck isn't taken for a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, TypeGuard

from hivemind.journal.figures import Figures
from hivemind.lab.comparison import Spread, is_noise, spread
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.tune.search import Dimension, RecordedSettings, Search, changes_of, significant_changes
from hivemind.lab.tune.workers import Runs, SimulationJob

Goal = Literal["wall_time", "p95_wait", "dollars"]

SEARCHED_SEEDS = 3
CHOSEN_SEEDS = 8
FINALISTS = 4
_AT_ONCE = 4
"""Candidates per batch, independent of the number of cores, so that a seed gives the same search everywhere."""
_PRUNING = 0.1
"""The share of the gain that may be given up for fewer changes."""
_FOR_THE_SEARCH = 0.6
"""The share of a limited time; the rest is for choosing."""
_STAGES = 1_000_000
"""Distance between the seeds of two stages, which have none in common."""


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """The goal and the effort of a search."""

    goal: Goal
    trials: int
    """Candidates to try, without the recorded settings."""
    seeds: int
    """Number of seeds for the validation, at least 2."""
    seed: int = 0
    """The seed of the search."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate and its simulations on the seeds of a stage."""

    changes: tuple[Change, ...]
    runs: tuple[Figures, ...]
    """By recording, then by seed."""
    cost: float
    """By the goal."""
    violations: tuple[tuple[str, float], ...]
    """By how much it violates each constraint, compared with the recorded settings on the same seeds."""

    @property
    def acceptable(self) -> bool:
        """In no recording did fewer agents finish, or more requests stay unanswered."""
        return all(by <= 0 for _, by in self.violations)


@dataclass(frozen=True, slots=True)
class KeptChange:
    """A change in the result."""

    change: Change
    worth: float | None
    """The share of the gain that is lost if it alone is undone; None: unknown."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The comparison of the result with the recorded settings, on seeds not used before."""

    before: tuple[Figures, ...]
    """By recording, then by seed."""
    after: tuple[Figures, ...]
    cost: Spread
    """The cost with the recorded settings."""
    gain: Spread
    """The saving by the changes, seed by seed."""
    acceptable: bool
    """See :class:`Candidate`."""

    def of(self, recording: int) -> tuple[tuple[Figures, ...], tuple[Figures, ...]]:
        """Return the runs of a recording before and after, by seed."""
        part = slice(recording * self.gain.runs, (recording + 1) * self.gain.runs)
        return self.before[part], self.after[part]

    @property
    def better(self) -> bool:
        """The gain is certain, as far as the model goes, and more than noise."""
        return self.acceptable and self.gain.low > 0 and not is_noise(self.gain.mean, self.cost.mean)


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result of a search."""

    goal: Goal
    trials: int
    """Candidates tried."""
    before: float
    """The cost of the recorded settings on the seeds of the search."""
    best: float
    """The cost of the best acceptable candidate there."""
    kept: tuple[KeptChange, ...]
    """Empty: nothing better was found."""
    check: Validation | None
    """None: nothing to validate, or interrupted."""
    stopped: str = ""
    """Why it ended early: `interrupted`, `time`."""


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """The progress of a search."""

    stage: Literal["search", "choose", "check"]
    done: int
    of: int
    before: float
    best: float


def cost(goal: Goal, runs: Sequence[Figures]) -> float:
    """Return the cost of runs by a goal: the mean of wall times, of p95 waits, or of dollars."""
    if goal == "dollars":
        return fmean(run.dollars or 0.0 for run in runs)
    return fmean(run.wall_s if goal == "wall_time" else run.together.p95_s for run in runs)


@dataclass(slots=True)
class Tuner:
    """One search over recordings with these settings."""

    simulate: Runs
    recorded: Sequence[RecordedSettings]
    dimensions: Sequence[Dimension]
    plan: TuningPlan
    tell: Callable[[TuningProgress], object] = lambda _: None
    spent: Callable[[], float] = lambda: 0.0
    """Returns the used share of the time for searching and choosing."""
    _seen: dict[tuple[int, tuple[Change, ...]], Candidate | None] = field(default_factory=dict)
    _before: float = 0.0
    _best: float = 0.0
    _trials: int = 0

    def run(self) -> TuningResult:
        """Search, choose and validate. Ctrl-C ends with the best so far, not validated.

        Raises: UsageError: Optuna isn't installed.
        """
        found: list[Candidate] = []
        stopped = ""
        kept: tuple[KeptChange, ...] = ()
        check = None
        search = Search(self.dimensions, self.plan.seed)
        try:
            self._search(search, found)
            stopped = "time" if self._trials < self.plan.trials else ""
            best = _ranked(found)
            if best and best[0].cost < self._before:
                kept = self._without_needless(self._choose(best[:FINALISTS]))
                check = self._validate(tuple(each.change for each in kept)) if kept else None
        except KeyboardInterrupt:
            stopped = "interrupted"
            best = _ranked(found)
            if not kept and best and best[0].cost < self._before:
                kept = tuple(KeptChange(change, None) for change in best[0].changes)
        return TuningResult(self.plan.goal, self._trials, self._before, self._best, kept, check, stopped)

    # --- Stages --------------------------------------------------------------------------------------------------

    def _search(self, search: Search, found: list[Candidate]) -> None:
        """Try candidates, beginning with the recorded settings."""
        seeds = self._seeds(1, SEARCHED_SEEDS)
        (recorded,) = self._try([()], seeds)
        assert recorded is not None
        self._before = self._best = recorded.cost
        search.ask(1)
        search.tell([(recorded.cost, dict(recorded.violations))])
        while self._trials < self.plan.trials and self.spent() < _FOR_THE_SEARCH:
            self._report("search", self._trials, self.plan.trials)
            asked = search.ask(min(_AT_ONCE, self.plan.trials - self._trials))
            changes = [changes_of(params, self.dimensions) for params in asked]
            tried = self._try([significant_changes(each, self.recorded) for each in changes], seeds)
            search.tell([None if each is None else (each.cost, dict(each.violations)) for each in tried])
            found += [each for each in tried if each is not None and each.acceptable]
            self._trials += len(asked)
            self._best = min([self._best, *(each.cost for each in found)])
        self._report("search", self._trials, self.plan.trials)

    def _choose(self, finalists: Sequence[Candidate]) -> Candidate | None:
        """Return the finalist that is best on other seeds; None: none is better than the recorded settings there."""
        seeds = self._seeds(2, CHOSEN_SEEDS)
        self._report("choose", 0, 0)
        (recorded,) = self._try([()], seeds)
        tried = [each for each in self._try([each.changes for each in finalists], seeds) if each is not None]
        best = _ranked(tried)
        return best[0] if best and recorded is not None and best[0].cost < recorded.cost else None

    def _without_needless(self, best: Candidate | None) -> tuple[KeptChange, ...]:
        """Drop changes that don't matter and measure the worth of the others, as time permits."""
        if best is None:
            return ()
        seeds = self._seeds(2, CHOSEN_SEEDS)
        (recorded,) = self._try([()], seeds)
        assert recorded is not None
        left = best
        if self.spent() < 1:
            left = self._pruned(best, best.cost + _PRUNING * (recorded.cost - best.cost), seeds)
        if self.spent() >= 1:
            return tuple(KeptChange(each, None) for each in left.changes)
        worth, gain = self._costs_without_each(left, seeds), recorded.cost - left.cost
        return tuple(
            KeptChange(each, None if worth[each] is None else (worth[each] - left.cost) / gain)  # type: ignore[operator]
            for each in left.changes
        )

    def _pruned(self, best: Candidate, allowed: float, seeds: Sequence[int]) -> Candidate:
        """Undo changes as long as the cost stays allowed: all that can be undone alone at once, else the cheapest."""

        def fits(tried: Candidate | None) -> TypeGuard[Candidate]:
            return tried is not None and tried.acceptable and bool(tried.changes) and tried.cost <= allowed

        left, first = best, len(best.changes)
        while self.spent() < 1:
            self._report("choose", first - len(left.changes), first)
            costs = self._costs_without_each(left, seeds)
            idle = sorted(
                (cost, str(each), each) for each, cost in costs.items() if cost is not None and cost <= allowed
            )
            if not idle or len(left.changes) == 1:
                break
            all_undone, one_undone = (
                _without(left.changes, *(each for _, _, each in part)) for part in (idle, idle[:1])
            )
            both = self._try([all_undone, one_undone], seeds)
            left = next(filter(fits, both))
        return left

    def _costs_without_each(self, whole: Candidate, seeds: Sequence[int]) -> dict[Change, float | None]:
        """Return the cost with each change undone alone; None: not possible or not acceptable."""
        tried = self._try([_without(whole.changes, each) for each in whole.changes], seeds)
        return {
            change: one.cost if one is not None and one.acceptable else None
            for change, one in zip(whole.changes, tried, strict=True)
        }

    def _validate(self, changes: tuple[Change, ...]) -> Validation | None:
        seeds = self._seeds(3, self.plan.seeds)
        self._report("check", 0, len(seeds))
        before, after = self._try([(), changes], seeds)
        if before is None or after is None:
            return None
        costs, new_costs = (
            [cost(self.plan.goal, tried.runs[number :: len(seeds)]) for number in range(len(seeds))]
            for tried in (before, after)
        )
        gains = [was - now for was, now in zip(costs, new_costs, strict=True)]
        return Validation(before.runs, after.runs, spread(costs), spread(gains), after.acceptable)

    # --- Simulations ---------------------------------------------------------------------------------------------

    def _try(self, candidates: Sequence[tuple[Change, ...]], seeds: Sequence[int]) -> list[Candidate | None]:
        """Simulate each candidate once in every recording with every seed; None: its changes don't go together."""
        stage = seeds[0]
        new = [each for each in dict.fromkeys(candidates) if (stage, each) not in self._seen]
        places = range(len(self.recorded))
        jobs = [SimulationJob(place, each, seed) for each in new for place in places for seed in seeds]
        runs = self.simulate(jobs)
        size = len(places) * len(seeds)
        for number, each in enumerate(new):
            own = [run for run in runs[number * size : (number + 1) * size] if run is not None]
            self._seen[stage, each] = self._tried(stage, each, own, len(seeds)) if len(own) == size else None
        return [self._seen[stage, each] for each in candidates]

    def _tried(self, stage: int, changes: tuple[Change, ...], runs: Sequence[Figures], seeds: int) -> Candidate:
        recorded = self._seen.get((stage, ()))
        against = runs if recorded is None else recorded.runs
        violations = []
        for place in range(len(self.recorded)):
            part = slice(place * seeds, (place + 1) * seeds)
            was, now = against[part], runs[part]
            violations.append(
                (f"finished in {place}", float(sum(run.finished for run in was) - sum(run.finished for run in now)))
            )
            violations.append((f"unanswered in {place}", float(_unanswered(now) - _unanswered(was))))
        return Candidate(changes, tuple(runs), cost(self.plan.goal, runs), tuple(violations))

    def _seeds(self, stage: int, count: int) -> range:
        first = stage * _STAGES + self.plan.seed % 1000 * 1000
        return range(first, first + count)

    def _report(self, stage: Literal["search", "choose", "check"], done: int, of: int) -> None:
        self.tell(TuningProgress(stage, done, of, self._before, self._best))


def _ranked(tried: Iterable[Candidate]) -> list[Candidate]:
    """Return the acceptable candidates without duplicates, by cost, then by number of changes."""
    once = {each.changes: each for each in tried if each.acceptable}
    return sorted(once.values(), key=lambda each: (each.cost, len(each.changes), str(each.changes)))


def _without(changes: tuple[Change, ...], *undone: Change) -> tuple[Change, ...]:
    return tuple(each for each in changes if each not in undone)


def _unanswered(runs: Sequence[Figures]) -> int:
    return sum(run.failed + run.refused + run.left + run.open for run in runs)
