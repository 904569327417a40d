"""Names that commands bring along."""

from __future__ import annotations

import pytest
from proxy.kit import between
from proxy.wire import ANSWER

from hivemind.agent_names import KnownNames
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import TaskSpec
from hivemind.wire.command_names import NOTE_LENGTH, fit_to_show, spelled

KEY = "sk-ant-api03-abcdefghijklmnop"


def commands(name: str) -> list[cmd.Command]:
    """All by which an agent or a task may come to that name."""
    return [
        cmd.SetBudget(name, 5),
        cmd.BeginAgent(name),
        cmd.BeginAgent("a", name),
        cmd.SubmitTasks((TaskSpec("fine"), TaskSpec("t", agent=name))),
        cmd.SubmitTasks((TaskSpec(name),)),
        cmd.SubmitTasks((TaskSpec("t", batch=name),)),
    ]


@pytest.mark.parametrize("name", [KEY, "a\nb", "\0", "x" * 81])
def test_what_would_be_shown_and_must_not(name: str) -> None:
    """A key, what a terminal would take for something else, a page of text."""
    for command in commands(name):
        with pytest.raises(cmd.Rejected, match=r"^an agent's name"):
            spelled(command, KnownNames(), lambda _: False)


def test_whoever_is_known_stays() -> None:
    """However it came by its name; and what names nobody new isn't looked at."""
    for command in commands(KEY)[:2]:
        assert spelled(command, KnownNames(), lambda name: name == KEY) == command
    for command in (cmd.PauseAgent(KEY, True), cmd.SetBudget(None, 5), *commands("alice")[:2]):
        assert spelled(command, KnownNames(), lambda _: False) == command


def test_every_spelling_means_the_agent_that_is_known() -> None:
    """Commands on agents and tasks alike; a task's agent, which is called as the task, too."""
    names = KnownNames()
    names.add("Alice")
    for command in (
        cmd.SetBudget("alice", 5),
        cmd.BeginAgent("ALICE", "alice"),
        cmd.StopAgent(" alice ", True),
        cmd.EndAgent("\uff41lice"),
    ):
        assert spelled(command, names, lambda _: False).agent == "Alice"  # type: ignore[union-attr]
    begun = spelled(cmd.BeginAgent("bob", "ALICE"), names, lambda _: False)
    assert begun == cmd.BeginAgent("bob", "Alice")
    asked = cmd.SubmitTasks((TaskSpec("t", agent="alice"), TaskSpec("alice"), TaskSpec("other")))
    found = spelled(asked, names, lambda _: False)
    assert isinstance(found, cmd.SubmitTasks)
    assert [task.agent for task in found.tasks] == ["Alice", "Alice", ""]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("exit code 1", "exit code 1"),
        (f"refused: {KEY}", "refused: ***"),
        ("two\nlines,\ta tab, \x1b[31mred", "two lines, a tab, ?[31mred"),
        ("x" * 100_000, "x" * (NOTE_LENGTH - 1) + "…"),
        ("", ""),
    ],
)
def test_a_note_is_fit_to_show(said: str, shown: str) -> None:
    """One line, no secret, no more than a row holds; the rest of the command stays."""
    assert fit_to_show(cmd.FinishTask("t", False, said, True, 2)) == cmd.FinishTask("t", False, shown, True, 2)


async def test_a_proxy_looks() -> None:
    """Whoever gives the command; nothing is changed, and the key is nowhere."""
    async with between([ANSWER]) as (proxy, _):
        with pytest.raises(cmd.Rejected, match="looks like a key"):
            proxy.proxy.apply(cmd.SetBudget(KEY, 5))
        assert proxy.proxy.engine.agents.get(KEY) is None
