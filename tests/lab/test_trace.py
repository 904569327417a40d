"""After what each request came, so that it comes so long after that again."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.kit import LANE, failed, recorded, request, served
from msgspec.structs import replace

from benchmarks.prediction import World, record
from hivemind.journal.codec import line_of
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.steps import CommandStep, RequestStep, TraceStep
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority
from hivemind.world.state import Carried
from hivemind.world.world import World as LiveWorld
from hivemind_mock.agents.agent import AgentConfig
from hivemind_mock.provider.config import LatencyConfig, MockConfig


def label(step: TraceStep) -> str:
    """A request by its agent, an order by its name."""
    return step.arrived.agent if isinstance(step, RequestStep) else step.name if isinstance(step, CommandStep) else "?"


def after(step: TraceStep) -> list[tuple[float, str]]:
    """What followed from its end."""
    return [(round(delay_s, 6), label(each)) for delay_s, each in step.after]


def test_an_agent_asks_again_after_its_answer(tmp_path: Path) -> None:
    """Its time to think is kept, not the moment."""
    trace = recorded(tmp_path, served(2.0, 1, "a", takes_s=3.0), served(7.5, 2, "a")).trace
    ((offset_s, first),) = trace.start
    assert (offset_s, label(first), after(first)) == (2.0, "a", [(2.5, "a")])


def test_requests_side_by_side_come_side_by_side(tmp_path: Path) -> None:
    """One that is sent while another is under way follows from that one's beginning."""
    trace = recorded(tmp_path, served(1.0, 1, "a", takes_s=5.0), served(1.25, 2, "a", takes_s=1.0)).trace
    ((_, first),) = trace.start
    assert isinstance(first, RequestStep)
    assert [(delay_s, label(each)) for delay_s, each in first.concurrent] == [(0.25, "a")]
    assert first.after == []


def test_the_same_again_after_a_failure_is_a_repetition(tmp_path: Path) -> None:
    """Which isn't needed where the first one is answered."""
    fails = [request(0.0, 1, "a"), ev.Granted(0.0, 1, "a", LANE, 1, 0.0), failed(1.0, 1, "a", FailureKind.SERVER_ERROR)]
    others = [event for n in range(8) for event in served(float(n), 50 + n, "b", size=999)]
    recording = recorded(tmp_path, fails, served(2.0, 2, "a"), served(5.0, 3, "a", size=500), others)
    again, other = (each for each in recording.trace.requests if each.arrived.ticket in (2, 3))
    assert again.repeats is recording.trace.requests[0]
    assert other.repeats is None
    figures = simulate(recording)
    assert (recording.figures.requests, recording.figures.failed, recording.figures.answered) == (11, 1, 10)
    assert (figures.requests, figures.failed, figures.answered) == (10, 0, 10)  # the proxy tried again by itself


def test_a_runner_s_orders_follow_from_what_was_over(tmp_path: Path) -> None:
    """A process ends after its agent's last answer, its task is done after that, and the next one is claimed then."""
    added = [ev.TaskAdded(0.0, f"b.{name}", "b", f"b.{name}", Priority.NORMAL, 0, ()) for name in "xy"]

    def ordered(at: float, name: str, **arguments: object) -> ev.Commanded:
        return ev.Commanded(at, "runner", name, arguments)

    trace = recorded(
        tmp_path,
        [ordered(0.0, "SubmitTasks", tasks=["b.x", "b.y"]), *added],
        [ordered(0.5, "ClaimTask", task="b.x"), ordered(0.6, "BeginAgent", agent="b.x")],
        served(1.0, 1, "b.x"),
        [ordered(2.5, "EndAgent", agent="b.x", exit_code=0), ordered(2.6, "FinishTask", task="b.x", ok=True)],
        [ordered(3.0, "ClaimTask", task="b.y"), ordered(3.1, "BeginAgent", agent="b.y")],
        served(3.5, 2, "b.y"),
    ).trace
    chain = []
    ((_, step),) = trace.start
    while step.after:
        delay_s, step = step.after[0]
        chain.append((round(delay_s, 6), label(step)))
    assert chain == [
        (0.5, "ClaimTask"),
        (0.1, "BeginAgent"),
        (0.4, "b.x"),
        (0.5, "EndAgent"),
        (0.1, "FinishTask"),
        (0.4, "ClaimTask"),
        (0.1, "BeginAgent"),
        (0.4, "b.y"),
    ]
    ((_, submitted),) = trace.start
    assert isinstance(submitted, CommandStep)
    assert [task.task for task in submitted.tasks] == ["b.x", "b.y"]


def test_an_operator_s_order_keeps_its_moment(tmp_path: Path) -> None:
    """What somebody at a screen did follows from nothing that is known."""
    pause = ev.Commanded(4.0, "you", "PauseAdmissions", {"paused": True})
    trace = recorded(tmp_path, served(0.0, 1, "a"), [pause], served(9.0, 2, "a")).trace
    assert [(offset_s, label(step)) for offset_s, step in trace.start] == [(0.0, "a"), (4.0, "PauseAdmissions")]


def test_a_part_alone_begins_as_things_stood(tmp_path: Path) -> None:
    """A journal of which only a later part is left: knobs that were turned before hold, and who waited comes again."""
    path = tmp_path / "whole.jsonl"
    world = World(
        "turned", (AgentConfig("a", 6, 1.0), AgentConfig("b", 6, 1.0)), MockConfig(latency=LatencyConfig(1.0, 0.2))
    )
    settings = {"max_concurrency": 3, "aimd": {"beta": 0.9}, "retry": {"max_attempts": 4}}
    record(world, path, settings=settings)
    began, *events = open_journal(path).events()
    fold = LiveWorld(at=0.0, wall=began.at, address="", upstreams=())
    before = [event for event in events if event.at <= 4.0]
    for event in before:
        fold.apply(event)
    assert isinstance(began, JournalBegan)
    part = [replace(began, at=4.0, part=2), Carried(4.0, fold.keep(4.0)), *events[len(before) :]]
    path.write_bytes(b"".join(map(line_of, part)))
    recording = load(path)
    (lane,) = recording.lanes.values()
    assert (lane.max_concurrency, lane.aimd.beta, recording.began.config.retry.max_attempts) == (3, 0.9, 4)
    assert simulate(recording).wall_s == pytest.approx(recording.figures.wall_s, rel=0.05)
