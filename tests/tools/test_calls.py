from __future__ import annotations

import functools
import json
import logging
from typing import Any

import pytest
from tools.kit import FakeProxy, call, complaint
from tools.test_headroom import agent, window, world
from world.kit import budget, state

from hivemind.api_types import TaskState
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.operator import knobs
from hivemind.scheduler.types import Priority, TaskSpec, WindowKind
from hivemind.tools.access import Caller, Unavailable
from hivemind.tools.server import call_tool, handshake
from hivemind.tools.stdio import HANDSHAKE
from hivemind.tools.tool import MOST_ROWS
from hivemind.world.snapshot import LaneView

ANN, BOB = agent("ann", budget=budget("ann", used_tokens=4_000)), agent("bob")
KNOBS = {"aimd.beta": 0.5, "rpm": 0.0}


def proxy(**about: Any) -> FakeProxy:
    """Ann has a budget, Bob hasn't; there is one lane."""
    return FakeProxy(world(state(4.0, knobs=KNOBS), agents=(ANN, BOB), pool=budget(None, tokens=9_000)), **about)


async def test_no_answer_repeats_a_key() -> None:
    """An agent whose name looks like one has no budget, which is said without it."""
    key = "ghp_THISISSECRET0123456789abcdefghijklmn"
    answer = await call(proxy(), "hm.budget", agent=key)
    assert "THISISSECRET" not in repr(answer)


@pytest.mark.parametrize(
    ("tool", "arguments", "command"),
    [
        ("priority", {"agent": "ann", "priority": "low"}, cmd.SetPriority("ann", Priority.LOW)),
        ("priority", {"task": "b.a", "priority": "critical"}, cmd.SetTaskPriority("b.a", Priority.CRITICAL)),
        ("budget", {"agent": "ann", "tokens": 5}, cmd.SetBudget("ann", 5, None, None, None)),
        ("budget", {"agent": "ann", "remove": True}, cmd.SetBudget("ann", None, None, None, None)),
        (
            "budget",
            {"tokens": 5, "dollars": 1.5, "per": "day", "covers": "subtree"},
            cmd.SetBudget("me", 5, 1.5, "day", "subtree"),
        ),
        ("budget", {"pool": True, "dollars": 2}, cmd.SetBudget(None, None, 2.0, None, None)),
        ("config", {"knob": "aimd.beta", "value": 0.7}, cmd.Tune("aimd.beta", 0.7, None)),
        ("config", {"knob": "rpm", "value": 0, "upstream": "up"}, cmd.Tune("rpm", 0.0, "up")),
        ("config", {"pause": True}, cmd.PauseAdmissions(True)),
        ("config", {"pause": False}, cmd.PauseAdmissions(False)),
        ("config", {"circuit": "probe", "lane": "up:1"}, cmd.SetCircuit("probe", "up:1")),
    ],
)
async def test_the_same_commands(tool: str, arguments: dict[str, Any], command: object) -> None:
    """What a tool orders is the command that a key or the control API would give, signed."""
    here = proxy()
    answer = await call(here, f"hm.{tool}", Caller("me"), **arguments)
    assert here.orders == [(command, "mcp:me")]
    assert answer["said"].endswith(".")


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("priority", {"priority": "low"}, "give either agent or task"),
        ("priority", {"priority": "low", "agent": "a", "task": "b"}, "give either agent or task"),
        ("priority", {"agent": "a"}, "priority: is missing"),
        ("budget", {"tokens": 5}, "agent: is missing"),
        ("budget", {"pool": True, "agent": "a"}, "either agent or pool"),
        ("budget", {"agent": "a", "remove": True, "tokens": 5}, "leave out tokens and dollars"),
        ("budget", {"agent": "a", "per": "day"}, "give tokens or dollars"),
        ("budget", {"pool": True, "tokens": 5, "covers": "subtree"}, "the pool covers all"),
        ("budget", {"agent": "a", "tokens": 0}, "tokens: should be greater than or equal to 1"),
        ("budget", {"agent": "a", "dollars": "nan"}, "dollars: should be a finite number"),
        ("config", {"knob": "aimd.bet", "value": 1}, "did you mean aimd.beta?"),
        ("config", {"knob": "rpm"}, "value: is missing; rpm takes 1 to 1e+06, or 0 for no limit"),
        ("config", {"value": 1}, "name of a knob"),
        ("config", {"knob": "rpm", "value": 1, "pause": True}, "one thing per call: knob or pause"),
        ("config", {"lane": "up:1"}, "lane: goes with circuit"),
        ("status", {"upstream": "upp"}, "did you mean up?"),
        ("status", {"limit": 0}, "limit: should be greater than or equal to 1"),
        ("status", {"agnt": "x"}, "agnt: no such argument; did you mean agent?"),
        ("metrics", {"agent": "an"}, "did you mean ann?"),
        ("metrics", {"xyz": 1}, "there is agent, order, limit"),
        ("setup", {"client": "claud-code"}, "did you mean claude-code?"),
        ("setup", {"client": "codex", "agent": ".."}, "name can't be .."),
        ("setup", {"client": "codex", "agent": "sk-ant-sekrit-sekrit"}, "looks like a key"),
    ],
)
async def test_errors(tool: str, arguments: dict[str, Any], words: str) -> None:
    """What is wrong is one line that says what would be right; nothing was ordered, and no secret is repeated."""
    here = proxy()
    told = await complaint(here, f"hm.{tool}", **arguments)
    assert words in told
    assert "sekrit" not in told
    assert here.orders == []


