"""Tuning: finds what is better, takes no luck for a gain, never buys one with agents, and leaves open what can't be
told."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from lab.kit import recorded, served

from hivemind.journal.figures import Figures, FiguresFold, Waits
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.foresight.draws import Job
from hivemind.lab.foresight.heldout import UNCHECKED, HeldOut, HeldOutPart
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.promise import Goal, promised
from hivemind.lab.tune.simulations import Located, Simulations
from hivemind.lab.tune.space import RecordedSettings
from hivemind.lab.tune.tuning import Tuner, TuningPlan, TuningProgress, TuningResult
from hivemind.records import replace
from hivemind.scheduler.config import LaneConfig, SchedulerConfig

RECORDED = RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=16),), busiest=16)
VALUES = {"max_concurrency": 16.0, "aimd.beta": 0.5, "retry.base_s": 1.0}
RUN = replace(FiguresFold().figures(), agents=10, finished=10, requests=100, answered=100, attempts=100, busiest=16)
_UNSEEN = 1000
"""Draws of predictions have lower numbers, those of the search and the choice higher ones."""

Model = Callable[[dict[str, float], random.Random], Figures]


class World(Simulations):
    """Runs by a formula in place of the simulator, and remembers what it was asked."""

    def __init__(
        self,
        recording: Recording,
        model: Model,
        *,
        recordings: int = 1,
        ends: BaseException | None = None,
        after: int = 0,
        checked: HeldOut = UNCHECKED,
    ) -> None:
        """After so many batches of simulations `ends` is raised."""
        self.asked: list[Located] = []
        self.model, self._ends, self._after, self._checked = model, ends, after, checked
        own = [self._run((number, Job(()))) for number in range(recordings)]
        Simulations.__init__(self, [replace(recording, figures=each) for each in own], None)

    def __call__(self, jobs: Sequence[Located]) -> list[Figures | None]:
        if self._ends is not None:
            self._after -= 1
            if self._after < 0:
                raise self._ends
        self.asked += jobs
        return [self._run(job) for job in jobs]

    def checked(self) -> list[HeldOut]:
        return [self._checked for _ in self.recordings]

    def _run(self, located: Located) -> Figures:
        number, job = located
        values = {**VALUES, "recording": float(number), "unseen": float((job.draw or 0) < _UNSEEN)}
        for change in job.changes:
            assert isinstance(change.value, int | float)
            values[change.name] = change.value
        return self.model(values, random.Random(repr((number, job.draw))))


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Any recording: the runs are made by formulas."""
    return recorded(tmp_path, *(served(float(at), at, "a") for at in range(1, 5)))


def tuned(
    world: World,
    goal: Goal = "wall_time",
    *,
    trials: int = 60,
    seed: int = 0,
    tell: Callable[[TuningProgress], object] = lambda _: None,
) -> TuningResult:
    settings = [RECORDED] * len(world.recordings)
    return Tuner(world, settings, tuple(VALUES), TuningPlan(goal, trials, 10, seed), tell).run()


def slow_unless_narrow(values: dict[str, float], rng: random.Random) -> Figures:
    """Best at 8 in flight; nothing else matters."""
    return replace(RUN, wall_s=100 + 5 * abs(values["max_concurrency"] - 8) + rng.gauss(0, 1))


def test_finds_what_is_better(recording: Recording) -> None:
    """The one knob that matters comes near its best, the others are left out, and the gain is promised as it is."""
    found = tuned(World(recording, slow_unless_narrow))
    assert list(map(str, found.kept)) == ["max_concurrency=8"]
    assert found.recommended
    assert found.promise is not None
    gain = found.promise.gain
    assert gain is not None
    assert gain.value == pytest.approx(40 / 140, abs=0.02)
    assert 0 < gain.low < gain.value < gain.high < 1
    assert found.experiment is None


def test_the_same_again(recording: Recording) -> None:
    """The same seed gives the same search and result, another one draws others."""
    worlds = [World(recording, slow_unless_narrow) for _ in range(3)]
    results = [tuned(world, seed=seed, trials=20) for world, seed in zip(worlds, (7, 7, 8), strict=True)]
    assert results[0].kept == results[1].kept
    assert worlds[0].asked == worlds[1].asked
    assert {job.draw for _, job in worlds[0].asked} != {job.draw for _, job in worlds[2].asked}


