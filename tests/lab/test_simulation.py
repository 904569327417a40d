"""The real scheduler on recorded traffic: what the same and other settings change, and what holds of any recording."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from examples import examples
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lab.kit import FREE, LANE, recorded, request, served
from lab.random_events import soup

from benchmarks.prediction import WORLDS, World, record
from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import Faults, simulate
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage
from hivemind_mock.agents.agent import AgentConfig
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig

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


CHANGES = ("max_concurrency=1", "retry.max_attempts=1", "rpm=5", "features.admission=off")
changes = st.lists(st.sampled_from(CHANGES), max_size=2)
faults: st.SearchStrategy[Faults] = st.sampled_from(("recorded", "drawn"))


class Flights:
    """Checks that requests go through their states in order."""

    def __init__(self) -> None:
        self.in_flight: set[int] = set()
        self.over: Counter[int] = Counter()

    def apply(self, event: ev.Event) -> None:
        """Take the next event."""
        if isinstance(event, ev.Granted):
            assert event.ticket not in self.in_flight, "granted while in flight"
            assert not self.over[event.ticket], "granted after its end"
            self.in_flight.add(event.ticket)
        elif isinstance(event, ev.AttemptFailed | ev.Finished | ev.Abandoned):
            self.in_flight.discard(event.ticket)
        last = isinstance(event, ev.Finished | ev.Abandoned) or (
            isinstance(event, ev.AttemptFailed) and event.retry_in_s is None
        )
        if last and not isinstance(event, ev.Abandoned):
            self.over[event.ticket] += 1  # type: ignore[attr-defined]  # these have one
            assert self.over[event.ticket] == 1, "ended twice"  # type: ignore[attr-defined]


@example(seed=627, count=116, texts=["rpm=5"], how="recorded")  # an attempt that was cut was cut again without end
@given(seed=st.integers(0, 10**9), count=st.integers(1, 120), texts=changes, how=faults)
@settings(max_examples=examples(40, few=4), deadline=None)
def test_any_events_can_be_simulated(seed: int, count: int, texts: list[str], how: Faults) -> None:
    """Without an error, to an end, and twice the same."""
    recordings: list[Recording] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "soup.jsonl"
        path.write_bytes(b"".join(map(line_of, soup(seed, count))))
        with contextlib.suppress(UsageError):
            recordings.append(load(path))
    assume(recordings)  # else no request was in it
    (recording,) = recordings
    figures = simulate(recording, parse_changes(texts), seed=seed, faults=how, on_event=Flights().apply)
    assert math.isfinite(figures.wall_s)
    assert math.isfinite(figures.waited_s)
    assert simulate(recording, parse_changes(texts), seed=seed, faults=how, on_event=Flights().apply) == figures


worlds = st.builds(
    lambda agents, think_s, limits, latency, faults: World(
        "any",
        tuple(
            AgentConfig(f"agent-{number}", 4, think_s * (1 + number % 3), stream=number % 2 == 0, prompt_tokens=100)
            for number in range(agents)
        ),
        MockConfig(limits=limits, latency=latency, faults=faults),
    ),
    st.integers(1, 9),
    st.sampled_from((0.0, 0.3, 2.0)),
    st.sampled_from(
        (LimitConfig(), LimitConfig(rpm=12), LimitConfig(rpm=30, window="bucket"), LimitConfig(concurrency=2))
    ),
    st.sampled_from((LatencyConfig(0.5, 0.2), LatencyConfig(2.0, 0.0, token_s=0.02))),
    st.sampled_from((FaultConfig(), FaultConfig(bad_gateway=0.2), FaultConfig(reset_mid=0.2), FaultConfig(quota=0.1))),
)


@pytest.mark.slow
@given(world=worlds, seed=st.integers(1, 99), texts=changes)
@settings(max_examples=4, deadline=None)  # each runs a whole proxy
def test_finished_agents_finish_again(world: World, seed: int, texts: list[str]) -> None:
    """Of a run through the real proxy: every request ends, unless its agent died of an error; none flies twice."""
    with tempfile.TemporaryDirectory() as folder:
        record(world, Path(folder) / "run.jsonl", seed=seed)
        recording = load(Path(folder) / "run.jsonl")
    flights = Flights()
    figures = simulate(recording, parse_changes(texts), on_event=flights.apply)
    assert (figures.open, flights.in_flight) == (0, set())
    if figures.failed + figures.refused == 0:
        assert figures.answered == recording.figures.answered
    again = simulate(recording)
    assert again.open == 0
    # The mock refuses in no time; in what order such moments come may decide which agent a failure ends, and when.
    if recording.figures.failed == 0:
        assert (again.answered, again.failed) == (recording.figures.answered, 0)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight agents, several lanes of thought, faults and a limit."""
    path = tmp_path_factory.mktemp("journals") / "run.jsonl"
    agents = tuple(AgentConfig(f"agent-{n}", 5, 0.5, stream=n % 2 == 0, prompt_tokens=100) for n in range(8))
    provider = MockConfig(limits=LimitConfig(rpm=20), faults=FaultConfig(bad_gateway=0.2, overloaded=0.1))
    record(World("hashes", agents, provider), path)
    return path


