from __future__ import annotations

from pathlib import Path

import pytest
from tools.kit import call, complaint, served

from hivemind.host.proxy import Proxy
from hivemind.scheduler.commands import ClaimTask, SubmitTasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.tools.access import Caller, LocalAccess
from hivemind.tools.server import call_tool


async def reported(proxy: Proxy, name: str, outcome: str, **more: str) -> str:
    """What is said when the outcome of a task is reported, and the state it is in then."""
    answer = await call(LocalAccess(proxy), "hm.submit", name=name, outcome=outcome, **more)
    return f"{answer['said']} [{answer['task']['state']}]"


async def test_a_new_task(tmp_path: Path) -> None:
    """Everything that is said of it reaches the graph; names of its batch stand for their ids."""
    async with served(tmp_path) as proxy:
        await call(LocalAccess(proxy), "hm.submit", name="outside")
        await call(LocalAccess(proxy), "hm.submit", name="first", batch="b")
        answer = await call(
            *(LocalAccess(proxy), "hm.submit", Caller("ann")),
            name="second",
            batch="b",
            priority="high",
            estimated_tokens=7,
            after=["first", "outside"],
            agent="bob",
            command=["make", "all"],
            on_failure="skip",
            attempts=3,
        )
        assert proxy.processes.tasks("b")[1].spec == TaskSpec(
            *("b.second", Priority.HIGH, 7, ("b.first", "outside"), "bob", "b", ("make", "all"), "skip", 3),
            parent="ann",
        )
        assert answer["said"] == "Task b.second is added and waiting for b.first, outside."
        assert answer["task"]["after"] == ["b.first", "outside"]
        assert "mcp:ann" in proxy.snapshot().lines[-1].text


