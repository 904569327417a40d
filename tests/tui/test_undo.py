"""Taking back: the inverse of each command brings what it touched back to where it was."""

from __future__ import annotations

from typing import get_args

import pytest
from tui.graph import processes
from tui.worlds import LANE

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority
from hivemind_tui.commands.queue import inverse

WORLD = processes()
UPSTREAM = WORLD.lanes[0].state.upstream
CASES: list[tuple[cmd.Command, list[cmd.Command]]] = [
    (cmd.SetPriority("alice", Priority.LOW), [cmd.SetPriority("alice", Priority.NORMAL)]),
    (cmd.PauseAgent("judy", False), [cmd.PauseAgent("judy", True)]),
    (cmd.BoostAgent("frank", 0.0), [cmd.BoostAgent("frank", 42.0)]),
    (cmd.SetBudget("alice", None), [cmd.SetBudget("alice", 500_000, None, "run", "agent")]),
    (cmd.StopAgent("alice", True), [cmd.StopAgent("alice", False)]),
    (cmd.Tune("aimd.beta", 0.9, UPSTREAM), [cmd.Tune("aimd.beta", 0.5, UPSTREAM)]),
    (cmd.Tune("aimd.beta", 0.9), [cmd.Tune("aimd.beta", 0.5, UPSTREAM)]),
    (cmd.PinLevel(3.0, LANE), [cmd.PinLevel(None, LANE)]),
    (cmd.SetCircuit("open", LANE), [cmd.SetCircuit("auto", LANE)]),
    (cmd.PauseAdmissions(True), [cmd.PauseAdmissions(False)]),
    (cmd.Drain(True), [cmd.Drain(False)]),
    (cmd.ReleaseLane(LANE), []),
    (cmd.CutRequest("alice", 12), []),
    (cmd.SetBudget("dave", 5), [cmd.SetBudget("dave", 2_000_000, 2.5, "run", "subtree")]),
    (cmd.SetBudget("bob", 5), [cmd.SetBudget("bob")]),
    (cmd.SetBudget(None, 5), [cmd.SetBudget(None, None, 20.0, "day")]),
    (cmd.CancelTask("nightly.docs"), [cmd.RetryTask("nightly.docs")]),
    (cmd.RetryTask("nightly.types"), []),
    (cmd.SetTaskPriority("nightly.docs", Priority.CRITICAL), [cmd.SetTaskPriority("nightly.docs", Priority.NORMAL)]),
    (cmd.BeginAgent("alice"), []),
    (cmd.EndAgent("alice"), []),
    (cmd.SubmitTasks(()), []),
    (cmd.ClaimTask("nightly.docs"), []),
    (cmd.FinishTask("nightly.docs", True), []),
    (cmd.ForgetTasks("nightly"), []),
    (cmd.Acknowledge("alice"), []),
    (cmd.AddNote("new prompt"), []),
    (cmd.SetPriority("nobody", Priority.LOW), []),
]


@pytest.mark.parametrize(("command", "back"), CASES, ids=lambda case: type(case).__name__)
def test_each_command_has_its_way_back(command: cmd.Command, back: list[cmd.Command]) -> None:
    """To the value that stood before, not to a default."""
    assert inverse(command, WORLD) == back


def test_no_command_is_forgotten() -> None:
    """A new command needs a case here, if only to say that nothing undoes it."""
    assert {type(command) for command, _ in CASES} == set(get_args(cmd.Command))


def test_a_forced_circuit_and_a_pinned_level_come_back_as_they_were() -> None:
    """Not to automatic, where they weren't that before."""
    lane = WORLD.lanes[0]
    state = replace(lane.state, circuit="open", circuit_forced=True, pinned=True, level=6.0)
    forced = replace(WORLD, lanes=(replace(lane, state=state),))
    assert inverse(cmd.SetCircuit("auto", LANE), forced) == [cmd.SetCircuit("open", LANE)]
    assert inverse(cmd.PinLevel(None, LANE), forced) == [cmd.PinLevel(6.0, LANE)]
