"""Searching for settings that would have served recorded traffic better, and finding out how sure that is.

Faults and latencies are drawn anew by seeds, the same for every candidate. The search sees a few seeds; what it finds
is chosen among the best and made small on others; and what is left is compared with the recorded settings on seeds
that nobody has seen, so that luck isn't taken for a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeGuard

from hivemind.journal.figures import Figures
from hivemind.lab.tune.measures import Spread, spread
from hivemind.lab.tune.overrides import Change
from hivemind.lab.tune.search import Search
from hivemind.lab.tune.space import Began, Dimension, Params, changes_of, unlike
from hivemind.lab.tune.workers import Job, Runs

Goal = Literal["wall_time", "p95_wait", "dollars"]

SEARCHED_SEEDS = 3
CHOSEN_SEEDS = 8
FINALISTS = 4
_AT_ONCE = 4
"""Asked for before the first of them is answered, however many cores there are, so that a seed gives the same search
everywhere."""
_SPENT = 0.1
"""Of the gain may be given up for fewer changes."""
_FOR_THE_SEARCH = 0.6
"""Of the time, where that is limited; the rest is for choosing."""
_WORTHWHILE = 0.005
"""A gain of less than this share isn't one."""
_STAGES = 1_000_000
"""Between the seeds of two stages, so that none is in both."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is wanted."""

    goal: Goal
    trials: int
    """Candidates to try, the recorded settings not counted."""
    seeds: int
    """On which what was found is compared with the recorded settings in the end; at least 2."""
    seed: int = 0
    """Of the search itself."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate, and what came of it on the seeds of a stage."""

    changes: tuple[Change, ...]
    runs: tuple[Figures, ...]
    """By recording, then by seed."""
    cost: float
    """By the goal."""
    broken: tuple[tuple[str, float], ...]
    """By how much it breaks each condition, against the recorded settings on the same seeds."""

    @property
    def sound(self) -> bool:
        """In no recording fewer agents finished, or more requests weren't answered."""
        return all(by <= 0 for _, by in self.broken)


@dataclass(frozen=True, slots=True)
class Kept:
    """A change that is left."""

    change: Change
    worth: float | None
    """The share of the gain that is lost where it alone is undone; None: it can't be, or nobody tried."""