@pytest.mark.slow
def test_no_figure_depends_on_hashes(journal: Path) -> None:
    """Processes whose strings hash otherwise find the same."""
    script = (
        "import sys; from pathlib import Path; from hivemind.lab.simulate.recording import Recording, load;"
        " from hivemind.lab.simulate.simulation import simulate; import msgspec;"
        " from hivemind.lab.simulate.overrides import parse_changes;"
        " recording = load(Path(sys.argv[1]));"
        " found = [simulate(recording, parse_changes(['max_concurrency=3']), seed=4, faults=how)"
        " for how in ('recorded', 'drawn')]; print(msgspec.json.encode(found).decode())"
    )
    printed = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(journal)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert json.loads(printed.pop())[0]["requests"] == 40


def test_nothing_waits_for_what_never_comes(tmp_path: Path) -> None:
    """A task that was claimed though another comes first, of whose end the journal lacks the line: its agent asks, and
    is turned away in the end."""
    added = [ev.TaskAdded(0.0, task, "b", task, Priority.NORMAL, 0, after) for task, after in _TASKS]
    orders = [
        ev.Commanded(0.0, "runner", "SubmitTasks", {"tasks": ["b.x", "b.y"]}),
        ev.Commanded(3.0, "runner", "ClaimTask", {"task": "b.y", "runner": "r"}),
        ev.Commanded(3.1, "runner", "BeginAgent", {"agent": "b.y"}),
    ]
    recording = recorded(tmp_path, orders[:1], added, orders[1:], served(4.0, 1, "b.y"), served(4.5, 2, "c"))
    told: list[ev.Event] = []
    figures = simulate(recording, on_event=told.append)
    assert (figures.answered, figures.refused, figures.open) == (1, 1, 0)


_TASKS: tuple[tuple[str, tuple[str, ...]], ...] = (("b.x", ()), ("b.y", ("b.x",)))


def test_what_was_decided_before_holds(tmp_path: Path) -> None:
    """An agent that was paused before a restart is so from the beginning, until somebody lets it go on."""
    recalled = ev.AgentRecalled(0.0, "a", None, Priority.LOW, True, False)
    go_on = ev.Commanded(5.0, "you", "PauseAgent", {"agent": "a", "paused": False})
    told: list[ev.Event] = []
    simulate(recorded(tmp_path, [recalled], served(1.0, 1, "a", waits_s=4.0), [go_on]), on_event=told.append)
    assert [(each.at, each.priority) for each in told if isinstance(each, ev.Arrived)] == [(1.0, Priority.LOW)]
    assert [each.at for each in told if isinstance(each, ev.Granted)] == [5.0]
