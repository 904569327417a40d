"""`hivemind status`, `agents`, `tasks`: what is shown is what the proxy says, in tables that fit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from commands.kit import desk, run
from control.kit import RUN, TOKEN
from hypothesis import given
from hypothesis import strategies as st
from world.kit import arrived, finished, first_content, granted, refused, task_added, task_changed, told
from world.kit import arrived as came

from hivemind.api_types import SnapshotPart
from hivemind.cli.operator.agents import family
from hivemind.cli.operator.status import as_facts, shown
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.store.token_file import Note, note_path, write_note
from hivemind.world.snapshot import AgentView
from hivemind.world.world import World
from hivemind_mock.provider.serve import serving

Golden = Callable[[str, str], None]
TASKS = (
    TaskSpec("n.lint", Priority.LOW, 5000, batch="n", command=("make", "lint")),
    TaskSpec("n.a-task-with-quite-a-long-name", Priority.HIGH, 1_500_000, ("n.lint",), batch="n"),
    TaskSpec("other"),
)


async def test_status(tmp_path: Path, golden: Golden) -> None:
    """Mode, address, totals, the pool and every lane, on a screen of eighty columns."""
    async with desk(tmp_path) as at:
        at.proxy.proxy.apply(cmd.SetBudget(None, 2000), "test")
        at.proxy.proxy.apply(cmd.SubmitTasks(TASKS), "test")
        stood = await at.does("status")
        facts = json.loads(await at.does("status --json"))
        assert (facts["mode"], facts["address"], facts["totals"]["requests"]) == ("serving", at.proxy.url, 3)
        assert facts["lanes"][0]["ceiling"] == 4
        assert facts["pool"]["tokens"] == 2000
        stood = re.sub(
            r"up [\d.]+ m?s \(HiveMind [\d.]+\)", "up 5 s (HiveMind 1.2.3)", stood.replace(at.proxy.url, "http://here")
        )
    assert max(map(len, stood.splitlines())) <= 80
    # How fast this machine was is no part of it.
    stood = re.sub(r"(?m)^(?:rate|wait) .*", lambda line: re.sub(r" +[\d.]+(?: ms|/s| s|/min)", " N", line[0]), stood)
    golden("status", stood)


async def test_status_counts_what_waits_at_a_lane(tmp_path: Path) -> None:
    """Those between two attempts too, as the first row and the control room do; an agent's state has their word."""
    async with desk(tmp_path) as at:
        full = at.proxy.snapshot()
        lane, agent = full.lanes[0], full.agents[0]
    waits = replace(lane, state=replace(lane.state, waiting=1, retrying=3))
    agents = (replace(agent, state="waiting"), replace(agent, name="held", state="held"))
    text = shown(
        SnapshotPart("run", "1.2.3", True, (0,), 0, replace(full, lanes=(waits,), agents=agents, queued=4)), 80
    )
    assert text[-1].split()[4:6] == ["0", "4"]
    assert any(line.startswith("agents") and line.endswith("1 held, 1 sent") for line in text)


async def test_status_tells_what_goes_past_the_proxy(tmp_path: Path) -> None:
    """Each notice in a line of its own, and in the facts."""
    async with desk(tmp_path) as at:
        for _ in range(2):
            at.proxy.proxy.engine.notice("a WebSocket was declined")
        assert (await at.does("status")).splitlines().count("NOTICE a WebSocket was declined") == 1
        assert json.loads(await at.does("status --json"))["notices"] == ["a WebSocket was declined"]


async def test_status_begins_with_the_verdict(tmp_path: Path) -> None:
    """How it does, why and what ends that; below it what else was found, with what does something about it."""
    async with desk(tmp_path) as at:
        steer = at.proxy.proxy.apply
        steer(cmd.SetCircuit("open"), "test")
        steer(cmd.SetBudget("ann", 1), "test")
        first, second, third, *_ = (await at.does("status")).splitlines()
        lane = at.proxy.snapshot().lanes[0].state.lane
        assert json.loads(await at.does("status --json"))["verdict"]["state"] == "blocked"
    assert first == "BLOCKED circuit forced open, until you set it to automatic; also 1 used-up budget"
    assert second == f"  hivemind circuit auto {lane}"
    assert third == "  ann's budget is used up, until you raise it: hivemind budget ann AMOUNT"