def test_no_draw_serves_twice(recording: Recording) -> None:
    """What is promised was simulated on draws that neither the search nor the choice have seen."""
    world = World(recording, slow_unless_narrow)
    found = tuned(world)
    assert found.promise is not None
    unseen = [job for _, job in world.asked if job.draw is not None and job.draw < _UNSEEN]
    assert {job.changes for job in unseen} == {(), found.promise.changes}
    assert len({job.draw for job in unseen}) == 10
    drawn = [(job.changes, job.draw) for _, job in world.asked if job.draw is not None]
    before, after = ({draw for changes, draw in drawn if changes == each} for each in ((), found.promise.changes))
    assert before == after == {draw for _, draw in drawn}


def test_luck_is_no_gain(recording: Recording) -> None:
    """Where settings make no difference but runs differ by chance, nothing is recommended."""

    def model(values: dict[str, float], rng: random.Random) -> Figures:
        return replace(RUN, wall_s=100 * random.Random(repr((values, rng.random()))).lognormvariate(0, 0.1))

    for seed in range(5):
        assert not tuned(World(recording, model), seed=seed).recommended


def test_a_gain_of_next_to_nothing_is_none(recording: Recording) -> None:
    """However sure it is."""
    found = tuned(World(recording, lambda values, _: replace(RUN, wall_s=1000 + values["max_concurrency"] / 3)))
    assert found.promise is None or found.promise.why_not == "little"
    assert not found.recommended


@pytest.mark.parametrize(
    "price",
    [
        lambda narrow: {"finished": 10 - narrow},
        lambda narrow: {"failed": narrow},
        lambda narrow: {"refused": narrow},
        lambda narrow: {"left": narrow},
        lambda narrow: {"open": narrow},
        lambda narrow: {"attempts": 100 + 10 * narrow},
    ],
    ids=["finished", "failed", "refused", "left", "open", "attempts"],
)
def test_agents_are_no_price(recording: Recording, price: Callable[[int], dict[str, int]]) -> None:
    """Faster isn't better where an agent fewer finishes, a request more isn't answered, or many more attempts fail."""

    def model(values: dict[str, float], rng: random.Random) -> Figures:
        figures = replace(RUN, wall_s=100 + 5 * values["max_concurrency"] + rng.gauss(0, 1))
        return replace(figures, **price(int(values["max_concurrency"] < 12)))  # type: ignore[arg-type]

    found = tuned(World(recording, model))
    assert list(map(str, found.kept)) == ["max_concurrency=12"]
    assert found.recommended


def test_a_price_that_shows_late(recording: Recording) -> None:
    """What loses agents on unseen draws alone isn't recommended after all."""

    def model(values: dict[str, float], rng: random.Random) -> Figures:
        lost = int(values["unseen"] and values["max_concurrency"] != 16)
        return replace(slow_unless_narrow(values, rng), finished=10 - lost)

    found = tuned(World(recording, model))
    assert found.promise is not None
    assert found.promise.why_not == "agents"
    assert not found.recommended


def test_more_in_flight_than_recorded(recording: Recording) -> None:
    """What nobody has seen the provider do isn't recommended, but said to be worth an experiment."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        return replace(RUN, wall_s=1000 / values["max_concurrency"], busiest=int(values["max_concurrency"]))

    found = tuned(World(recording, model))
    assert not found.recommended
    assert found.experiment is not None
    assert found.experiment.beyond
    (change,) = found.experiment.changes
    assert change.name == "max_concurrency"
    assert float(change.value or 0) > 16
    promise = promised(
        "wall_time", (Change("max_concurrency", 24),), World(recording, model).recordings, World(recording, model)
    )
    assert promise.why_not == "beyond"


@pytest.mark.parametrize(("served", "why_not"), [(lambda wall_s: 300.0, "refused"), (lambda wall_s: 2 * wall_s, "")])
def test_refusals_that_nothing_explains(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, served: Callable[[float], float], why_not: str
) -> None:
    """Where a hidden limit refused what more in flight would meet, nothing that puts more in flight is recommended."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        wall_s = 100 + 5 * values["max_concurrency"]
        return replace(RUN, wall_s=wall_s, served_s=served(wall_s))

    def hidden(_: Iterable[FittedProvider]) -> int:
        return 4

    monkeypatch.setattr("hivemind.lab.tune.promise.unexplained", hidden)
    found = tuned(World(recording, model))
    assert found.promise is not None
    assert found.promise.why_not == why_not
    assert (found.experiment is None) == found.recommended
    assert found.experiment is None or found.experiment.changes == found.promise.changes


