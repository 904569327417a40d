"""Commands by name, as they come over the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hivemind.control.codec import to_plain
from hivemind.control.parsing import COMMANDS, checked_who, command_from
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.events import Commanded
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.types import Priority, TaskSpec

ONE_OF_EACH: tuple[cmd.Command, ...] = (
    cmd.SetPriority("alice", Priority.HIGH),
    cmd.Tune("aimd.beta", 0.7),
    cmd.PinLevel(None),
    cmd.SetCircuit("probe", "up:1"),
    cmd.PauseAdmissions(True),
    cmd.PauseAgent("alice", False),
    cmd.BoostAgent("alice", 5.0),
    cmd.StopAgent("alice", True),
    cmd.CutRequest("alice", 12, retry=False),
    cmd.SetBudget("alice", 1000, 2.5, "day", "subtree"),
    cmd.BeginAgent("alice", "boss", "lint"),
    cmd.EndAgent("alice", -9),
    cmd.SubmitTasks((TaskSpec("lint"), TaskSpec("test", Priority.LOW, 500, ("lint",), command=("make", "test")))),
    cmd.ClaimTask("lint", "runner-1"),
    cmd.FinishTask("lint", ok=False, note="exit code 1"),
    cmd.CancelTask("lint"),
    cmd.RetryTask("lint"),
    cmd.SetTaskPriority("lint", Priority.CRITICAL),
    cmd.ForgetTasks("nightly"),
    cmd.Drain(False),
    cmd.ReleaseLane("up:1"),
    cmd.Acknowledge("alice", "died"),
    cmd.AddNote("new prompt"),
)


def test_every_command_has_a_name() -> None:
    """The list above leaves none out."""
    assert {type(command).__name__ for command in ONE_OF_EACH} == set(COMMANDS)


@pytest.mark.parametrize("command", ONE_OF_EACH, ids=lambda command: type(command).__name__)
def test_there_and_back(command: cmd.Command) -> None:
    """Each is the same at the other end."""
    arguments = msgspec.json.decode(msgspec.json.encode(to_plain(command)))
    assert command_from(type(command).__name__, arguments) == command


def test_as_in_the_event() -> None:
    """The name and arguments are those of the event that tells of it."""
    scheduler = Scheduler(SchedulerConfig(), lambda: 0.5)
    scheduler.apply(1.0, cmd.PauseAdmissions(True), "ops")
    (event,) = [event for event in scheduler.events if isinstance(event, Commanded)]
    assert command_from(event.name, event.arguments) == cmd.PauseAdmissions(True)


def test_what_has_a_default_may_be_left_out() -> None:
    """And a whole number is a number."""
    assert command_from("BoostAgent", {"agent": "alice"}) == cmd.BoostAgent("alice", 60.0)
    assert command_from("Tune", {"knob": "rpm", "value": 50}) == cmd.Tune("rpm", 50.0)


LONG = "x" * 41


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("SetPrioritty", {}, "no such command SetPrioritty; did you mean SetPriority?"),
        ("Fly", {}, f"no such command Fly; there are {', '.join(COMMANDS)}"),
        (LONG, {}, f"no such command of that name; there are {', '.join(COMMANDS)}"),
        ("Drain", [], "Drain: must be an object"),
        ("Drain", {}, "Drain: draining is missing; it must be true or false"),
        ("Drain", {"draining": 1}, "Drain: draining 1 must be true or false"),
        ("Drain", {"drainin": True}, "Drain: no such argument drainin; did you mean draining?"),
        ("Drain", {"x\n": True}, "Drain: no such argument of that name; there is draining"),
        ("Tune", {"zzz": 1}, "Tune: no such argument zzz; there are knob, value, upstream"),
        ("Tune", {"knob": "rpm", "value": "5"}, "Tune: value must be a number"),
        ("Tune", {"knob": "rpm", "value": True}, "Tune: value true must be a number"),
        ("SetBudget", {"agent": "a", "tokens": 0.5}, "SetBudget: tokens 0.5 must be a whole number or null"),
        ("PauseAgent", {"agent": None, "paused": True}, "PauseAgent: agent must be text"),
        (
            "SetPriority",
            {"agent": "a", "priority": "urgent"},
            "SetPriority: priority must be critical, high, normal or low",
        ),
        ("SetPriority", {"agent": "a", "priority": 0}, "SetPriority: priority must be critical, high, normal or low"),
        ("SetCircuit", {"mode": "shut"}, "SetCircuit: mode must be auto, open, closed or probe"),
        ("SubmitTasks", {"tasks": {}}, "SubmitTasks: tasks must be a list"),
        ("SubmitTasks", {"tasks": [{"id": "a"}, 5]}, "SubmitTasks: tasks[1]: must be an object"),
        ("SubmitTasks", {"tasks": [{"id": "a"}, {}]}, "SubmitTasks: tasks[1]: id is missing; it must be text"),
        (
            "SubmitTasks",
            {"tasks": [{"id": "a"}, {"id": "b", "priority": 1}]},
            "SubmitTasks: tasks[1]: priority must be critical, high, normal or low",
        ),
        (
            "SubmitTasks",
            {"tasks": [{"id": "a", "afer": ["b"]}]},
            "SubmitTasks: tasks[0]: no such argument afer; did you mean after?",
        ),
        ("SubmitTasks", {"tasks": [{"id": "a", "after": ["b", 3]}]}, "SubmitTasks: tasks[0]: after[1] 3 must be text"),
        ("SubmitTasks", {"tasks": [{"id": "a", "after": "b"}]}, "SubmitTasks: tasks[0]: after must be a list"),
    ],
)
def test_wrong(name: str, arguments: Any, line: str) -> None:
    """One line says what is wrong and what would be right; priorities go by name alone."""
    with pytest.raises(cmd.Rejected) as caught:
        command_from(name, arguments)
    assert str(caught.value) == line


@pytest.mark.parametrize("who", ["", "  ", "x" * 41, "a\nb", "you", "sk-ant-api03-abcdefgh"])
def test_who_is_refused(who: str) -> None:
    """Who signs is shown in the log: short, printable, no key, and not whoever sits at the proxy's own screen."""
    with pytest.raises(cmd.Rejected, match=r"^who: "):
        checked_who(who)


def test_who() -> None:
    """Any other name will do."""
    assert checked_who(" ann@desk ") == "ann@desk"
