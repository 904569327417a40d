"""After what each request came, so that it comes so long after that again; also where agents ask several at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.kit import FREE, LANE, failed, recorded, request, served

from benchmarks.prediction import World, record
from hivemind.journal.codec import line_of
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.steps import CommandStep, RequestStep, TraceStep
from hivemind.records import replace
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


def step_of(recording: Recording, ticket: int) -> RequestStep:
    """The one with that ticket."""
    return next(each for each in recording.trace.requests if each.arrived.ticket == ticket)


def causes(recording: Recording, ticket: int) -> list[tuple[int, float]]:
    """Tickets from whose end that one follows, and how long after."""
    step = step_of(recording, ticket)
    return [
        (each.arrived.ticket, round(delay_s, 6))
        for each in recording.trace.requests
        for delay_s, after in each.after
        if after is step
    ]


def test_concurrent_requests_are_all_awaited(tmp_path: Path) -> None:
    """Even where another one of them is the last to end."""
    burst = [event for n in range(3) for event in served(0.01 * n, n, "a", takes_s=2.0 + n, size=100 * (n + 1))]
    recording = recorded(tmp_path, burst, served(5.02, 7, "a", size=50))
    assert causes(recording, 7) == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert step_of(recording, 7).awaits == 3
    one = simulate(recording, parse_changes(["max_concurrency=1"]))
    assert one.wall_s == pytest.approx(2.0 + 3.0 + 4.0 + 1.0 + 1.0)


def test_those_that_share_a_name_go_their_own_ways(tmp_path: Path) -> None:
    """Each request follows from one answer, none from the same one twice."""
    two = [*served(0.0, 1, "key", takes_s=2.0), *served(0.6, 2, "key", takes_s=2.0)]
    recording = recorded(tmp_path, two, served(3.0, 3, "key", takes_s=2.0), served(3.4, 4, "key", takes_s=2.0))
    assert causes(recording, 3) == [(2, 0.4)]
    assert causes(recording, 4) == [(1, 1.4)]


def test_a_parent_waits_for_all_of_its_sub_agents(tmp_path: Path) -> None:
    """They begin after its answer, and it goes on when the last of them is done."""

    def sub(at: float, ticket: int, name: str, takes_s: float) -> Iterator[ev.Event]:
        yield request(at, ticket, name, parent="lead")
        yield ev.Granted(at, ticket, name, LANE, 1, 0.0)
        yield ev.Finished(at + takes_s, ticket, name, LANE, "m", 200, 1, None, takes_s)

    recording = recorded(
        tmp_path,
        served(0.0, 1, "lead"),
        sub(1.5, 2, "lead/a", 4.0),
        sub(1.5, 3, "lead/b", 2.0),
        served(6.0, 4, "lead"),
        served(7.5, 5, "lead"),
    )
    assert causes(recording, 2) == causes(recording, 3) == [(1, 0.5)]
    assert causes(recording, 4) == [(2, 0.5), (3, 0.5)]
    assert causes(recording, 5) == [(4, 0.5)]


def test_a_client_that_gave_up_asks_again(tmp_path: Path) -> None:
    """Only where it still gives up."""
    gives_up = [request(0.5, 1, "b"), ev.Abandoned(4.5, 1, "b", LANE, False)]
    recording = recorded(tmp_path, served(0.0, 0, "a", takes_s=3.0), gives_up, served(5.5, 2, "b"))
    assert step_of(recording, 2).repeats is step_of(recording, 1)
    figures = simulate(recording)
    assert (figures.requests, figures.answered, figures.left) == (2, 2, 0)


def test_clients_ask_again_as_they_were_seen_to(tmp_path: Path) -> None:
    """What the proxy no longer hides from them they try again themselves, as often and as long after."""

    def hit(at: float, ticket: int, agent: str) -> Iterator[ev.Event]:
        yield request(at, ticket, agent)
        yield ev.Granted(at, ticket, agent, LANE, 1, 0.0)
        yield failed(at + 1.0, ticket, agent, FailureKind.SERVER_ERROR, again_s=0.0)
        yield ev.Granted(at + 1.0, ticket, agent, LANE, 2, 0.0)
        yield ev.Finished(at + 2.0, ticket, agent, LANE, "m", 200, 2, None, 2.0)

    seen = [request(0.0, 1, "a"), ev.Granted(0.0, 1, "a", LANE, 1, 0.0), failed(1.0, 1, "a", FailureKind.CLIENT_ERROR)]
    others = [event for n in range(9) for event in served(50.0 + 2 * n, 50 + n, "b")]
    recording = recorded(tmp_path, seen, served(1.5, 2, "a"), hit(20.0, 3, "c"), others)
    habit = recording.clients.agents["a"].after_errors
    assert habit is not None
    assert [[each.pause_s for each in pauses] for pauses in habit.pauses] == [[0.5]]
    told: list[ev.Event] = []
    figures = simulate(recording, parse_changes(["retry.max_attempts=1"]), on_event=told.append)
    assert [each.at for each in told if isinstance(each, ev.Arrived) and each.agent == "c"] == [20.0, 21.5]
    assert figures.finished == 3


def test_what_came_at_one_moment_comes_in_its_order(tmp_path: Path) -> None:
    """Also where each of them follows from something else."""
    agents = ("a", "b", "a", "c", "b", "a")
    burst = [event for n, agent in enumerate(agents) for event in served(0.0, n, agent, size=n + 1)]
    recording = recorded(tmp_path, burst, lane=FREE)
    told: list[ev.Event] = []
    simulate(recording, on_event=told.append)
    assert tuple(each.agent for each in told if isinstance(each, ev.Arrived)) == agents


def test_clients_that_time_out_do_so_whatever_they_wait_for(tmp_path: Path) -> None:
    """Where one always left after the same time and never waited longer, it leaves then too when it was answered."""
    events: list[ev.Event] = []
    for number in range(3):
        at = number * 20.0
        events += served(at, number * 2, "long", takes_s=9.0)
        events += [request(at + 0.5, number * 2 + 1, "b"), ev.Abandoned(at + 4.5, number * 2 + 1, "b", LANE, False)]
    events += served(60.0, 8, "c", takes_s=3.0)
    events += served(60.5, 9, "b", waits_s=2.5, takes_s=1.0, size=77)
    recording = recorded(tmp_path, events, lane=replace(FREE, max_concurrency=1))
    assert {name: each.timeout_s for name, each in recording.clients.agents.items() if each.timeout_s} == {"b": 4.0}
    told: list[ev.Event] = []
    simulate(recording, parse_changes(["agent.b.priority=low"]), on_event=told.append)
    assert [each.at for each in told if isinstance(each, ev.Finished) and each.agent == "b"] == [pytest.approx(64.01)]
    told.clear()
    simulate(recording, parse_changes(["rpm=1"]), on_event=told.append)
    assert [each for each in told if isinstance(each, ev.Finished) and each.agent == "b"] == []
