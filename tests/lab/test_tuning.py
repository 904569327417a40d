"""Tuning: finds what is better, takes no luck for a gain, and never buys one with agents."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hivemind.errors import UsageError
from hivemind.journal.figures import Figures, FiguresFold, Waits
from hivemind.lab.tune.search import RecordedSettings, Search, space
from hivemind.lab.tune.tuning import CHOSEN_SEEDS, SEARCHED_SEEDS, Goal, Tuner, TuningPlan, TuningProgress, TuningResult
from hivemind.lab.tune.workers import SimulationJob
from hivemind.scheduler.config import LaneConfig, SchedulerConfig

RECORDED = RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=4),), busiest=4)
KNOBS = ("max_concurrency", "aimd.beta", "retry.base_s")
NOTHING = replace(FiguresFold().figures(), agents=10, finished=10)

Model = Callable[[dict[str, float], random.Random], Figures]


class World:
    """Runs by a formula in place of the simulator, and remembers what it was asked."""

    def __init__(self, model: Model, break_off_after: int | None = None) -> None:
        self._model = model
        self._left = break_off_after
        self.jobs: list[SimulationJob] = []

    def __call__(self, jobs: Sequence[SimulationJob]) -> list[Figures | None]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise KeyboardInterrupt
        self.jobs += jobs
        return [self._run(job) for job in jobs]

    def _run(self, job: SimulationJob) -> Figures:
        values = {"max_concurrency": 4.0, "aimd.beta": 0.5, "retry.base_s": 1.0, "recording": float(job.recording)}
        for change in job.changes:
            assert isinstance(change.value, int | float)
            values[change.name] = change.value
        return self._model(values, random.Random(repr(job)))


def tuned(
    world: World,
    goal: Goal = "wall_time",
    *,
    trials: int = 60,
    seed: int = 0,
    recordings: int = 1,
    tell: Callable[[TuningProgress], object] = lambda _: None,
    spent: Callable[[], float] = lambda: 0.0,
) -> TuningResult:
    recorded = [RECORDED] * recordings
    return Tuner(world, recorded, space(KNOBS, recorded), TuningPlan(goal, trials, 10, seed), tell, spent).run()


def slow_unless_wide(values: dict[str, float], rng: random.Random) -> Figures:
    """Best at 16 in flight; nothing else matters."""
    return replace(NOTHING, wall_s=100 + 5 * abs(values["max_concurrency"] - 16) + rng.gauss(0, 1))


def test_finds_what_is_better() -> None:
    """The one knob that matters comes near its best, the others are left out, and the gain is as it truly is."""
    found = tuned(World(slow_unless_wide))
    assert [each.change.name for each in found.kept] == ["max_concurrency"]
    assert found.kept[0].change.value == pytest.approx(16, abs=3)
    assert found.kept[0].worth == pytest.approx(1)
    assert found.check is not None
    assert found.check.better
    assert found.check.gain.mean == pytest.approx(60 - 5 * abs(float(found.kept[0].change.value or 0) - 16), abs=3)
    assert found.best < found.before


def test_the_same_again() -> None:
    """The same seed gives the same search and result, another one searches elsewhere."""
    worlds = [World(slow_unless_wide) for _ in range(3)]
    results = [tuned(world, seed=seed, trials=20) for world, seed in zip(worlds, (7, 7, 8), strict=True)]
    assert results[0] == results[1]
    assert worlds[0].jobs == worlds[1].jobs
    assert {job.changes for job in worlds[0].jobs} != {job.changes for job in worlds[2].jobs}


def test_no_seed_serves_twice() -> None:
    """What searching, choosing and checking see are different seeds, and every candidate meets the same ones."""
    world = World(slow_unless_wide)
    tuned(world, trials=20)
    assert len({job.seed for job in world.jobs if not job.changes}) == SEARCHED_SEEDS + CHOSEN_SEEDS + 10
    searched, chosen, checked = (range(stage * 1_000_000, (stage + 1) * 1_000_000) for stage in (1, 2, 3))
    for stage, count in ((searched, SEARCHED_SEEDS), (chosen, CHOSEN_SEEDS), (checked, 10)):
        assert len({job.seed for job in world.jobs if job.seed in stage}) == count
    assert len({job.changes for job in world.jobs if job.seed in checked}) == 2


def test_luck_is_no_gain() -> None:
    """Where settings make no difference but runs differ by chance, nothing is claimed to be better."""
    for seed in range(5):
        found = tuned(World(lambda _, rng: replace(NOTHING, wall_s=100 + rng.gauss(0, 10))), seed=seed)
        assert found.check is None or not found.check.better


def test_a_gain_of_next_to_nothing_is_none() -> None:
    """However sure it is."""
    found = tuned(World(lambda values, _: replace(NOTHING, wall_s=1000 - min(values["max_concurrency"], 8))))
    assert found.check is not None
    assert found.check.gain.low > 0
    assert not found.check.better


def test_nothing_better_there() -> None:
    """Where the recorded settings are the best there are, nothing is recommended, and nothing needs a check."""
    found = tuned(World(lambda values, _: replace(NOTHING, wall_s=100 + abs(values["max_concurrency"] - 4))))
    assert (found.kept, found.check, found.best) == ((), None, found.before)


@pytest.mark.parametrize(
    "price",
    [
        lambda wide: {"finished": 10 - wide},
        lambda wide: {"failed": wide},
        lambda wide: {"refused": wide},
        lambda wide: {"left": wide},
        lambda wide: {"open": wide},
    ],
    ids=["finished", "failed", "refused", "left", "open"],
)
def test_agents_are_no_price(price: Callable[[int], dict[str, int]]) -> None:
    """Faster isn't better where an agent fewer finishes, or a request more isn't answered."""

    def model(values: dict[str, float], rng: random.Random) -> Figures:
        figures = slow_unless_wide(values, rng)
        return replace(figures, **price(int(values["max_concurrency"] > 8)))  # type: ignore[arg-type]

    found = tuned(World(model))
    assert found.kept[0].change.value == pytest.approx(8)
    assert found.check is not None
    assert found.check.better


def test_a_price_that_shows_late() -> None:
    """What loses agents on the fresh seeds alone isn't recommended after all."""

    def model(values: dict[str, float], rng: random.Random) -> Figures:
        return replace(slow_unless_wide(values, rng), finished=10 - world.checking * (values["max_concurrency"] > 4))

    class Late(World):
        checking = 0

    def tell(progress: TuningProgress) -> None:
        world.checking = int(progress.stage == "check")

    world = Late(model)
    found = tuned(world, tell=tell)
    assert found.check is not None
    assert found.check.gain.low > 0
    assert not found.check.acceptable
    assert not found.check.better