def test_where_the_models_are_far_off(recording: Recording) -> None:
    """A gain that the models' error on what they haven't seen may have made up isn't recommended, but worth a try."""
    far_off = HeldOut((HeldOutPart(replace(RUN, wall_s=100.0), (replace(RUN, wall_s=270.0),) * 4),) * 4)

    def model(values: dict[str, float], _: random.Random) -> Figures:
        return replace(RUN, wall_s=100 + 0.7 * max(0.0, values["max_concurrency"] - 8))

    sure, unsure = (tuned(World(recording, model, checked=checked)) for checked in (UNCHECKED, far_off))
    assert sure.promise is not None
    assert unsure.promise is not None
    assert sure.promise.gain is not None
    assert unsure.promise.gain is not None
    assert unsure.promise.gain.high > sure.promise.gain.high
    assert unsure.promise.why_not == "unclear"
    assert unsure.experiment is not None
    assert unsure.experiment.changes == unsure.promise.changes


@pytest.mark.parametrize(
    ("goal", "figures"),
    [
        ("wall_time", lambda cost: {"wall_s": cost}),
        ("p95_wait", lambda cost: {"together": Waits(1, 0.0, cost, cost)}),
        ("dollars", lambda cost: {"dollars": cost}),
    ],
)
def test_goals(recording: Recording, goal: Goal, figures: Callable[[float], dict[str, object]]) -> None:
    """Each goal looks at its own figure."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        return replace(RUN, **figures(10 + abs(values["max_concurrency"] - 8)))  # type: ignore[arg-type]

    found = tuned(World(recording, model), goal)
    assert found.recommended
    assert list(map(str, found.kept)) == ["max_concurrency=8"]


def test_too_little_to_reduce(recording: Recording) -> None:
    """Where nothing waits, no share of it is promised."""
    model = lambda values, _: replace(RUN, together=Waits(1, 0.0, values["max_concurrency"] / 1e4, 0.0))  # noqa: E731
    assert not tuned(World(recording, model), "p95_wait").recommended


def test_several_recordings(recording: Recording) -> None:
    """What is better in one and worse in another isn't recommended; what is better in both is, with one gain."""

    def contrary(values: dict[str, float], _: random.Random) -> Figures:
        best_at = (8, 16)[int(values["recording"])]
        return replace(RUN, wall_s=100 + 10 * abs(values["max_concurrency"] - best_at))

    assert not tuned(World(recording, contrary, recordings=2)).recommended
    found = tuned(World(recording, slow_unless_narrow, recordings=2))
    assert found.recommended
    assert found.promise is not None
    assert len(found.promise.predictions) == 2


def test_broken_off(recording: Recording) -> None:
    """Ctrl-C in the search gives the best so far, which isn't recommended."""
    found = tuned(World(recording, slow_unless_narrow, ends=KeyboardInterrupt(), after=3))
    assert (found.interrupted, found.promise, found.recommended) == (True, None, False)
    assert found.kept[0].name == "max_concurrency"
    assert found.searched > 0.1


def test_changes_that_stand_in_for_each_other(recording: Recording) -> None:
    """Of two changes of which either does, one is kept."""

    def model(values: dict[str, float], _: random.Random) -> Figures:
        return replace(RUN, wall_s=100 - 30 * (values["max_concurrency"] < 16 or values["aimd.beta"] > 0.6))

    assert len(tuned(World(recording, model)).kept) == 1


def test_progress(recording: Recording) -> None:
    """Every stage is told."""
    told: list[TuningProgress] = []
    tuned(World(recording, slow_unless_narrow), tell=told.append)
    assert list(dict.fromkeys(each.stage for each in told)) == ["search", "choose", "check"]
    done = [each.done for each in told if each.stage == "search"]
    assert done == sorted(done)