@pytest.mark.parametrize("name", ["hm.statu", "status", "hm-status", "", "HM.STATUS", "hm.", "x" * 10_000])
async def test_no_such_tool(name: str) -> None:
    """A name that isn't one is told with those that are."""
    told = await complaint(proxy(), name)
    assert "no tool named" in told
    assert len(told) < 300


async def test_refused_and_unreachable() -> None:
    """The proxy's refusal, and why it can't be had, are the text of the error, without credentials."""
    for error in (cmd.Rejected("no agent named 'ann'"), Unavailable("nothing listens there")):
        assert await complaint(proxy(error=error), "hm.priority", agent="ann", priority="low") == str(error)
    leak = Unavailable("authorization: Bearer sekrit")
    assert "sekrit" not in await complaint(proxy(error=leak), "hm.status")


async def test_a_fault_of_our_own(caplog: pytest.LogCaptureFixture) -> None:
    """A tool that breaks says so without its insides, which go to the log."""
    with caplog.at_level(logging.ERROR):
        told = await complaint(proxy(error=KeyError("insides")), "hm.status")
    assert "insides" not in told
    assert "insides" in caplog.text


async def test_budgets_are_told() -> None:
    """Those that hold for whoever asks, or for the agent that is named; the pool's; or all there are."""
    here = proxy()

    async def owners(caller: Caller | None = None, **arguments: Any) -> list[str]:
        rows = (await call(here, "hm.budget", caller, **arguments))["budgets"]
        return [row.get("owner", "pool") for row in rows]

    assert await owners(Caller("ann")) == ["ann", "pool"]
    assert await owners(Caller("ann"), agent="bob") == ["pool"]
    assert await owners(pool=True) == ["pool"]
    assert await owners() == ["pool", "ann"]
    (row, _) = (await call(here, "hm.budget", agent="ann"))["budgets"]
    assert (row["tokens_left"], row["share"]) == (1_000, 0.8)
    assert "4,000 of 5,000 tokens" in (await call(here, "hm.budget", agent="ann"))["said"]
    nobody = FakeProxy(world(agents=(BOB,)))
    assert (await call(nobody, "hm.budget"))["said"] == "There is no budget."


async def test_knobs_are_told() -> None:
    """Every knob with its range, and the value it was just turned to."""
    rows = {row["knob"]: row for row in (await call(proxy(), "hm.config"))["knobs"]}
    assert list(rows) == list(knobs.KNOBS)
    assert rows["aimd.beta"] == {
        "knob": "aimd.beta",
        "values": {"up": 0.5},
        "lowest": 0.05,
        "highest": 0.99,
        "whole": False,
        "zero_is_none": False,
    }
    turned = (await call(proxy(), "hm.config", knob="aimd.beta", value=0.9))["knobs"]
    assert next(row for row in turned if row["knob"] == "aimd.beta")["values"] == {"up": 0.9}


async def test_metrics_in_order() -> None:
    """Agents with the most of what was asked come first."""
    views = (replace(BOB, name="much", retries=1, waited_s=5.0), replace(BOB, name="often", retries=9, waited_s=1.0))
    here = FakeProxy(world(agents=views))
    for order, first in (("retries", "often"), ("waited", "much")):
        answer = await call(here, "hm.metrics", order=order, limit=1)
        assert [row["agent"] for row in answer["agents"]] == [first]
        assert answer["agents_left_out"] == 1