async def test_agents(tmp_path: Path, golden: Golden) -> None:
    """A row each: state, priority, requests, tokens, budget, task and how its process ended; as a tree too."""
    async with desk(tmp_path) as at:
        steer = at.proxy.proxy.apply
        steer(cmd.SetBudget("ann", 1000), "test")
        steer(cmd.SetPriority("bob", Priority.CRITICAL), "test")
        for child in ("ann.helper", "ann.other"):
            steer(cmd.BeginAgent(child, parent="ann", task="lint"), "test")
        steer(cmd.BeginAgent("ann.helper.third", parent="ann.helper"), "test")
        steer(cmd.EndAgent("ann.helper", exit_code=-9), "test")
        golden("agents", await at.does("agents"))
        golden("agents_tree", await at.does("agents --tree"))
        golden("agents_narrow", await at.does("agents --tree", COLUMNS="40"))
        plain = await at.does("agents --tree", PYTHONIOENCODING="ascii")
        assert ("| ann.helper " in plain, "| ` ann.helper.third " in plain) == (True, True)
        told = {agent["name"]: agent for agent in json.loads(await at.does("agents --json"))}
        assert (told["bob"]["priority"], told["ann.helper"]["exit_code"]) == ("critical", -9)
        assert told["ann"]["budget"]["tokens"] == 1000


@pytest.mark.parametrize(
    ("flags", "names", "more"),
    [
        ("--state running", ["bob", "ann.other", "ann.helper.third"], 0),
        ("--state idle --state died", ["ann.helper", "ann"], 0),
        ("--state died,RUNNING", ["ann.helper", "bob", "ann.other", "ann.helper.third"], 0),
        ("--state stopped", ["bob"], 0),
        ("ann", ["ann"], 0),
        ("BOB Ann.H*", ["ann.helper", "bob", "ann.helper.third"], 0),
        ("ann.* --state died --tree", ["ann.helper"], 0),
        ("*.other [b]ob", ["bob", "ann.other"], 0),
        ("--limit 2", ["ann.helper", "ann"], 3),
        ("--limit 5", ["ann.helper", "ann", "bob", "ann.other", "ann.helper.third"], 0),
        ("--tree --limit 2", ["ann", "ann.helper"], 3),
        ("ann.* --limit 1", ["ann.helper"], 2),
        ("zoe*", [], 0),
    ],
)
async def test_some_agents(tmp_path: Path, flags: str, names: list[str], more: int) -> None:
    """By state, name and process, and the first ones alone: the same in the table and as JSON."""
    async with desk(tmp_path) as at:
        steer = at.proxy.proxy.apply
        for child in ("ann.helper", "ann.other"):
            steer(cmd.BeginAgent(child, parent="ann"), "test")
        steer(cmd.BeginAgent("ann.helper.third", parent="ann.helper"), "test")
        steer(cmd.EndAgent("ann.helper", exit_code=1), "test")
        steer(cmd.BeginAgent("bob"), "test")
        steer(cmd.StopAgent("bob", stopped=True), "test")
        table, told = await at.run(f"agents {flags}"), await at.run(f"agents {flags} --json")
    assert (table.code, told.code) == (0, 0)
    assert table.err == told.err == (f"hivemind: {more} more, which --limit leaves out\n" if more else "")
    assert sorted(agent["name"] for agent in json.loads(told.out)) == sorted(names)
    if names:
        assert [line.lstrip("├└│ ").split()[0] for line in table.out.splitlines()[1:]] == names
    else:
        assert table.out == "no agent matches\n"


async def test_tasks(tmp_path: Path, golden: Golden) -> None:
    """A row each, what it waits for, and why it stands where it does; one batch or all."""
    async with desk(tmp_path) as at:
        assert await at.does("tasks --batch n") == "no tasks in batch n\n"
        at.proxy.proxy.apply(cmd.SubmitTasks(TASKS), "test")
        golden("tasks", await at.does("tasks"))
        golden("tasks_narrow", await at.does("tasks", COLUMNS="40"))
        assert await at.does("tasks list") == await at.does("tasks")
        batch = json.loads(await at.does("tasks --batch n --json"))
        assert [(task["spec"]["id"], task["priority"]) for task in batch] == [(t.id, "high") for t in TASKS[:2]]