@dataclass(frozen=True, slots=True)
class Check:
    """What is left, against the recorded settings, on seeds that nobody had seen."""

    before: tuple[Figures, ...]
    """By recording, then by seed."""
    after: tuple[Figures, ...]
    cost: Spread
    """Of the recorded settings."""
    gain: Spread
    """What the changes take off it, seed by seed."""
    sound: bool
    """As of :class:`Tried`."""

    def before_in(self, recording: int) -> tuple[Figures, ...]:
        """By seed."""
        return self.before[recording * self.gain.runs : (recording + 1) * self.gain.runs]

    def after_in(self, recording: int) -> tuple[Figures, ...]:
        """By seed."""
        return self.after[recording * self.gain.runs : (recording + 1) * self.gain.runs]

    @property
    def better(self) -> bool:
        """Surely, as far as the model goes, and by enough to be worth a change."""
        return self.sound and self.gain.low > 0 and self.gain.mean >= _WORTHWHILE * self.cost.mean


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of it."""

    goal: Goal
    trials: int
    """Done."""
    before: float
    """What the recorded settings cost, on the seeds of the search."""
    best: float
    """What the best candidate that breaks no condition cost there."""
    kept: tuple[Kept, ...]
    """Empty: nothing better was found."""
    check: Check | None
    """None: there is nothing to check, or it was broken off."""
    stopped: str = ""
    """Why it ended early: `interrupted`, `time`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where it stands."""

    stage: Literal["search", "choose", "check"]
    done: int
    of: int
    before: float
    best: float


def cost(goal: Goal, runs: Sequence[Figures]) -> float:
    """What runs cost by a goal: the mean of their wall times, of the 95th percentiles of their requests' waits, or of
    their dollars; the less the better."""
    if goal == "dollars":
        return fmean(run.dollars or 0.0 for run in runs)
    return fmean(run.wall_s if goal == "wall_time" else run.together.p95_s for run in runs)


class Tuner:
    """One search over recordings that are known by what they began with."""

    def __init__(
        self,
        simulate: Runs,
        recorded: Sequence[Began],
        dimensions: Sequence[Dimension],
        plan: Plan,
        tell: Callable[[Progress], object] = lambda _: None,
        spent: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._simulate = simulate
        self._recorded = recorded
        self._dimensions = dimensions
        self._plan = plan
        self._tell = tell
        self._spent = spent
        """The share of the time that there is for searching and choosing which is used up, 1 being all."""
        self._seen: dict[tuple[int, tuple[Change, ...]], Tried | None] = {}
        self._before = self._best = 0.0
        self._trials = 0

    def run(self) -> Tuned:
        """Search, choose, check. Ctrl-C gives the best so far, unchecked.

        Raises: UsageError: Optuna isn't installed.
        """
        found: list[Tried] = []
        stopped = ""
        kept: tuple[Kept, ...] = ()
        check = None
        search = Search(self._dimensions, self._plan.seed)
        try:
            self._search(search, found)
            stopped = "time" if self._trials < self._plan.trials else ""
            best = _ranked(found)
            if best and best[0].cost < self._before:
                kept = tuple(Kept(change, None) for change in best[0].changes)
                kept = self._smaller(self._chosen(best[:FINALISTS]))
                check = self._checked(tuple(each.change for each in kept)) if kept else None
        except KeyboardInterrupt:
            stopped = "interrupted"
            kept = kept or _unchecked(found, self._before)
        return Tuned(self._plan.goal, self._trials, self._before, self._best, kept, check, stopped)

    # --- Its stages ----------------------------------------------------------------------------------------------

    def _search(self, search: Search, found: list[Tried]) -> None:
        """Trial 0 is what was recorded."""
        seeds = self._seeds(1, SEARCHED_SEEDS)
        (recorded,) = self._try([()], seeds)
        assert recorded is not None  # it was recorded, so it goes together
        self._before = self._best = recorded.cost
        search.begin({each.name: int(each.start) if each.whole else each.start for each in self._dimensions})
        search.ask(1)
        search.tell([(recorded.cost, dict(recorded.broken))])
        while self._trials < self._plan.trials and self._spent() < _FOR_THE_SEARCH:
            self._report("search", self._trials, self._plan.trials)
            asked = search.ask(min(_AT_ONCE, self._plan.trials - self._trials))
            tried = self._try([self._changes(params) for params in asked], seeds)
            search.tell([None if each is None else (each.cost, dict(each.broken)) for each in tried])
            found += [each for each in tried if each is not None and each.sound]
            self._trials += len(asked)
            self._best = min([self._best, *(each.cost for each in found)])
        self._report("search", self._trials, self._plan.trials)

    def _chosen(self, finalists: Sequence[Tried]) -> Tried | None:
        """The one of the best that is best on other seeds too; None: none of them is."""
        seeds = self._seeds(2, CHOSEN_SEEDS)
        self._report("choose", 0, 0)
        (recorded,) = self._try([()], seeds)
        tried = [each for each in self._try([each.changes for each in finalists], seeds) if each is not None]
        best = _ranked(tried)
        return best[0] if best and recorded is not None and best[0].cost < recorded.cost else None

    def _smaller(self, best: Tried | None) -> tuple[Kept, ...]:
        """Without the changes that don't matter, and with what the others are worth, as far as there is time."""
        if best is None:
            return ()
        seeds = self._seeds(2, CHOSEN_SEEDS)
        (recorded,) = self._try([()], seeds)
        assert recorded is not None
        left = best
        if self._spent() < 1:
            left = self._pruned(best, best.cost + _SPENT * (recorded.cost - best.cost), seeds)
        if self._spent() >= 1:
            return tuple(Kept(each, None) for each in left.changes)
        worth, gain = self._undone(left, seeds), recorded.cost - left.cost
        return tuple(
            Kept(each, None if worth[each] is None else (worth[each] - left.cost) / gain)  # type: ignore[operator]
            for each in left.changes
        )

    def _pruned(self, best: Tried, allowed: float, seeds: Sequence[int]) -> Tried:
        """Without those that can be undone at no more than the allowed cost: all at once if that does, else the one
        that costs least, until none is left that can."""

        def fits(tried: Tried | None) -> TypeGuard[Tried]:
            return tried is not None and tried.sound and bool(tried.changes) and tried.cost <= allowed

        left, first = best, len(best.changes)
        while self._spent() < 1:
            self._report("choose", first - len(left.changes), first)
            costs = self._undone(left, seeds)
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

    def _undone(self, whole: Tried, seeds: Sequence[int]) -> dict[Change, float | None]:
        """By change, what it costs where that alone is undone; None: it can't be, or that breaks a condition."""
        tried = self._try([_without(whole.changes, each) for each in whole.changes], seeds)
        return {
            change: one.cost if one is not None and one.sound else None
            for change, one in zip(whole.changes, tried, strict=True)
        }

    def _checked(self, changes: tuple[Change, ...]) -> Check | None:
        seeds = self._seeds(3, self._plan.seeds)
        self._report("check", 0, len(seeds))
        before, after = self._try([(), changes], seeds)
        if before is None or after is None:
            return None
        costs = [self._by_seed(tried.runs, len(seeds)) for tried in (before, after)]
        gains = [was - now for was, now in zip(*costs, strict=True)]
        return Check(before.runs, after.runs, spread(costs[0]), spread(gains), after.sound)

    # --- What they share -----------------------------------------------------------------------------------------

    def _try(self, candidates: Sequence[tuple[Change, ...]], seeds: Sequence[int]) -> list[Tried | None]:
        """Simulate each in every recording with every seed, once; None: its changes don't go together."""
        stage = seeds[0]
        new = [each for each in dict.fromkeys(candidates) if (stage, each) not in self._seen]
        places = range(len(self._recorded))
        jobs = [Job(place, each, seed) for each in new for place in places for seed in seeds]
        runs = self._simulate(jobs)
        size = len(places) * len(seeds)
        for number, each in enumerate(new):
            own = [run for run in runs[number * size : (number + 1) * size] if run is not None]
            self._seen[stage, each] = self._tried(stage, each, own, len(seeds)) if len(own) == size else None
        return [self._seen[stage, each] for each in candidates]

    def _tried(self, stage: int, changes: tuple[Change, ...], runs: Sequence[Figures], seeds: int) -> Tried:
        recorded = self._seen.get((stage, ()))
        against = runs if recorded is None else recorded.runs
        broken = []
        for place in range(len(self._recorded)):
            part = slice(place * seeds, (place + 1) * seeds)
            was, now = against[part], runs[part]
            broken.append((f"finished in {place}", float(_finished(was) - _finished(now))))
            broken.append((f"unanswered in {place}", float(_unanswered(now) - _unanswered(was))))
        return Tried(changes, tuple(runs), cost(self._plan.goal, runs), tuple(broken))

    def _changes(self, params: Params) -> tuple[Change, ...]:
        return unlike(changes_of(params, self._dimensions), self._recorded)

    def _by_seed(self, runs: Sequence[Figures], seeds: int) -> list[float]:
        return [cost(self._plan.goal, runs[number::seeds]) for number in range(seeds)]

    def _seeds(self, stage: int, count: int) -> range:
        first = stage * _STAGES + self._plan.seed % 1000 * 1000
        return range(first, first + count)

    def _report(self, stage: Literal["search", "choose", "check"], done: int, of: int) -> None:
        self._tell(Progress(stage, done, of, self._before, self._best))


def _ranked(tried: Iterable[Tried]) -> list[Tried]:
    """Each once, those that break nothing, the best first; of the same cost the one with fewer changes."""
    once = {each.changes: each for each in tried if each.sound}
    return sorted(once.values(), key=lambda each: (each.cost, len(each.changes), str(each.changes)))


def _unchecked(found: Sequence[Tried], before: float) -> tuple[Kept, ...]:
    best = _ranked(found)
    return tuple(Kept(each, None) for each in best[0].changes) if best and best[0].cost < before else ()


def _without(changes: tuple[Change, ...], *undone: Change) -> tuple[Change, ...]:
    return tuple(each for each in changes if each not in undone)


def _finished(runs: Sequence[Figures]) -> int:
    return sum(run.finished for run in runs)


def _unanswered(runs: Sequence[Figures]) -> int:
    """Requests that ended otherwise than with an answer, or not at all."""
    return sum(run.failed + run.refused + run.left + run.open for run in runs)
