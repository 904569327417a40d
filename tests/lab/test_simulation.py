"""The real scheduler on recorded traffic: the same again with the same settings, and what other settings change."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from lab.kit import FREE, LANE, recorded, request, served

from benchmarks.prediction import WORLDS, World, record
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import simulate
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Usage
from hivemind_mock.provider.config import LatencyConfig, LimitConfig, MockConfig

pytestmark = pytest.mark.e2e
_BY_NAME = {world.name: world for world in WORLDS}


@pytest.fixture(scope="module")
def bad_day(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Ten agents, a limit, faults of all kinds and a bad spell."""
    path = tmp_path_factory.mktemp("journals") / "bad-day.jsonl"
    record(_BY_NAME["bad day"], path)
    return load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replay-11", "long streams", "input windows", "few slots"])
def test_with_the_same_settings_the_same_comes_of_it(name: str, tmp_path: Path) -> None:
    """Wall time and waits are those of the recording, within a fraction of what is promised."""
    record(_BY_NAME[name], tmp_path / "run.jsonl", seed=7)
    recording = load(tmp_path / "run.jsonl")
    figures, again = recording.figures, simulate(recording)
    assert again.wall_s == pytest.approx(figures.wall_s, rel=0.02)
    assert again.waited_s == pytest.approx(figures.waited_s, rel=0.02)
    assert (again.agents, again.finished, again.answered) == (figures.agents, figures.finished, figures.answered)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        pytest.param("max_concurrency=2", {"max_concurrency": 2}, marks=pytest.mark.slow),
        pytest.param("aimd.beta=0.8", {"aimd": {"beta": 0.8}}, marks=pytest.mark.slow),
        pytest.param("rpm=40", {"rpm": 40}, marks=pytest.mark.slow),
    ],
)
def test_predictions_come_true(text: str, settings: dict[str, object], tmp_path: Path) -> None:
    """A run with other settings takes about as long as was foretold from one with the defaults."""
    world = _BY_NAME["replay-11"]
    record(world, tmp_path / "before.jsonl", seed=3)
    record(world, tmp_path / "after.jsonl", settings=settings, seed=3)
    foretold = simulate(load(tmp_path / "before.jsonl"), parse_changes([text]))
    assert foretold.wall_s == pytest.approx(load(tmp_path / "after.jsonl").figures.wall_s, rel=0.1)


def test_leases_are_left_out(tmp_path: Path) -> None:
    """What one proxy of a fleet was leased says nothing about what it would do with the lane's own limits."""
    lane = replace(FREE, max_concurrency=1)
    traffic = [event for n in range(4) for event in served(n / 10, n + 1, f"a{n}", waits_s=2.0 * n)]
    leases = [ev.LeaseChanged(at, LANE, "leased", at, 9.0, 3) for at in (0.0, 1.0, 3.0)]
    alone = recorded(tmp_path, traffic, lane=lane)
    leased = recorded(tmp_path, traffic, leases, lane=lane)
    assert simulate(leased) == simulate(alone)
    assert simulate(leased).finished == 4