async def test_nobody_yet(tmp_path: Path) -> None:
    """A proxy that has seen nobody says so."""
    async with desk(tmp_path) as at:
        at.proxy.proxy.snapshot()
        at.proxy.proxy.engine.world._agents.clear()
        assert await at.does("agents") == "no agent was seen yet\n"
        assert await at.does("agents --json") == "[]\n"


async def test_a_pipe_gets_everything(tmp_path: Path) -> None:
    """Without a terminal and a width nothing is cut or left out, and nothing is coloured."""
    async with desk(tmp_path) as at:
        at.proxy.proxy.apply(cmd.SubmitTasks((TaskSpec("x" * 80, after=()), TaskSpec("y", after=("x" * 80,)))), "test")
        shown = await at.does("tasks", COLUMNS="")
        assert shown.count("x" * 80) == 2
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("status --attach ftp://x", 2, "the URL of a proxy must begin with http:// or https://"),
        ("status --token-file nothing", 2, "nothing: can't be read (No such file or directory)"),
        ("status --frob", 2, "--frob: no such flag; see --help"),
        ("status alice", 2, "an argument too many"),
        ("agents bobb", 2, "no agent named 'bobb'; did you mean bob?"),
        ("agents ann zoe --json", 2, "no agent named 'zoe'; known: ann, bob"),
        (
            "agents --state idle,sleeping",
            2,
            "--state sleeping: there is no such; there are hung, streaming, sent, background, retry,"
            " queued, held, pending, spent, stopped, died, refused, idle, ended, running",
        ),
        ("agents --state=", 2, "--state : there is no such; there are hung, streaming,"),
        ("agents --limit 0", 2, "--limit 0: must be a whole number from 1"),
        ("agents --limit many", 2, "--limit many: must be a whole number from 1"),
        ("status --attach http://127.0.0.1:9", 1, "no proxy at http://127.0.0.1:9: nothing listens there"),
        ("status --attach http://nowhere.invalid", 1, "no proxy at http://nowhere.invalid: "),
    ],
)
async def test_wrong(tmp_path: Path, line: str, code: int, text: str) -> None:
    """One line: bad input is 2, a proxy that can't be had is 1."""
    async with desk(tmp_path) as at:
        ended = await at.run(line)
        assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
        assert text in ended.err


