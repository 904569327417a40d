"""What is kept of agents that are stopped, by the proxy on a socket."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from proxy.kit import Hang, Play, Running, between, client
from proxy.wire import ANSWER, HELLO, MESSAGE_START, PLAIN_BODY, SSE, STREAM_BODY, chunk, head

from hivemind.api_types import PlaceRelease, PlaceRequest
from hivemind.scheduler.commands import Drain, SetBudget, StopAgent, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind.store.checkpoints import ClientSession, Found, conversation, latest, listed

KEY = "sk-ant-api03-THISISSECRET0123456789"
BEGUN = head(SSE) + chunk(MESSAGE_START + HELLO)


async def ask(proxy: Running, agent: str, body: bytes = PLAIN_BODY, query: str = "", **headers: str) -> int:
    """A request of that agent's: the status of its answer."""
    async with client() as web:
        own = {"x-hivemind-agent": agent, **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = await web.post(f"{proxy.url}/v1/messages{query}", content=body, headers=own)
        return answer.status_code


async def kept(proxy: Running, folder: Path, agent: str) -> Found:
    """The newest checkpoint of an agent, once nothing more is to be written of it."""
    assert proxy.proxy._checkpointer is not None
    assert await proxy.proxy._checkpointer.written(agent)
    found, wrong = listed(folder)
    assert wrong == []
    newest = latest(found, agent)
    assert newest is not None
    return newest


def said(found: Found) -> Any:
    """The conversation."""
    return json.loads(conversation(found) or b"null")


def files(folder: Path) -> list[Path]:
    """All there are, wherever in it."""
    return [each for each in folder.rglob("*") if each.is_file()]


def body(text: str) -> bytes:
    """A request with this in it."""
    return PLAIN_BODY.replace(b'"hi"', json.dumps(text).encode())


async def test_by_the_operator(tmp_path: Path) -> None:
    """An agent that is stopped leaves what it said last, what it used and why it was stopped, readable by its owner
    alone."""
    folder = tmp_path / "state" / "checkpoints"
    async with between([ANSWER], keep_in=folder) as (proxy, _):
        await ask(proxy, "alice", body("first"))
        await ask(proxy, "alice", body("second"), user_agent="claude-cli/2.0.0 (external, cli)")
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        found = await kept(proxy, folder, "alice")
    checkpoint = found.checkpoint
    assert said(found)["messages"][0]["content"] == "second"
    assert (checkpoint.agent, checkpoint.reason, checkpoint.why) == ("alice", "operator", "stopped by ann")
    assert (checkpoint.run.tokens, checkpoint.ever.tokens) == (14, 14)
    assert checkpoint.request is not None
    assert (checkpoint.request.path, checkpoint.request.model) == ("/v1/messages", "m")
    assert (checkpoint.request.dialect, checkpoint.request.client) == ("anthropic", "claude-code")
    assert stat.S_IMODE(found.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [each.name for each in folder.iterdir()] == [found.path.name]


async def test_stopped_in_the_middle(tmp_path: Path) -> None:
    """What is cut off counts in what is kept, as far as it had come."""
    async with between([BEGUN, Hang()], keep_in=tmp_path) as (proxy, _):
        asking = asyncio.create_task(ask(proxy, "alice", STREAM_BODY))
        await proxy.until(lambda world: any(slot.state == "streaming" for slot in world.slots))
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        await asyncio.wait((asking,))
        asking.exception()
        await proxy.until(lambda world: not world.slots)
        assert (await kept(proxy, tmp_path, "alice")).checkpoint.run.tokens >= 11


async def test_by_a_budget(tmp_path: Path) -> None:
    """An agent whose budget is used up is kept, and once it has asked in vain, what it asked last; its budget is told.
    Let go and stopped again, it is kept anew."""
    async with between([ANSWER], keep_in=tmp_path, budget={"tokens": 7}) as (proxy, _):
        assert await ask(proxy, "alice", body("first")) == 200
        first = await kept(proxy, tmp_path, "alice")
        assert said(first)["messages"][0]["content"] == "first"
        assert await ask(proxy, "alice", body("longer")) == 400
        second = await kept(proxy, tmp_path, "alice")
        assert (second.path, said(second)["messages"][0]["content"]) == (first.path, "longer")
        assert second.checkpoint.reason == "budget"
        assert second.checkpoint.why == "alice's budget is used up (7 of 7 tokens used this run)"
        (budget,) = second.checkpoint.budgets
        assert (budget.tokens, budget.used_tokens, budget.covers) == (7, 7, "agent")
        proxy.proxy.apply(SetBudget("alice", 14), "ann")
        assert await ask(proxy, "alice", body("on")) == 200
        third = await kept(proxy, tmp_path, "alice")
        assert (third.path != first.path, third.checkpoint.run.tokens) == (True, 14)


async def test_the_same_again(tmp_path: Path) -> None:
    """A client that asks the same again and again, although it is refused, has nothing written; another body has."""
    async with between([ANSWER], keep_in=tmp_path, budget={"tokens": 7}) as (proxy, _):
        await ask(proxy, "alice", body("hello 1"))
        await ask(proxy, "alice", body("hello 2"))
        first = (await kept(proxy, tmp_path, "alice")).path.stat().st_mtime_ns
        for _ in range(5):
            assert await ask(proxy, "alice", body("hello 2")) == 400
        assert (await kept(proxy, tmp_path, "alice")).path.stat().st_mtime_ns == first
        await ask(proxy, "alice", body("hello 3"))
        assert said(await kept(proxy, tmp_path, "alice"))["messages"][0]["content"] == "hello 3"


async def test_stopped_for_another_reason(tmp_path: Path) -> None:
    """Let go after its budget was used up, and stopped by the operator before it asked again: both are kept."""
    async with between([ANSWER], keep_in=tmp_path, budget={"tokens": 7}) as (proxy, _):
        await ask(proxy, "alice")
        await kept(proxy, tmp_path, "alice")
        proxy.proxy.apply(SetBudget("alice", 100), "ann")
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        await kept(proxy, tmp_path, "alice")
    assert [each.checkpoint.reason for each in listed(tmp_path)[0]] == ["operator", "budget"]


async def test_all_that_a_pool_cuts_off(tmp_path: Path) -> None:
    """When the pool is used up, every agent that has asked for something is kept, each with its own conversation, and
    who asks for the first time only then is kept too."""
    async with between([ANSWER], keep_in=tmp_path, budget={"pool_tokens": 20}) as (proxy, _):
        for agent in ("alice", "bob", "alice"):
            assert await ask(proxy, agent, body(f"of {agent}")) == 200
        for agent in ("alice", "bob"):
            found = await kept(proxy, tmp_path, agent)
            assert said(found)["messages"][0]["content"] == f"of {agent}"
            assert found.checkpoint.why == "the budget of all agents is used up (21 of 20 tokens used this run)"
        assert await ask(proxy, "carol", body("late")) == 400
        assert said(await kept(proxy, tmp_path, "carol"))["messages"][0]["content"] == "late"
        assert len(listed(tmp_path)[0]) == 3


async def test_a_pool_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many agents a pool cuts off, the folder is searched for what is too old once they are written."""
    pruned: list[set[str]] = []
    monkeypatch.setattr("hivemind.store.checkpoints.prune", lambda folder, newest, keep: pruned.append(set(newest)))
    async with between([ANSWER], keep_in=tmp_path, rpm=100_000) as (proxy, _):
        agents = [f"a{number}" for number in range(12)]
        for agent in agents:
            assert await ask(proxy, agent) == 200
        proxy.proxy.apply(SetBudget(None, 1, per="ever"), "ann")
        names = {(await kept(proxy, tmp_path, agent)).checkpoint.name for agent in agents}
    assert pruned == [names]


async def test_a_subtree(tmp_path: Path) -> None:
    """A budget that covers a parent and its sub-agents stops and keeps all of them, and nobody else."""
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        proxy.proxy.processes.place(PlaceRequest("parent"), "runner")
        proxy.proxy.processes.place(PlaceRequest("child", parent="parent"), "runner")
        proxy.proxy.apply(SetBudget("parent", 14, covers="subtree"), "ann")
        for agent in ("stranger", "parent", "child"):
            assert await ask(proxy, agent, body(f"of {agent}")) == 200
        assert said(await kept(proxy, tmp_path, "parent"))["messages"][0]["content"] == "of parent"
        child = await kept(proxy, tmp_path, "child")
        assert (said(child)["messages"][0]["content"], child.checkpoint.parent) == ("of child", "parent")
        assert {each.checkpoint.agent for each in listed(tmp_path)[0]} == {"parent", "child"}


async def test_by_a_crash(tmp_path: Path) -> None:
    """A process that ends badly is kept with its command, its folder and its place among the tasks, and whoever reports
    the end is told the name."""
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        specs = (TaskSpec("t.first", agent="alice"), TaskSpec("t.then", after=("t.first",)))
        proxy.proxy.apply(SubmitTasks(specs), "ann")
        wanted = PlaceRequest("alice", task="t.first", command=("sh", "-c", "exit 3"), cwd="/tmp")
        proxy.proxy.processes.place(wanted, "runner")
        await ask(proxy, "alice")
        used = await proxy.proxy.leave(PlaceRelease("alice", 3), "runner")
        found = await kept(proxy, tmp_path, "alice")
    checkpoint = found.checkpoint
    assert (used.checkpoint, used.tokens) == (checkpoint.name, 7)
    assert (checkpoint.reason, checkpoint.exit_code) == ("crash", 3)
    assert checkpoint.why == "its process ended: exit code 3"
    assert (checkpoint.command, checkpoint.cwd, checkpoint.task) == (("sh", "-c", "exit 3"), "/tmp", "t.first")
    (task,) = checkpoint.tasks
    assert (task.id, task.state, task.waited_for_by) == ("t.first", "running", ("t.then",))
    assert said(found)["model"] == "m"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (-9, "its process ended: killed by SIGKILL"),
        (-250, "its process ended: killed by signal 250"),
        (127, "its process ended: exit code 127"),
    ],
)
async def test_how_a_process_ended(tmp_path: Path, code: int, why: str) -> None:
    """A crash is told in words, and kept where the agent had asked for something."""
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        proxy.proxy.processes.place(PlaceRequest("idle", command=("false",)), "runner")
        assert (await proxy.proxy.leave(PlaceRelease("idle", code), "runner")).checkpoint is None
        proxy.proxy.processes.place(PlaceRequest("alice", command=("false",)), "runner")
        await ask(proxy, "alice", x_claude_code_session_id="s-1")
        assert (await proxy.proxy.leave(PlaceRelease("alice", code), "runner")).checkpoint
        found = await kept(proxy, tmp_path, "alice")
    assert (found.checkpoint.why, found.checkpoint.left_out) == (why, "")
    assert found.checkpoint.session == ClientSession("claude-code", "s-1")
    assert [each.checkpoint.agent for each in listed(tmp_path)[0]] == ["alice"]


async def test_a_runner_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tells how the process of a runner that fell silent ended; it is kept as one that crashed."""
    monkeypatch.setattr("hivemind.scheduler.places.LEASE_S", -1.0)
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        proxy.proxy.processes.place(PlaceRequest("alice", command=("sleep", "9")), "runner")
        await ask(proxy, "alice")
        proxy.proxy.processes.lapse()
        found = await kept(proxy, tmp_path, "alice")
    assert (found.checkpoint.reason, found.checkpoint.exit_code) == ("crash", None)
    assert found.checkpoint.why == "its runner is gone, so the end of its process is unknown"


async def test_what_is_not_kept(tmp_path: Path) -> None:
    """Good ends, commands that never ran, agents that asked for nothing, and a drain leave nothing behind."""
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        for agent, code in (("good", 0), ("missing", None)):
            proxy.proxy.processes.place(PlaceRequest(agent, command=("true",)), "runner")
            assert (await proxy.proxy.leave(PlaceRelease(agent, code), "runner")).checkpoint is None
        proxy.proxy.apply(SetBudget("silent", 5), "ann")
        proxy.proxy.apply(StopAgent("silent", True), "ann")
        await ask(proxy, "alice")
        proxy.proxy.apply(Drain(True), "ann")
        assert await ask(proxy, "alice") == 503
    assert listed(tmp_path) == ([], [])


async def test_a_stop_and_the_end_that_follows_are_one(tmp_path: Path) -> None:
    """A program that gives up because its budget is used up leaves one checkpoint, which tells both."""
    async with between([ANSWER], keep_in=tmp_path, budget={"tokens": 5}) as (proxy, _):
        proxy.proxy.processes.place(PlaceRequest("alice", command=("agent",)), "runner")
        await ask(proxy, "alice")
        used = await proxy.proxy.leave(PlaceRelease("alice", 1), "runner")
        (found,), _ = listed(tmp_path)
    assert (found.checkpoint.reason, found.checkpoint.exit_code) == ("budget", 1)
    assert (used.checkpoint, found.checkpoint.command) == (found.checkpoint.name, ("agent",))


async def test_a_new_run_has_its_own_conversation(tmp_path: Path) -> None:
    """What an agent said in an earlier run isn't kept as that of a later one, unless that goes on where it was."""
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        for resumed in (True, False):
            await ask(proxy, "alice")
            proxy.proxy.processes.place(PlaceRequest("alice", command=("x",), resumed=resumed), "runner")
            proxy.proxy.apply(StopAgent("alice", True), "ann")
            await proxy.proxy.leave(PlaceRelease("alice", 1), "runner")
            found = await kept(proxy, tmp_path, "alice")
            assert (conversation(found) is not None) is resumed
            assert (found.checkpoint.left_out == "it sent no request") is not resumed
            proxy.proxy.apply(StopAgent("alice", False), "ann")


async def test_many_at_once(tmp_path: Path) -> None:
    """Twenty agents that are stopped in the same moment are all kept, each with its own conversation."""
    names = [f"agent-{number}" for number in range(20)]
    async with between([ANSWER], keep_in=tmp_path, max_agents=0) as (proxy, _):
        await asyncio.gather(*(ask(proxy, name, body(f"of {name}")) for name in names))
        for name in names:
            proxy.proxy.apply(StopAgent(name, True), "ann")
        for name in names:
            assert said(await kept(proxy, tmp_path, name))["messages"][0]["content"] == f"of {name}"
    assert len(listed(tmp_path)[0]) == 20


async def test_a_race_for_what_is_left(tmp_path: Path) -> None:
    """Fifty requests at once on an almost empty budget leave one checkpoint, which tells all that was used."""
    async with between([ANSWER], keep_in=tmp_path, budget={"tokens": 30}) as (proxy, _):
        statuses = await asyncio.gather(*(ask(proxy, "alice", body(f"number {n}")) for n in range(50)))
        await kept(proxy, tmp_path, "alice")
        (found,), _ = listed(tmp_path)
    assert (set(statuses), found.checkpoint.run.tokens) == ({200, 400}, 7 * statuses.count(200))


@pytest.mark.parametrize("name", ["a/b/../../etc/passwd", "...", "Ünïcøde 名前", "x" * 80, 'a b\\c:d*?"<>|', ".hidden"])
async def test_names(tmp_path: Path, name: str) -> None:
    """Whatever an agent is called, its file is in the folder, and found by the agent's name."""
    folder = tmp_path / "deep" / "checkpoints"
    async with between([ANSWER], keep_in=folder) as (proxy, _):
        async with client() as web:
            own = {b"x-hivemind-agent": name.encode()}
            await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY, headers=own)
        proxy.proxy.apply(StopAgent(name, True), "ann")
        found = await kept(proxy, folder, name)
    assert (found.path.parent, found.path.name.isascii()) == (folder, True)
    assert files(tmp_path) == [found.path]


@pytest.mark.slow
async def test_a_very_large_one(tmp_path: Path) -> None:
    """Twelve megabytes are kept where the settings allow it, as they were sent."""
    large = body("x" * (12 << 20))
    async with between([ANSWER], keep_in=tmp_path, checkpoint={"max_mb": 16}) as (proxy, _):
        await ask(proxy, "alice", large)
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        found = await kept(proxy, tmp_path, "alice")
    assert conversation(found) == large


async def test_one_that_is_too_large(tmp_path: Path) -> None:
    """Beyond the bound the conversation is left out, and that is said; all else is kept. Packed ones count unpacked."""
    large = body("x" * (2 << 20))
    async with between([ANSWER], keep_in=tmp_path, checkpoint={"max_mb": 1}) as (proxy, _):
        await ask(proxy, "plain", large)
        await ask(proxy, "packed", gzip.compress(large), content_encoding="gzip")
        for agent, why in (
            ("plain", "it is 2.0 MiB, more than checkpoint.max_mb (1) allows"),
            ("packed", "it can't be unpacked, or is larger than checkpoint.max_mb (1) allows"),
        ):
            proxy.proxy.apply(StopAgent(agent, True), "ann")
            found = await kept(proxy, tmp_path, agent)
            assert (conversation(found), found.checkpoint.left_out) == (None, why)
            assert found.checkpoint.run.tokens == 7
            assert found.size < 4096


async def test_packed(tmp_path: Path) -> None:
    """A conversation that was sent packed is kept plain."""
    async with between([ANSWER], keep_in=tmp_path) as (proxy, _):
        await ask(proxy, "alice", gzip.compress(PLAIN_BODY), content_encoding="gzip")
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        assert conversation(await kept(proxy, tmp_path, "alice")) == PLAIN_BODY


LENT = json.dumps(
    {
        "model": "m",
        "mcp_servers": [{"url": "https://x", "authorization_token": "lent-to-anthropic"}],
        "tools": [{"authorization": "lent-to-openai", "headers": {"Authorization": "Bearer lent-in-a-header"}}],
        "messages": [{"role": "user", "content": f'my key is {KEY}, "authorization": "talked about"'}],
    }
).encode()


async def test_no_credential(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What the request came with, in headers, query or path, isn't in the file, nor is a credential that it lends."""
    caplog.set_level(logging.DEBUG)
    token = "hm-token-ALSOSECRET"
    async with between([ANSWER], keep_in=tmp_path, token=token) as (proxy, _), client() as web:
        url = f"{proxy.url}/agent/alice/token/{token}/v1/messages?beta=true&key={KEY}&access_token=alsonottold"
        await web.post(url, content=LENT, headers={"authorization": f"Bearer {KEY}x", "cookie": "session=" + "c" * 20})
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        found = await kept(proxy, tmp_path, "alice")
    text = found.path.read_text()
    for secret in (KEY, token, "alsonottold", "c" * 20, "lent-to", "lent-in"):
        assert secret not in text
        assert secret not in caplog.text.replace(str(url), "")
    assert found.checkpoint.request is not None
    assert found.checkpoint.request.path == "/v1/messages?beta=true"
    assert found.checkpoint.masked == 4
    assert said(found)["messages"][0]["content"] == 'my key is ***, "authorization": "talked about"'
    assert said(found)["mcp_servers"] == [{"url": "https://x", "authorization_token": "***"}]


async def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Traffic goes on, one line says so, and once it is mended the next one is kept."""
    folder = tmp_path / "state" / "checkpoints"
    folder.parent.write_text("in the way")
    async with between([ANSWER], keep_in=folder) as (proxy, _):
        assert proxy.proxy._checkpointer is not None
        for agent in ("alice", "bob"):
            await ask(proxy, agent)
            proxy.proxy.apply(StopAgent(agent, True), "ann")
            assert await proxy.proxy._checkpointer.written(agent) is None
        assert await ask(proxy, "carol") == 200
        lines = [each.getMessage() for each in caplog.records if each.name == "hivemind.host.checkpointing"]
        assert len(lines) == 1
        assert f"{folder}: Not a directory" in lines[0]
        folder.parent.unlink()
        proxy.proxy.apply(StopAgent("carol", True), "ann")
        assert (await kept(proxy, folder, "carol")).checkpoint.agent == "carol"


async def test_switched_off(tmp_path: Path) -> None:
    """Nothing is kept then."""
    async with between([ANSWER], keep_in=tmp_path, checkpoint={"enabled": False}) as (proxy, _):
        await ask(proxy, "alice")
        proxy.proxy.apply(StopAgent("alice", True), "ann")
        proxy.proxy.processes.place(PlaceRequest("bob", command=("false",)), "runner")
        assert (await proxy.proxy.leave(PlaceRelease("bob", 1), "runner")).checkpoint is None
    assert files(tmp_path) == []


async def test_the_end_of_the_proxy_waits_for_what_is_being_written(tmp_path: Path) -> None:
    """A proxy that ends right after an agent was stopped has kept it."""
    plays: list[Play] = [[ANSWER]]
    async with between(*plays, keep_in=tmp_path) as (proxy, _):
        await ask(proxy, "alice")
        proxy.proxy.apply(StopAgent("alice", True), "ann")
    assert [each.checkpoint.agent for each in listed(tmp_path)[0]] == ["alice"]