async def test_tasks_are_filtered() -> None:
    """By batch, agent and state; counts are of what fits, and of the ready the next one is first."""
    specs = [("b.x", "ready", "b", "ann"), ("b.y", "running", "b", "bob"), ("c.z", "ready", "c", "ann")]
    tasks = tuple(
        TaskState(TaskSpec(name, batch=batch, agent=who), state, Priority(n), 0, "", "")
        for n, (name, state, batch, who) in reversed(list(enumerate(specs)))
    )
    here = proxy(tasks_now=tasks)

    async def names(**arguments: Any) -> list[str]:
        return [row["task"] for row in (await call(here, "hm.status", **arguments)).get("tasks", [])]

    assert (await names(), await names(limit=20)) == ([], ["b.y", "b.x", "c.z"])
    assert await names(batch="b") == ["b.y", "b.x"]
    assert await names(task_agent="ann", task_state="ready") == ["b.x", "c.z"]
    answer = await call(here, "hm.status", task_agent="ann", limit=1)
    assert (answer["tasks_left_out"], answer["tasks_by_state"]) == (1, {"ready": 2})


@functools.cache
def _crowded() -> FakeProxy:
    """A thousand agents, tasks and budgets, and two hundred lanes."""
    many = tuple(agent(f"agent-{n:04}-" + "x" * 60, f"agent-{n - 1:04}", budget=budget(f"{n}")) for n in range(1_000))
    windows = tuple(window(kind, 5.0) for kind in WindowKind for _ in range(10))
    lanes = tuple(LaneView(state(4.0, lane=f"up:{n}", windows=windows, knobs=KNOBS), ()) for n in range(200))
    after = tuple(f"task-{n}" for n in range(200))
    tasks = tuple(
        TaskState(TaskSpec(f"task-{n}-" + "y" * 60, after=after), "waiting", Priority.LOW, 0, "", "z" * 500)
        for n in range(1_000)
    )
    return FakeProxy(replace(world(agents=many), lanes=lanes), tasks_now=tasks)


@pytest.mark.parametrize(
    ("tool", "limit"),
    [("status", None), *((tool, MOST_ROWS) for tool in ("status", "metrics", "budget")), ("config", None)],
)
async def test_answers_stay_small(tool: str, limit: int | None) -> None:
    """With a thousand of everything an answer still fits into what clients let through, 25,000 tokens, and what is left
    out is counted."""
    here = _crowded()
    arguments = {"limit": limit} if limit and tool in ("status", "metrics", "budget") else {}
    result = await call_tool(here, Caller(), f"hm.{tool}", arguments)
    (content,) = result.content
    assert content.type == "text"
    assert json.loads(content.text) == result.structured_content
    assert len(content.text) < 60_000
    answer = result.structured_content or {}
    if tool == "status":
        shown = limit or 1_000
        assert (answer["agents_left_out"], answer["tasks_left_out"]) == (1_000 - shown, 1_000 - shown)
        assert answer["agents_by_state"] == {"queued": 1_000}
        assert answer["tasks_by_state"] == {"waiting": 1_000}


def about_tokens(text: str) -> float:
    """How many tokens a model takes a text for, rather too many: JSON of ours has 3.4 characters a token and more."""
    return len(text) / 3


async def test_a_summary_is_short() -> None:
    """Of fifty agents that work, with budgets, on several lanes: agents ask often, and pay for each answer."""
    some = tuple(
        agent(f"claude-code-{n:04}", f"claude-code-{n // 4:04}", in_flight=1, budget=budget(f"claude-code-{n:04}"))
        for n in range(50)
    )
    windows = tuple(window(kind, 5.0) for kind in WindowKind)
    lanes = tuple(LaneView(state(4.0, lane=f"anthropic:{n:08}", windows=windows), ()) for n in range(5))
    tasks = tuple(TaskState(TaskSpec(f"nightly.{n}"), "ready", Priority.LOW, 0, "", "") for n in range(200))
    here = FakeProxy(replace(world(agents=some), lanes=lanes), tasks_now=tasks)
    result = await call_tool(here, Caller("claude-code-0000"), "hm.status", {})
    (content,) = result.content
    assert content.type == "text"
    assert about_tokens(content.text) <= 600, content.text
    answer = result.structured_content or {}
    assert (sum(answer["agents_by_state"].values()), answer["lanes_left_out"]) == (50, 2)
    assert (answer["you"]["agent"], answer["tasks_by_state"]) == ("claude-code-0000", {"ready": 200})


def test_the_list_is_short() -> None:
    """Every conversation begins with it. What is answered without the SDK is what the SDK would answer."""
    known = json.loads(HANDSHAKE.read_bytes())
    assert known == handshake(), "run python -m hivemind.tools.server"
    assert about_tokens(json.dumps(known["tools"], separators=(",", ":"))) <= 2_000