async def test_who_else_answers(tmp_path: Path) -> None:
    """Something that isn't HiveMind, and a token that isn't this proxy's, are told apart."""

    async def strange(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    async with desk(tmp_path) as at, serving(strange) as url:
        assert (
            "can't prove that it knows the token from HIVEMIND_CONTROL_TOKEN"
            in (await at.run(f"status --attach {url}")).err
        )
        ended = await at.run("status", HIVEMIND_CONTROL_TOKEN="wrong-token")
        assert ended.code == 1
        assert "doesn't know the token from HIVEMIND_CONTROL_TOKEN" in ended.err
        assert "wrong-token" not in ended.err


def described(world: World, at: float) -> list[str]:
    """Its lines."""
    return shown(SnapshotPart("run", "1.0", True, (), 0, world.snapshot(at)), None)


def test_the_last_minute_and_what_is_foreseen() -> None:
    """Rate, errors, waits and times to first token, dollars, and the ETA of the tasks."""
    world = told(came(), granted(), first_content(), finished(), refused(None, at=6.0), price=lambda *_: 0.5)
    for event in (task_added("a"), task_added("b"), task_changed("running", task="a", at=0.0)):
        world.apply(event)
    for event in (task_changed("done", task="a", at=6.0), task_changed("running", task="b", at=6.0)):
        world.apply(event)
    text = [" ".join(line.split()) for line in described(world, 10.0)]
    assert any(" 190 tokens a minute, $30.00 an hour" in line for line in text if line.startswith("rate "))
    assert "errors 0 % of attempts in the last minute, 50 % of requests" in text
    assert any("p50, p95 1 s; first token 2 s, p95 2 s" in line for line in text if line.startswith("wait "))
    assert "tasks 2 1 running, 1 done; ETA 2 s" in text


def test_nothing_is_said_of_a_minute_without_requests() -> None:
    """No line, rather than zeros."""
    text = described(told(came(), granted(), finished()), 500.0)
    assert not [line for line in text if line.split(" ")[0] in ("rate", "errors", "wait")]


def test_the_figures_for_programs() -> None:
    """All vitals but the fine histograms, and the forecast."""
    world = told(came(), granted(), finished())
    facts = as_facts(SnapshotPart("run", "1.0", True, (), 0, world.snapshot(10.0)))
    vitals = facts["vitals"]
    assert isinstance(vitals, dict)
    assert vitals["requests_per_s"] == 0.1
    assert "recent_waits" not in vitals
    assert facts["forecast"] == world.snapshot(10.0).forecast


def noted(folder: Path, url: str, pid: int | None = None) -> None:
    """Write a proxy's note where commands look for it."""
    path = note_path(folder / "state", int(url.rpartition(":")[2]))
    write_note(path, Note(url, TOKEN, os.getpid() if pid is None else pid, RUN))


async def test_one_line(tmp_path: Path) -> None:
    """The state, in trouble its cause and its end, and what flows."""
    async with desk(tmp_path) as at:
        assert re.fullmatch(r"HEALTHY 0/\d+ in flight, 0 waiting(, \$[\d.]+/h)?\n", await at.does("status --line"))
        at.proxy.proxy.apply(cmd.PauseAdmissions(True), "test")
        assert (await at.does("status --line")).startswith("PAUSED nothing new is sent, until you resume; 0/")
        at.proxy.proxy.apply(cmd.PauseAdmissions(False), "test")
        at.proxy.proxy.apply(cmd.SetCircuit("open"), "test")
        text = await at.does("status --line")
        assert re.match(r"(DEGRADED|BLOCKED) .*circuit forced open", text)
        assert text.count("\n") == 1


async def test_the_only_proxy_is_found(tmp_path: Path) -> None:
    """By its note, whatever its port and whatever the command, unless something names another; of several all are
    listed."""
    async with desk(tmp_path) as at:
        noted(tmp_path, "http://127.0.0.1:1", pid=2**22 + 1)  # no process has that number
        assert (await run(tmp_path, "status", "--line")).code == 1
        noted(tmp_path, at.proxy.url)
        found = await run(tmp_path, "status", "--line")
        assert (found.code, found.err, found.out[:7]) == (0, "", "HEALTHY")
        for command in ("agents", "pause", "resume"):
            ended = await run(tmp_path, command)
            assert (ended.code, ended.err) == (0, ""), command
        assert (await run(tmp_path, "status", "--attach", "http://127.0.0.1:1")).code == 1
        assert (await run(tmp_path, "status", HIVEMIND_PORT="1")).code == 1
        noted(tmp_path, "http://127.0.0.1:2")
        assert (await run(tmp_path, "pause", HIVEMIND_PORT="1")).code == 1
        several = await run(tmp_path, "status")
        assert several.code == 2
        assert several.err.count("\n") == 1
        assert all(f"127.0.0.1:{port}" in several.err for port in (2, at.proxy.url.rpartition(":")[2]))


NAMES = [f"a{n}" for n in range(8)]


def agents(parents: Iterable[tuple[str, str | None]]) -> list[AgentView]:
    """Of these names, each with who started it."""
    asked = (replace(arrived(n, agent=name), parent=parent) for n, (name, parent) in enumerate(parents, start=1))
    fold = told(*asked)
    return list(fold.snapshot(100.0).agents)


def test_the_lines_of_the_tree() -> None:
    """Children stand under who started them; one whose parent nobody knows stands by itself."""
    found = agents([("boss", None), ("x", "boss"), ("y", "boss"), ("x1", "x"), ("y1", "y"), ("alone", "gone")])
    assert [before + agent.name for agent, before in family(found)] == [
        *("boss", "├ x", "│ └ x1", "└ y", "  └ y1", "alone"),
    ]


def test_a_long_chain() -> None:
    """It may be longer than Python's stack is deep."""
    found = agents((f"a{n}", f"a{n - 1}" if n else None) for n in range(1500))
    assert len(list(family(found))) == 1500


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*NAMES, None])))
def test_each_once(parents: dict[str, str | None]) -> None:
    """Rings and agents that claim to have started themselves included."""
    found = agents(parents.items())
    assert sorted(agent.name for agent, _ in family(found)) == sorted(agent.name for agent in found)
