"""Keys on tasks, on families of agents and on budgets: what they send, and where they lead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tui.graph import processes
from tui.kit import SMALLEST, afresh, room, screen
from tui.worlds import FakeSource

from hivemind.scheduler.commands import CancelTask, Command, PauseAgent, RetryTask, SetBudget, SetTaskPriority
from hivemind.scheduler.types import Priority
from hivemind_tui.state.view import View

pytestmark = pytest.mark.e2e
COMMANDS: dict[str, list[Command]] = {
    "6 +": [SetTaskPriority("nightly.docs", Priority.HIGH)],
    "6 j -": [SetTaskPriority("nightly.review", Priority.LOW)],
    "6 X y": [CancelTask("nightly.docs")],
    "6 X n": [],
    "6 ! ! ! @retry": [RetryTask("nightly.types")],
    "6 @retry": [],
    "6 end X": [],
    "6 X y u": [CancelTask("nightly.docs"), RetryTask("nightly.docs")],
    "B 2 0 0 k , $ 5 enter": [SetBudget("alice", 200_000, 5.0)],
    "B $ 5 / d a y enter": [SetBudget("alice", None, 5.0, "day")],
    "B $ 5 space s u b t r e e enter": [SetBudget("alice", None, 5.0, None, "subtree")],
    "B p o o l space 2 M enter": [SetBudget(None, 2_000_000)],
    "B p o o l space plus $ 5 enter u": [SetBudget(None, None, 25.0), SetBudget(None, None, 20.0, "day")],
    "2 @fold h": [PauseAgent("alice", True)],
}


def names(view: View) -> list[str]:
    """Of the agents shown."""
    return [agent.name for agent in view.agents]


PLACES: dict[str, Callable[[View], bool]] = {
    "2": lambda view: names(view)[:4] == ["alice", "bob", "carol", "dave"],
    "2 @tree": lambda view: not view.branches and names(view)[3] == "dave",
    "2 @tree @tree": lambda view: bool(view.branches),
    "2 @fold": lambda view: names(view)[:2] == ["alice", "erin"],
    "2 @fold @fold": lambda view: names(view)[:2] == ["alice", "bob"],
    "2 j j j @fold": lambda view: view.selected == "carol" and "dave" not in names(view),
    "2 / d a v e enter": lambda view: names(view) == ["alice", "carol", "dave"],
    "2 s @reverse": lambda view: names(view)[-4:] == ["alice", "carol", "dave", "bob"],
    "6": lambda view: [task.state for task in view.tasks][:3] == ["running", "running", "ready"],
    "6 j enter": lambda view: view.trail == ("tasks", "agent") and view.selected == "alice",
    "6 j enter escape": lambda view: view.trail == ("tasks",) and view.chosen == "nightly.review",
    "6 / s t a t e : w a i t enter": lambda view: {task.state for task in view.tasks} == {"waiting"},
    "6 / b e n c h enter escape": lambda view: len(view.tasks) == 13,
    "6 !": lambda view: view.chosen == "nightly.e2e",
    "6 @dearest": lambda view: view.task is not None and view.task.dollars == max(t.dollars for t in view.tasks),
    "6 @slowest": lambda view: view.task is not None and view.task.ran_s == max(t.ran_s for t in view.tasks),
    "6 s": lambda view: [t.id for t in view.tasks] == sorted(t.id for t in view.tasks),
    "6 end": lambda view: view.chosen == "nightly.unit",
}


async def test_keys_among_families_and_tasks() -> None:
    """Each sends what it stands for, and asks before a task is lost; or leads to its row, order or branch."""
    source = FakeSource(processes())
    async with screen(source, SMALLEST) as pilot:
        async for keys in afresh(pilot, (*COMMANDS, *PLACES)):
            assert source.applied == COMMANDS.get(keys, []), keys
            assert keys in COMMANDS or PLACES[keys](room(pilot).view), keys
            source.applied.clear()