@pytest.mark.parametrize(
    ("goal", "figures"),
    [
        ("wall_time", lambda cost: {"wall_s": cost}),
        ("p95_wait", lambda cost: {"together": Waits(1, 0.0, cost, cost)}),
        ("dollars", lambda cost: {"dollars": cost}),
    ],
)
def test_goals(goal: Goal, figures: Callable[[float], dict[str, object]]) -> None:
    """Each goal looks at its own figure."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        return replace(NOTHING, **figures(10 + abs(values["max_concurrency"] - 16)))  # type: ignore[arg-type]

    found = tuned(World(model), goal)
    assert found.before == 22
    assert found.best < 13


def test_several_recordings() -> None:
    """The mean over all counts, and each has its own runs in the check."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        best_at = (4, 28)[int(values["recording"])]
        return replace(NOTHING, wall_s=100 + (values["max_concurrency"] - best_at) ** 2)

    found = tuned(World(model), recordings=2)
    assert found.kept[0].change.value == pytest.approx(16, abs=2)
    assert found.check is not None
    assert {run.wall_s for run in found.check.of(0)[0]} == {100.0}
    assert {run.wall_s for run in found.check.of(1)[0]} == {676.0}
    assert len(found.check.of(0)[1]) == len(found.check.of(1)[1]) == 10


def test_what_does_not_go_together() -> None:
    """Candidates that can't be simulated are passed over."""

    class Strict(World):
        def __call__(self, jobs: Sequence[SimulationJob]) -> list[Figures | None]:
            runs = super().__call__(jobs)
            odd = [any(c.name == "max_concurrency" and c.value % 2 for c in job.changes) for job in jobs]  # type: ignore[operator]
            return [None if wrong else run for wrong, run in zip(odd, runs, strict=True)]

    found = tuned(Strict(slow_unless_wide))
    assert int(found.kept[0].change.value or 0) % 2 == 0
    assert found.best < found.before


def test_broken_off() -> None:
    """Ctrl-C in the search gives the best so far, and says that nobody checked it."""
    found = tuned(World(slow_unless_wide, break_off_after=8))
    assert (found.stopped, found.check, found.trials) == ("interrupted", None, 28)
    assert found.best < found.before
    assert {each.change.name: each.worth for each in found.kept}["max_concurrency"] is None


def test_broken_off_at_once() -> None:
    """Before anything was tried there is nothing to give."""
    found = tuned(World(slow_unless_wide, break_off_after=0))
    assert (found.stopped, found.kept, found.check) == ("interrupted", (), None)


def test_time_is_up() -> None:
    """The search ends early, what it found is taken as it is, and checked all the same."""
    looks = iter([0.1] * 5 + [0.7, 1.1, 1.1])
    found = tuned(World(slow_unless_wide), spent=lambda: next(looks))
    assert (found.stopped, found.trials) == ("time", 20)
    assert found.check is not None
    assert {each.worth for each in found.kept} == {None}


def test_time_to_choose() -> None:
    """Time that the search leaves is for making what it found small."""
    looks = iter([0.1] * 5)
    found = tuned(World(slow_unless_wide), spent=lambda: next(looks, 0.7))
    assert (found.stopped, found.trials) == ("time", 20)
    assert [each.change.name for each in found.kept] == ["max_concurrency"]
    assert found.kept[0].worth == pytest.approx(1)


def test_changes_that_stand_in_for_each_other() -> None:
    """Of two changes of which either does, one is left."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        return replace(NOTHING, wall_s=100 - 30 * (values["max_concurrency"] > 8 or values["aimd.beta"] > 0.6))

    found = tuned(World(model))
    assert len(found.kept) == 1
    assert found.kept[0].worth == 1


def test_small_to_the_end() -> None:
    """What only made up for another change goes with it."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        steep, hasty = values["aimd.beta"] > 0.6, values["retry.base_s"] < 0.5
        return replace(NOTHING, wall_s=100 - 40 * (values["max_concurrency"] > 8) + (-1 if hasty else 20) * steep)

    found = tuned(World(model))
    assert found.best == 59
    assert [each.change.name for each in found.kept] == ["max_concurrency"]


def test_progress() -> None:
    """Every stage is told, and the best so far only gets better."""
    told: list[TuningProgress] = []
    tuned(World(slow_unless_wide), tell=told.append)
    assert list(dict.fromkeys(each.stage for each in told)) == ["search", "choose", "check"]
    best = [each.best for each in told]
    assert best == sorted(best, reverse=True)
    assert [each.done for each in told if each.stage == "search"] == list(range(0, 61, 4))


def test_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"^tuning needs the library Optuna .*: pip install 'hivemind-tui\[lab\]'"):
        Search(space(KNOBS, [RECORDED]), 0)
