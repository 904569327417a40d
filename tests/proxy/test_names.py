"""Names that commands bring along."""

from __future__ import annotations

import pytest
from proxy.kit import between
from proxy.wire import ANSWER

from hivemind.proxy.names import check_names
from hivemind.scheduler.commands import BeginAgent, Command, PauseAgent, Rejected, SetBudget, SubmitTasks
from hivemind.scheduler.types import TaskSpec

KEY = "sk-ant-api03-abcdefghijklmnop"


def commands(name: str) -> list[Command]:
    """All by which an agent or a task may come to that name."""
    return [
        SetBudget(name, 5),
        BeginAgent(name),
        BeginAgent("a", name),
        SubmitTasks((TaskSpec("fine"), TaskSpec("t", agent=name))),
        SubmitTasks((TaskSpec(name),)),
        SubmitTasks((TaskSpec("t", batch=name),)),
    ]


@pytest.mark.parametrize("name", [KEY, "a\nb", "\0", "x" * 81])
def test_what_would_be_shown_and_must_not(name: str) -> None:
    """A key, what a terminal would take for something else, a page of text."""
    for command in commands(name):
        with pytest.raises(Rejected, match=r"^an agent's name"):
            check_names(command, lambda _: False)


def test_whoever_is_known_stays() -> None:
    """However it came by its name; and what names nobody new isn't looked at."""
    for command in commands(KEY)[:2]:
        check_names(command, lambda name: name == KEY)
    check_names(PauseAgent(KEY, True), lambda _: False)
    check_names(SetBudget(None, 5), lambda _: False)
    for command in commands("alice"):
        check_names(command, lambda _: False)


async def test_a_proxy_looks() -> None:
    """Whoever gives the command; nothing is changed, and the key is nowhere."""
    async with between([ANSWER]) as (proxy, _):
        with pytest.raises(Rejected, match="looks like a key"):
            proxy.proxy.apply(SetBudget(KEY, 5))
        assert proxy.proxy.engine.agent(KEY) is None