def test_the_same_arguments_give_the_same_figures(bad_day: Recording) -> None:
    """Nothing of an earlier simulation is left in a recording, and another seed draws other faults."""
    changes = parse_changes(["max_concurrency=3"])
    assert simulate(bad_day, changes) == simulate(bad_day, changes)
    drawn = [simulate(bad_day, faults="drawn", seed=seed) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_recording_can_go_to_another_process(bad_day: Recording) -> None:
    """As it was, with everything that refers to something else in it."""
    assert simulate(pickle.loads(pickle.dumps(bad_day))) == simulate(bad_day)


def test_answers_that_come_sooner_are_followed_sooner(tmp_path: Path) -> None:
    """Two agents at one place take turns; with two places each goes at its own pace, thinking as long as before."""
    one = replace(FREE, max_concurrency=1)
    events: list[ev.Event] = []
    for turn in range(4):
        events += served(turn * 4.0, turn * 2, "a", takes_s=2.0)
        events += served(turn * 4.0, turn * 2 + 1, "b", waits_s=2.0, takes_s=2.0)
    recording = recorded(tmp_path, events, lane=one)
    assert simulate(recording).wall_s == pytest.approx(recording.figures.wall_s)
    figures = simulate(recording, parse_changes(["max_concurrency=2"]))
    # a: 4 x 2 s and 3 x 2 s to think; b: 4 x 2 s, and it asked again at once.
    assert figures.wall_s == pytest.approx(14.0)
    assert figures.waited_s == 0.0


def test_a_client_that_left_leaves_again(tmp_path: Path) -> None:
    """In the queue so long after it came, in flight so long after its attempt began."""
    one = replace(FREE, max_concurrency=1)
    recording = recorded(
        tmp_path,
        served(0.0, 1, "a", takes_s=10.0),
        [request(1.0, 2, "b"), ev.Abandoned(4.0, 2, "b", LANE, False)],
        [
            request(2.0, 3, "c"),
            ev.Granted(10.0, 3, "c", LANE, 1, 8.0),
            ev.Abandoned(13.0, 3, "c", LANE, True, Usage(50)),
        ],
        lane=one,
    )
    told: list[ev.Event] = []
    figures = simulate(recording, on_event=told.append)
    assert [(each.at, each.agent) for each in told if isinstance(each, ev.Abandoned)] == [(4.0, "b"), (13.0, "c")]
    assert (figures.left, figures.answered) == (2, 1)


def test_an_operator_s_orders_are_given_again(tmp_path: Path) -> None:
    """A pause holds whoever comes in it; a knob that is to have another value isn't turned."""
    orders = [
        ev.Commanded(1.0, "you", "PauseAdmissions", {"paused": True}),
        ev.Commanded(5.0, "you", "PauseAdmissions", {"paused": False}),
        ev.Commanded(6.0, "you", "Tune", {"knob": "max_concurrency", "value": 1.0, "upstream": None}),
    ]
    events = [event for n in range(4) for event in served(6.0 + n / 10, 10 + n, f"w{n}", takes_s=5.0)]
    recording = recorded(tmp_path, orders, served(2.0, 1, "a", waits_s=3.0), events)
    assert simulate(recording).wall_s == pytest.approx(6.0 + 4 * 5.0 - 2.0, abs=0.5)
    assert simulate(recording, parse_changes(["max_concurrency=10"])).wall_s == pytest.approx(9.3, abs=0.5)


def test_a_journal_that_was_cut_off_ends_where_it_does(tmp_path: Path) -> None:
    """Requests that weren't over are begun, but nobody waits for their ends."""
    recording = recorded(
        tmp_path,
        served(0.0, 1, "a", takes_s=2.0),
        [request(1.0, 2, "b"), ev.Granted(1.0, 2, "b", LANE, 1, 0.0), request(1.5, 3, "c")],
    )
    figures = simulate(recording)
    assert (figures.wall_s, figures.answered) == (2.0, 1)


@pytest.mark.slow
def test_limits_that_were_seen_hold_in_a_simulation(tmp_path: Path) -> None:
    """With our own windows off, the provider refuses instead, and everything takes as long."""
    world = World(
        "limits", _BY_NAME["replay-11"].agents, MockConfig(limits=LimitConfig(rpm=40), latency=LatencyConfig(0.3, 0.1))
    )
    record(world, tmp_path / "run.jsonl")
    recording = load(tmp_path / "run.jsonl")
    told: list[ev.Event] = []
    figures = simulate(recording, parse_changes(["features.rate_windows=off"]), on_event=told.append)
    refused = [each for each in told if isinstance(each, ev.AttemptFailed)]
    assert {each.kind for each in refused} == {FailureKind.RATE_LIMITED}
    assert figures.wall_s == pytest.approx(recording.figures.wall_s, rel=0.1)