async def test_outcomes(tmp_path: Path) -> None:
    """Whoever worked on a task without a command reports it, whether or not it had begun; what waits for it follows."""
    async with served(tmp_path) as proxy:
        tasks = [{"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]}, {"name": "d"}]
        await call(LocalAccess(proxy), "hm.batch", batch="x", tasks=tasks)
        assert await reported(proxy, "x.a", "started") == (
            "Task x.a is yours: report done or failed when it ends. [running]"
        )
        assert (await reported(proxy, "a", "done", batch="x", note="fine")).endswith("[done]")
        assert (await reported(proxy, "x.b", "failed", note="no network")).endswith("[failed]")
        states = {task.spec.id: (task.state, task.note) for task in proxy.processes.tasks("x")}
        assert states["x.c"][0] == "blocked"
        assert states["x.b"] == ("failed", "no network")
        assert await reported(proxy, "x.b", "retry") == "Task x.b may run again. [ready]"
        assert (await reported(proxy, "x.d", "cancelled")).endswith("[cancelled]")


async def test_attempts(tmp_path: Path) -> None:
    """One that fails goes back among the ready as often as it may be started."""
    async with served(tmp_path) as proxy:
        await call(LocalAccess(proxy), "hm.submit", name="a", attempts=2)
        assert "1 of 2 attempts are used. [ready]" in await reported(proxy, "a", "failed")
        assert (await reported(proxy, "a", "failed")).endswith("[failed]")


async def test_a_batch_ends(tmp_path: Path) -> None:
    """Cancelling leaves nothing open and nothing blocked by the way; a batch that ended can be forgotten."""
    async with served(tmp_path) as proxy:
        tasks = [{"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]}]
        assert (await call(LocalAccess(proxy), "hm.batch", batch="x", tasks=tasks))["said"] == "3 tasks of x are added."
        proxy.apply(ClaimTask("x.a"), "test")
        assert "is running" in await complaint(LocalAccess(proxy), "hm.batch", batch="x", action="forget")
        answer = await call(LocalAccess(proxy), "hm.batch", batch="x", action="cancel")
        assert answer["tasks_by_state"] == {"cancelled": 3}
        assert (await call(LocalAccess(proxy), "hm.batch", batch="x", action="forget"))["tasks"] == 0
        assert (await call(LocalAccess(proxy), "hm.batch", batch="x", tasks=tasks))["ready"] == ["x.a"]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], "give at least one task"),
        ([{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}], "x.a -> x.b -> x.a"),
        ([{"name": "a", "after": ["nix"]}], "task x.a waits for 'nix', which isn't known"),
        ([{"name": "a"}, {"name": "a"}], "task x.a is there already"),
        ([{"name": "a b"}], "a name is letters, digits"),
        ([{"name": "a"}, {"nam": "b"}], "tasks[1].name: is missing; tasks[1].nam: no such argument"),
        ([{"name": "a", "priority": "urgent"}], "tasks[0].priority: should be 'critical', 'high', 'normal' or 'low'"),
        ([{"name": "a", "command": "make all"}], "tasks[0].command: should be a valid list"),
        ([{"name": str(n)} for n in range(1001)], "tasks: list should have at most 1000 items"),
    ],
)
async def test_all_or_none(tmp_path: Path, tasks: list[dict[str, object]], words: str) -> None:
    """Of a batch with anything wrong in it nothing is added, and the text names the place."""
    async with served(tmp_path) as proxy:
        assert words in await complaint(LocalAccess(proxy), "hm.batch", batch="x", tasks=tasks)
        assert proxy.processes.tasks(None) == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "x", "note": "hm"}, "note: goes with an outcome"),
        ({"name": "x", "outcome": "done"}, "no task named 'x'; there are a, auto, b.a"),
        ({"name": "autp", "outcome": "done"}, "did you mean auto?"),
        ({"name": "a", "outcome": "done", "priority": "low"}, "priority: isn't changed by an outcome"),
        ({"name": "a", "outcome": "retry", "note": "x"}, "note: goes with done or failed, not with retry"),
        ({"name": "a", "outcome": "retry"}, "only one that failed can be tried again"),
        ({"name": "auto", "outcome": "done"}, "has a command, so a runner starts it"),
        ({"name": "a", "batch": "b", "outcome": "started"}, "waiting for a, so it can't be started"),
        ({"name": "a", "batch": "b", "outcome": "done"}, "task b.a is waiting, not running"),
        ({"name": "a"}, "task a is there already"),
    ],
)
async def test_what_cannot_be(tmp_path: Path, arguments: dict[str, object], words: str) -> None:
    """What can't be done to a task is said in a way that tells what can."""
    async with served(tmp_path) as proxy:
        specs = (TaskSpec("a"), TaskSpec("auto", command=("make",)), TaskSpec("b.a", after=("a",), batch="b"))
        proxy.apply(SubmitTasks(specs), "test")
        assert words in await complaint(LocalAccess(proxy), "hm.submit", **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch": "nightl", "action": "cancel"}, "did you mean nightly?"),
        ({"batch": "nightly", "action": "cancel", "tasks": [{"name": "a"}]}, "tasks: go with action submit"),
        ({"batch": "nightly", "action": "stop"}, "action: should be 'submit', 'cancel' or 'forget'"),
    ],
)
async def test_batches_that_cannot_be(tmp_path: Path, arguments: dict[str, object], words: str) -> None:
    """Likewise of batches."""
    async with served(tmp_path) as proxy:
        proxy.apply(SubmitTasks((TaskSpec("nightly.a", batch="nightly"),)), "test")
        assert words in await complaint(LocalAccess(proxy), "hm.batch", **arguments)


async def test_lists_as_text(tmp_path: Path) -> None:
    """Clients that send a list as the text of one are understood; rubbish in its place is an error like any other."""
    async with served(tmp_path) as proxy:
        tasks = '[{"name": "a"}, {"name": "b", "after": "[\\"a\\"]"}]'
        result = await call_tool(LocalAccess(proxy), Caller(), "hm.batch", {"batch": "x", "tasks": tasks})
        assert not result.is_error
        assert proxy.processes.tasks("x")[1].spec.after == ("x.a",)
        assert "tasks: " in await complaint(LocalAccess(proxy), "hm.batch", batch="y", tasks="[" * 100_000)
