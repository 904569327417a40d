"""What must hold of every simulation, whatever was recorded."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from examples import examples
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lab.kit import recorded, served
from lab.random_events import soup

from benchmarks.prediction import World, record
from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import Faults, simulate
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority
from hivemind_mock.agents.agent import AgentConfig
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig

pytestmark = pytest.mark.e2e
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
