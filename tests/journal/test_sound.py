"""Events that say what they can say."""

from __future__ import annotations

import random
from typing import Any

import pytest
from journal.lines import LANE, run

from hivemind.journal.codec import BadLine, event_of, line_of
from hivemind.scheduler import commands as cmd
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.types import Priority, Request, TaskSpec
from hivemind.world.world import World

COMMANDS: tuple[cmd.Command, ...] = (
    cmd.BeginAgent("alice"),
    cmd.SetPriority("alice", Priority.HIGH),
    cmd.Tune("aimd.beta", 0.7),
    cmd.PinLevel(3.0),
    cmd.PinLevel(None),
    cmd.SetCircuit("open"),
    cmd.PauseAdmissions(True),
    cmd.PauseAgent("alice", True),
    cmd.BoostAgent("alice"),
    cmd.CutRequest("alice"),
    cmd.SetBudget("alice", 5000, 2.0, "day", "subtree"),
    cmd.SetBudget(None),
    cmd.StopAgent("alice", True),
    cmd.EndAgent("alice", -9),
    cmd.SubmitTasks((TaskSpec("a"), TaskSpec("b", after=("a",), batch=""))),
    cmd.SetTaskPriority("a", Priority.LOW),
    cmd.ClaimTask("a", "runner"),
    cmd.FinishTask("a", False, "exit code 1"),
    cmd.RetryTask("a"),
    cmd.CancelTask("b"),
    cmd.ForgetTasks(""),
    cmd.ReleaseLane(LANE),
    cmd.Drain(True),
    cmd.Acknowledge("alice", "died"),
    cmd.AddNote("lunch"),
)


def test_all_that_happens_is_sound() -> None:
    """What a scheduler tells of every command can be read again."""
    scheduler = Scheduler(SchedulerConfig(), random.Random(1).random)
    scheduler.open_lane(0.0, LANE, LaneConfig("anthropic", "anthropic"))
    scheduler.arrive(1.0, Request("alice", LANE, "m", "m", 100, None, True))
    for number, command in enumerate(COMMANDS):
        scheduler.apply(2.0 + number, command, "you")
    told = [event.name for event in scheduler.events if isinstance(event, ev.Commanded)]
    assert told == [type(command).__name__ for command in COMMANDS]
    assert set(told) == {made.__name__ for made in cmd.Command.__args__}
    for event in scheduler.events:
        assert line_of(event_of(line_of(event))) == line_of(event)


_ODD: tuple[dict[str, Any], ...] = (
    {},
    {"agent": 5, "priority": [], "knob": {}, "value": "x", "level": "a", "mode": "z", "paused": None, "tasks": 5},
    {"agent": "a", "priority": "urgent", "tokens": "x", "for_s": "long", "stopped": 1, "batch": {}, "draining": "no"},
)


@pytest.mark.parametrize("arguments", _ODD, ids=["none", "odd", "words"])
@pytest.mark.parametrize("name", [*sorted(made.__name__ for made in cmd.Command.__args__), "Unheard"])
def test_odd_commands(name: str, arguments: dict[str, Any]) -> None:
    """A command's event either can't be read, or a world can be told of it."""
    try:
        event = event_of(line_of(ev.Commanded(115.0, "you", name, arguments)))
    except BadLine:
        assert name != "Unheard"
        return
    world = World(at=100.0, wall=1e9, address="", upstreams=())
    for each in (*run()[1:-1], event):
        world.apply(each)
    assert world.snapshot(120.0).lines


@pytest.mark.parametrize(
    "event",
    [
        ev.BudgetWarned(1.0, "alice", ev.BudgetState(None, 5, None, "odd", "all", 1, 0.0, 0), True),
        ev.BudgetWarned(1.0, "alice", ev.BudgetState(None, 0, None, "run", "all", 1, 0.0, 0), True),
    ],
)
def test_odd_events(event: ev.Event) -> None:
    """Values that no event of ours has make a line that can't be read."""
    try:
        found = event_of(line_of(event))
    except BadLine:
        return
    world = World(at=0.0, wall=1e9, address="", upstreams=())
    world.apply(found)
    assert world.snapshot(2.0).lines
