"""The process of an agent that `hivemind run` started: what its tokens are good for, and that it can't raise itself."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from agents.batches import HIVEMIND, Kind, bench
from agents.running import TOKEN, before
from agents.test_run_usage import ASKS
from proxy.kit import client
from proxy.wire import PLAIN_BODY
from security import attempts
from security.kit import AGENTS, endpoints

from hivemind.api_types import PlaceRequest
from hivemind.host import senders
from hivemind.scheduler.commands import BeginAgent, SetBudget, StopAgent, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind.store.token_file import Note, note_path, write_note

_PRINTED = ("HIVEMIND_TOKEN", "ANTHROPIC_BASE_URL", "HIVEMIND_RUN_TOKEN")
PRINTS = (sys.executable, "-c", f"import os; print(*(os.environ[each] for each in {_PRINTED}), file=open('told', 'w'))")
needs_linux = pytest.mark.skipif(not senders.available(), reason="only Linux tells whose process sent a request")


async def test_its_token_is_its_own(tmp_path: Path) -> None:
    """Not that of all agents: with it the process is that agent, and no other, and steers nothing. Once the run has
    ended its other token, for the control API, opens nothing either."""
    async with before(tmp_path, token=AGENTS) as (running, place), client() as web:
        place.environ["HIVEMIND_TOKEN"] = AGENTS
        assert (await place.called("run", "--name", "ann", "--", *PRINTS)).code == 0
        told = (tmp_path / "told").read_text()
        token, base, runs = told.split()
        assert (token.startswith("run."), AGENTS in told, TOKEN in told) == (True, False, False)
        assert token in base
        shown = {"x-hivemind-token": token}
        for name, status in (("ann", 200), ("ann%2Fsub", 200), ("anne", 400), ("bob", 400)):
            answer = await web.post(f"{running.url}/agent/{name}/v1/messages", content=PLAIN_BODY, headers=shown)
            assert answer.status_code == status
        for method, path in endpoints():
            for each in (token, runs):
                for headers in ({"x-hivemind-token": each}, {"authorization": f"Bearer {each}"}):
                    assert (await web.request(method, running.url + path, headers=headers)).status_code == 401


@pytest.mark.e2e
@needs_linux
async def test_it_raises_itself_by_nothing(tmp_path: Path) -> None:
    """By no command, endpoint or tool, with no token that it finds and from no process that it starts; each attempt is
    refused, and told to the operator."""
    async with before(tmp_path) as (running, place), client() as web:
        proxy = running.proxy
        note = note_path(tmp_path / "state", running.port)
        write_note(note, Note(running.url, TOKEN, os.getpid(), "run-1"))
        await web.post(f"{running.url}/agent/bob/v1/messages", content=PLAIN_BODY)
        given = proxy.processes.place(PlaceRequest("mother", running=True, runner="m"), "runner")
        proxy.apply(SetBudget("mother", 1000, covers="subtree"))
        proxy.apply(SetBudget("bob", 100))
        for command in (BeginAgent("ann", "mother"), BeginAgent("child", "ann"), StopAgent("child", stopped=True)):
            proxy.apply(command)
        proxy.apply(SetBudget("child", 50))
        proxy.apply(SubmitTasks((TaskSpec("t", agent="bob", command=("true",)),)))
        program = (sys.executable, attempts.__file__)
        given_to = {"HIVEMIND_AGENT": "mother", "NOTE": str(note), "ANOTHERS": given.run_token}
        ran = await place.ran("--name", "ann", "--budget", "500", "--", *program, **given_to)
        assert ran.code == 0, ran.err
        made = json.loads(ran.out)
        let_in = [
            name
            for name, (status, text) in made.items()
            if status != 403 and not ("tool" in name and '"isError":true' in text.replace(" ", ""))
        ]
        assert let_in == []
        told = [line for line in proxy.snapshot().lines if line.tag == "denied"]
        assert len(told) >= len(made) >= 20
        assert {line.who for line in told} <= {"ann", "a run"}, (
            "the one that is gone is nobody's, if it was gone in time"
        )
        budgets = {each.agent: each.budget and each.budget.tokens for each in proxy.budgets(None).agents}
        assert budgets == {"mother": 1000, "bob": 100, "ann": 500, "child": 50}
        assert (proxy.budgets(None).pool.budget, proxy.snapshot().mode) == (None, "serving")


MAY = (
    "hivemind budget ann 400 --json && hivemind status && hivemind agents && hivemind tasks"
    " && hivemind run --name child --budget 50 -- hivemind budget child 40"
    " && hivemind budget child 45"
    " && hivemind tasks submit later --agent child && hivemind stop child"
)


@pytest.mark.slow
async def test_what_it_may(tmp_path: Path) -> None:
    """Look, limit itself and what it starts, which counts as started by it whatever it says, and submit tasks."""
    async with before(tmp_path) as (running, place):
        ran = await place.ran("--name", "ann", "--budget", "500", "--", "sh", "-ec", MAY)
        assert ran.code == 0, (ran.out, ran.err)
        agents = {each.name: each for each in running.snapshot().agents}
        assert (agents["child"].parent, agents["child"].stopped) == ("ann", True)
        budgets = {each.agent: each.budget and each.budget.tokens for each in running.proxy.budgets(None).agents}
        assert budgets == {"ann": 400, "child": 45}
        assert [(task.spec.id, task.spec.parent) for task in running.proxy.processes.tasks(None)] == [("later", "ann")]


@pytest.mark.e2e
async def test_it_may_take_the_name_of_an_ended_run(tmp_path: Path) -> None:
    """Of an agent that another run started, when both have ended: its budget holds for that one then, and no budget
    counts less than before. Not while the other runs, nor what the operator decided about or started."""
    starts = f"hivemind run --name helper -- {sys.executable} asks.py"
    (tmp_path / "asks.py").write_text(ASKS)
    async with before(tmp_path) as (running, place):
        proxy = running.proxy
        first = await place.ran("--name", "one", "--", "sh", "-ec", f"{starts} 2")
        tokens = sum(map(int, first.out.split()))
        proxy.apply(SetBudget("one", tokens + 1, per="ever", covers="subtree"))
        proxy.apply(SetBudget("two", 5, covers="subtree"))
        second = await place.ran("--name", "two", "--", *shlex.split(f"{starts} 2"))
        used = {each.agent: each.ever.tokens for each in proxy.budgets(None).agents}
        parents = {each.name: each.parent for each in running.snapshot().agents}
        assert (first.code, second.code) == (0, 3), (first, second)
        assert used == {"one": 0, "two": 0, "helper": tokens + int(second.out)}
        assert (parents["helper"], proxy.engine.agents.get("one").tree.ever.tokens) == ("two", tokens)  # type: ignore[union-attr]
        third = await place.ran("--name", "three", "--", "hivemind", "run", "--name", "two", "--", "true")
        assert third.code == 1, third
        assert "the run of three may not start two" in third.err
        proxy.apply(SetBudget("helper", 10**6))
        fourth = await place.ran("--name", "four", "--", *shlex.split(f"{starts} 1"))
        assert (fourth.code, "the run of four may not start helper" in fourth.err) == (1, True), fourth


@pytest.mark.e2e
async def test_it_can_do_what_its_user_can(tmp_path: Path) -> None:
    """Where the system doesn't tell whose process sent a request, it finds the control token as the user's own programs
    do, and so lifts even its own budget."""
    async with before(tmp_path) as (running, place):
        running.proxy.processes.runs.looks = False
        write_note(note_path(tmp_path / "state", running.port), Note(running.url, TOKEN, os.getpid(), "run-1"))
        script = "env -u HIVEMIND_RUN_TOKEN hivemind budget ann none"
        ran = await place.called("run", "--name", "ann", "--budget", "5", "--", "sh", "-c", f"{script} > lifted")
        assert (ran.code, "ann: no budget" in (tmp_path / "lifted").read_text()) == (0, True), ran


TRIES = (
    *("hivemind budget ann none", "hivemind budget ann +1M", "hivemind budget --pool 9M"),
    "env -u HIVEMIND_RUN_TOKEN hivemind budget ann none",
    "env -u HIVEMIND_RUN_TOKEN -u HIVEMIND_AGENT -u HIVEMIND_URL hivemind budget ann none --attach $URL",
    *("hivemind budget ann none --token-file $NOTE", "hivemind set priority ann critical", "hivemind stop mother"),
    *("hivemind pause", "env -u HIVEMIND_AGENT hivemind run --name mother --token-file $NOTE -- true"),
)


@needs_linux
@pytest.mark.e2e
async def test_no_command_raises_it(tmp_path: Path) -> None:
    """Each says why in one line, with exit code 1; the tools on standard input and output take no other name either."""
    async with before(tmp_path) as (running, place):
        note = note_path(tmp_path / "state", running.port)
        write_note(note, Note(running.url, TOKEN, os.getpid(), "run-1"))
        running.proxy.processes.place(PlaceRequest("mother", running=True, runner="m"), "runner")
        lines = [f"{each}; echo $?" for each in TRIES]
        speaks = f"{sys.executable} {attempts.__file__} spoken"
        lines += ["hivemind mcp --agent mother < /dev/null; echo $?", speaks, f"env -u HIVEMIND_RUN_TOKEN {speaks}"]
        more = {"HIVEMIND_AGENT": "mother", "NOTE": str(note), "URL": running.url}
        ran = await place.ran("--name", "ann", "--budget", "500", "--", "sh", "-c", "\n".join(lines), **more)
        out = ran.out.splitlines()
        assert out[: len(TRIES) + 1] == ["1"] * len(TRIES) + ["2"], (ran.out, ran.err)
        assert len([line for line in ran.err.splitlines() if "the run of ann may" in line]) == len(TRIES)
        assert [json.loads(line)["result"].get("isError") for line in out[len(TRIES) + 1 :]] == [True, True]
        told = [line for line in running.snapshot().lines if line.tag == "denied"]
        assert (len(told), {line.who for line in told}) == (len(TRIES) + 2, {"ann"})
        assert {each.agent: each.budget and each.budget.tokens for each in running.proxy.budgets(None).agents} == {
            "mother": None,
            "ann": 500,
        }


@needs_linux
@pytest.mark.e2e
async def test_a_tasks_process_neither(tmp_path: Path) -> None:
    """Of a batch: what its processes send is its run's, also after the proxy was killed and started again, until when
    its token stays good."""
    here = bench(tmp_path)
    hivemind = shlex.quote(str(HIVEMIND))
    script = (
        "touch begun; while [ ! -e gate ]; do sleep 0.05; done",
        f"{hivemind} budget work.a 400 > lowered; echo $? >> journal",
        f"env -u HIVEMIND_RUN_TOKEN {hivemind} budget work.a none 2> denied; echo $? >> journal",
        # An orphan in a session of its own.
        f"setsid sh -c 'env -u HIVEMIND_RUN_TOKEN {hivemind} budget work.a none 2> denied; echo $? > orphan' & wait",
        "while [ ! -s orphan ]; do sleep 0.05; done; cat orphan >> journal",
    )
    here.write([Kind("a", more={"command": ["sh", "-c", "\n".join(script)], "budget": "500"})])
    async with here.proxy() as first, here.batch() as runner:
        await here.until((tmp_path / "begun").exists)
        first.kill()
        await first.wait()
        async with here.proxy():
            here.open_gate()
            assert (await runner.wait(), here.journal) == (0, ["0", "1", "1"]), (tmp_path / "denied").read_text()
    assert "the run of work.a may" in (tmp_path / "denied").read_text()
