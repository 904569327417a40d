"""`hivemind resume`, as a program."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from agents.kept import keep
from agents.repositories import ENVIRON, commit, repository
from agents.running import HANGS_S, TOKEN, Place, Ran, at, ended, providing
from ports import unused_port
from proxy.kit import Running, client, playing, proxying
from proxy.wire import ANSWER, PLAIN_BODY
from trusted import trusted_settings
from upstream.scripted import serving
from waiting import until

from hivemind.agents.worktrees import Repository, WantedWorktree
from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.cli import client as cli_client
from hivemind.cli.agents.resume import how_to_raise, standing, used_up
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.types import TaskSpec
from hivemind.store.checkpoints import folder_in
from hivemind.store.token_file import ControlKey

ASK = """\
import http.client, os, sys, urllib.parse
url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
asked = http.client.HTTPConnection(url.netloc)
asked.request("POST", url.path + "/v1/messages", open("body.json", "rb").read(), {"content-type": "application/json"})
answer = asked.getresponse()
open("times", "a").write(f"{os.environ['HIVEMIND_AGENT']} {answer.status} {' '.join(sys.argv[1:])}\\n")
sys.exit(answer.status != 200 or not os.path.exists("mended"))
"""
"""An agent that asks once, and ends badly unless it gets an answer and something was mended meanwhile."""


@dataclass
class Stage:
    """A proxy that keeps checkpoints, and programs that use it."""

    running: Running
    place: Place

    async def resume(self, *args: str) -> Ran:
        """`hivemind resume`, to its end, in a thread of this process, where no signal can be handled."""
        return await self.place.called("resume", *args)

    async def crashed(self, *flags: str) -> None:
        """alice ran, asked once and ended badly."""
        ran = await self.place.called("run", "--name", "alice", *flags, "--", "python", "ask.py", "to", "do")
        assert ran.code == 1, ran.err

    async def asks(self, agent: str) -> int:
        """A request of an agent that no runner started."""
        async with client() as web:
            url = f"{self.running.url}/agent/{agent}/v1/messages"
            return (await web.post(url, content=PLAIN_BODY, timeout=HANGS_S)).status_code

    def times(self) -> list[str]:
        """What the agent noted each time that it ran."""
        return (self.place.folder / "times").read_text().splitlines()


def furnish(folder: Path) -> None:
    """The agent's program, and what it says."""
    (folder / "ask.py").write_text(ASK)
    (folder / "body.json").write_bytes(PLAIN_BODY)


@contextlib.asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """Set up in that folder. A machine under load may take longer than a command waits for the proxy."""
    furnish(folder)
    async with (
        serving(playing([ANSWER])) as upstream,
        proxying(f"lab={upstream.url}", keep_in=folder_in(folder / "state"), hangs_s=90) as running,
        at(folder, HIVEMIND_URL=running.url, HIVEMIND_CONTROL_TOKEN=TOKEN) as place,
    ):
        running.proxy.control_key = ControlKey("run-1", TOKEN)
        with mock.patch.multiple(cli_client, _CONNECT_WITHIN_S=HANGS_S, _ANSWER_WITHIN_S=HANGS_S):
            yield Stage(running, place)


@pytest.mark.e2e
async def test_everybody(tmp_path: Path) -> None:
    """Without a name, requests are taken again."""
    async with stage(tmp_path) as on:
        on.running.proxy.apply(cmd.PauseAdmissions(True), "ann")
        assert await on.resume() == Ran(0, "all requests go on\n", "")
        assert on.running.snapshot().mode == "serving"


@pytest.mark.e2e
async def test_a_crash(tmp_path: Path) -> None:
    """The command is started again, with its arguments, in its folder and under its name, and its run goes on."""
    async with stage(tmp_path) as on:
        await on.crashed()
        (tmp_path / "mended").touch()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        there = Place(elsewhere, {**on.place.environ, "HIVEMIND_STATE_DIR": str(tmp_path / "state")})
        ran = await there.called("resume", "alice")
        assert ran.code == 0, ran.err
        assert "alice: exit code 0 after" in ran.err
        assert "14 tokens" in ran.err
        assert on.times() == ["alice 200 to do"] * 2
        again = await on.resume("alice")
        assert (again.code, "ran again since, and ended well" in again.err) == (1, True)
        name = next(folder_in(tmp_path / "state").iterdir()).stem
        assert (await on.resume(name)).code == 0
        assert len(on.times()) == 3


async def test_a_budget(tmp_path: Path) -> None:
    """While it is used up, a line says how to raise it, and nothing is started; raised, the agent goes on. The
    conversation is in the result all the same."""
    async with stage(tmp_path) as on:
        await on.crashed("--budget", "7")
        (tmp_path / "mended").touch()
        told = "alice's budget is used up (7 of 7 tokens used this run); raise it with `hivemind budget alice AMOUNT`"
        assert await on.resume("alice") == Ran(1, "", f"hivemind: {told}, then resume alice again\n")
        refused = await on.resume("alice", "--json")
        result = json.loads(refused.out)
        assert (refused.code, result["done"], told in result["text"]) == (1, "nothing", True)
        assert result["conversation"] == json.loads(PLAIN_BODY)
        assert len(on.times()) == 1
        on.running.proxy.apply(cmd.SetBudget("alice", 100), "ann")
        ran = await on.resume("alice")
        assert (ran.code, on.times()[1:]) == (0, ["alice 200 to do"]), ran.err


@pytest.mark.e2e
async def test_its_task(tmp_path: Path) -> None:
    """A task that failed with the agent is tried again with it: nobody else runs it meanwhile, and it is done, or has
    failed, as the command ends."""
    async with stage(tmp_path) as on:
        proxy = on.running.proxy
        proxy.apply(
            cmd.SubmitTasks((TaskSpec("t", agent="alice", command=("x",)), TaskSpec("next", after=("t",)))), "ann"
        )

        def states() -> list[str]:
            return [task.state for task in proxy.snapshot().tasks]

        proxy.apply(cmd.ClaimTask("t", "r-1"), "batch")
        await on.crashed("--task", "t")
        proxy.apply(cmd.FinishTask("t", False, "exit code 1"), "batch")
        assert (await on.resume("alice")).code == 1
        assert states() == ["failed", "blocked"]
        (tmp_path / "mended").touch()
        proxy.apply(cmd.RetryTask("t"), "ann")
        proxy.apply(cmd.ClaimTask("t", "r-2"), "batch")
        proxy.apply(cmd.FinishTask("t", False, "stopped", again=True), "batch")
        assert (await on.resume("alice")).code == 0
        assert (states(), len(on.times())) == (["done", "ready"], 3)


async def test_stopped_by_hand(tmp_path: Path) -> None:
    """An agent that no runner started is let go, and its conversation given back, since nothing can start it."""
    async with stage(tmp_path) as on:
        assert await on.asks("bob") == 200
        on.running.proxy.apply(cmd.StopAgent("bob", True), "ann")
        await until(lambda: any(folder_in(tmp_path / "state").glob("*.json")))  # a thread writes it
        assert await on.asks("bob") == 400
        ran = await on.resume("bob")
        assert (ran.code, ran.out.encode()) == (0, PLAIN_BODY + b"\n"), ran.err
        assert "bob wasn't started by hivemind run, so here is its conversation" in ran.err
        assert await on.asks("bob") == 200


@pytest.mark.e2e
async def test_paused(tmp_path: Path) -> None:
    """It goes on by itself: nothing is started or printed, whatever was kept of it before."""
    async with stage(tmp_path) as on:
        await on.crashed()
        on.running.proxy.apply(cmd.PauseAgent("alice", True), "ann")
        assert await on.resume("alice") == Ran(0, "", "hivemind: alice goes on\n")
        assert [agent.held for agent in on.running.snapshot().agents] == [False]
        assert len(on.times()) == 1


@pytest.mark.e2e
async def test_one_that_runs(tmp_path: Path) -> None:
    """A process that was cut off and still runs is let go, and not started a second time."""
    async with stage(tmp_path) as on:
        process = await on.place.run("--name", "alice", "--", "sh", "-c", "touch begun; sleep 60")
        await until((tmp_path / "begun").exists)
        on.running.proxy.apply(cmd.StopAgent("alice", True), "ann")
        assert await on.resume("alice") == Ran(0, "", "hivemind: alice goes on\n")
        assert await on.resume("alice") == Ran(0, "", "hivemind: alice runs, and nothing holds it\n")
        assert process.returncode is None
        assert [agent.stopped for agent in on.running.snapshot().agents] == [False]


async def test_unknown(tmp_path: Path) -> None:
    """What is known is told; one that nothing holds and nothing was kept of can't be resumed."""
    async with stage(tmp_path) as on:
        keep(tmp_path / "state", "carol")
        await on.asks("bob")
        ran = await on.resume("dave")
        says = "no agent and no checkpoint has that name; there are the agents bob; there are checkpoints of carol"
        assert ran == Ran(2, "", f"hivemind: dave: {says}\n")
        ran = await on.resume("bob")
        assert ran == Ran(1, "", "hivemind: bob is neither held nor stopped, and there is no checkpoint of it\n")


@pytest.mark.e2e
async def test_without_a_proxy(tmp_path: Path) -> None:
    """One is brought along, which knows the agent's budget, and started there the agent has its answer."""
    furnish(tmp_path)
    async with providing() as (_, url), at(tmp_path) as place:
        trusted_settings(tmp_path, f'upstream = ["{url}"]\nport = {unused_port()}\n')
        assert (await place.ran("--name", "alice", "--budget", "1/ever", "--", "python", "ask.py")).code == 1
        (tmp_path / "mended").touch()
        refused = await ended(await place.start("hivemind", "resume", "alice"))
        assert (refused.code, "raise it with `hivemind budget alice AMOUNT`" in refused.err) == (1, True), refused.err
        body = await ended(await place.start("hivemind", "resume", "alice", "--json"))
        result = json.loads(body.out)
        assert (body.code, result["done"], result["state"]["name"]) == (1, "nothing", "alice")
        assert (result["conversation"], result["checkpoint"]["agent"]) == (json.loads(PLAIN_BODY), "alice")
    assert len((tmp_path / "times").read_text().splitlines()) == 1


async def test_no_proxy_and_no_checkpoint(tmp_path: Path) -> None:
    """One line; exit code 2, and 1 where the proxy that was named can't be had."""
    async with at(tmp_path) as place:
        place.environ["HIVEMIND_PORT"] = str(unused_port())
        ran = await place.called("resume", "alice")
        says = "alice: no agent and no checkpoint has that name; there are no checkpoints"
        assert ran == Ran(2, "", f"hivemind: {says}\n")
        away = await place.called("resume", "--attach", f"http://127.0.0.1:{unused_port()}", "a")
        assert (away.code, away.err.count("\n")) == (1, 1)


async def test_what_is_in_the_way(tmp_path: Path) -> None:
    """A folder or a program that is gone, and a conversation that was left out, are told in one line."""
    async with stage(tmp_path) as on:
        gone = tmp_path / "gone"
        keep(tmp_path / "state", "alice", cwd=str(gone))
        ran = await on.resume("alice")
        assert ran == Ran(1, "", f"hivemind: alice was started in {gone}, and that folder isn't there any more\n")
        keep(tmp_path / "state", "bob", command=("no-such-program",), cwd=str(tmp_path), parent=None, task=None)
        ran = await on.resume("bob")
        assert (ran.code, ran.err) == (127, "hivemind: no-such-program: no such command in PATH\n")
        keep(tmp_path / "state", "carol", body=None, command=(), left_out="it was too large")
        ran = await on.resume("carol")
        assert (ran.code, ran.err.endswith("holds no conversation: it was too large\n")) == (1, True)
        assert json.loads((await on.resume("carol", "--json")).out)["conversation"] is None


@pytest.mark.e2e
async def test_a_worktree(tmp_path: Path) -> None:
    """An agent goes on in its worktree, which is in use then; one that another process uses, or is gone, is told."""
    repo = repository(tmp_path / "repo")
    async with stage(repo) as on:
        commit(repo, "ask.py", ASK)
        commit(repo, "body.json", PLAIN_BODY.decode())
        on.place.environ |= {key: value for key, value in ENVIRON.items() if key.startswith("GIT_")}
        script = (
            "python ask.py; [ -e tried ] || { touch tried; exit 1; }; touch begun;"
            " while [ ! -e done ]; do sleep 0.05; done"
        )
        ran = await on.place.ran("--name", "alice", "--worktree", "--", "sh", "-c", script)
        assert ran.code == 1, ran.err
        tree = repo / ".hivemind/worktrees/alice"
        trees = Repository.around(repo, ENVIRON)
        assert trees.found("alice").state == "2 uncommitted files"
        other = WantedWorktree.checked(None, repo, ENVIRON).open("alice", repo)
        with contextlib.closing(other):
            ran = await on.resume("alice")
            assert (ran.code, ran.err.splitlines()[-1]) == (1, f"hivemind: alice: a process still works in {tree}")
        aside = tree.rename(tmp_path / "aside")
        says = f"alice worked in its worktree {tree}, which isn't there any more"
        again = "hivemind run --worktree --name alice -- COMMAND makes one"
        assert await on.resume("alice") == Ran(1, "", f"hivemind: {says}; {again}\n")
        tree.mkdir()
        assert await on.resume("alice") == Ran(1, "", f"hivemind: {says}; {again}\n")
        tree.rmdir()
        aside.rename(tree)
        process = await on.place.start("hivemind", "resume", "alice")
        await until((tree / "begun").exists)
        assert trees.found("alice").state == "in use, 3 uncommitted files"
        (tree / "done").touch()
        ran = await ended(process)
        assert ran.code == 0, ran.err
        assert "alice: it goes on in its worktree, which has 2 uncommitted files" in ran.err
        assert f"its worktree: {tree} (branch hivemind/alice, 4 uncommitted files)" in ran.err
        assert not trees.found("alice").used


async def test_the_worktree_of_another_agent_is_not_taken(tmp_path: Path) -> None:
    """A sub-agent that worked beside its parent, in the parent's worktree, goes on there while the parent works."""
    repo = repository(tmp_path / "repo")
    parent = WantedWorktree.checked(None, repo, ENVIRON).open("boss", repo)
    with contextlib.closing(parent):
        assert WantedWorktree.kept("alice", parent.folder, ENVIRON) is None
        assert WantedWorktree.kept("alice", repo, ENVIRON) is None


@pytest.mark.e2e
async def test_the_result(tmp_path: Path) -> None:
    """With --json a command isn't started: the result says what was done, and has the agent's new state."""
    async with stage(tmp_path) as on:
        await on.asks("bob")
        assert (await on.resume("bob", "--json")).code == 1
        on.running.proxy.apply(cmd.PauseAgent("bob", True), "ann")
        released = json.loads((await on.resume("bob", "--json")).out)
        assert (released["done"], released["text"]) == ("released", "bob may go on")
        assert (released["state"]["held"], released["state"]["name"], released["checkpoint"]) == (False, "bob", None)
        await on.crashed()
        crashed = json.loads((await on.resume("alice", "--json")).out)
        again = f"hivemind resume {crashed['checkpoint']['name']}"
        assert (crashed["done"], crashed["text"]) == (
            "nothing",
            f"nothing holds alice; {again} starts its command again",
        )
        assert (crashed["state"]["exit_code"], len(on.times())) == (1, 1)


@pytest.mark.e2e
async def test_ctrl_c(tmp_path: Path) -> None:
    """It reaches the command, whose end is told; what was kept of it stays, because nothing came of this run."""
    async with stage(tmp_path) as on:
        script = "trap 'exit 7' INT; touch begun; while :; do sleep 0.05; done"
        keep(tmp_path / "state", "alice", command=("sh", "-c", script), cwd=str(tmp_path), parent=None, task=None)
        process = await on.place.start("hivemind", "resume", "alice")
        await until((tmp_path / "begun").exists)
        process.send_signal(2)
        ran = await ended(process)
        assert (ran.code, "alice: exit code 7" in ran.err) == (7, True), ran.err
        assert len(list(folder_in(tmp_path / "state").iterdir())) == 1


def state(name: str | None, used: int, covers: str = "agent") -> BudgetState:
    """A budget of a hundred tokens."""
    return BudgetState(name, 100, None, "run", covers, used, 0.0, 0)


def stands(agent: str | None, parent: str | None = None, budget: BudgetState | None = None) -> AgentBudget:
    """An agent's part of the books."""
    return AgentBudget(agent, parent, budget, Spent(), Spent(), Spent())


@pytest.mark.parametrize(
    ("boss", "own", "pool", "owner"),
    [
        (None, None, None, ()),
        (None, state("worker", 99), None, ()),
        (None, state("worker", 100), None, ("worker",)),
        (state("boss", 100, "subtree"), None, None, ("boss",)),
        (state("boss", 100), None, None, ()),
        (None, None, state(None, 120, "all"), (None,)),
    ],
)
def test_whose_budget(
    boss: BudgetState | None, own: BudgetState | None, pool: BudgetState | None, owner: tuple[str | None, ...]
) -> None:
    """Its own, one that covers it with others, and everybody's; agents that claim to have started each other end."""
    agents = (stands("boss", "worker", boss), stands("worker", "boss", own))
    found = used_up("worker", BudgetsPart("r", stands(None, None, pool), agents))
    assert (() if found is None else (found.owner,)) == owner
    if found is not None:
        name = found.owner or "--pool"
        assert f"`hivemind budget {name} AMOUNT`, then resume worker again" in how_to_raise("worker", found)


async def test_one_of_an_earlier_run() -> None:
    """An agent that only the books know may be held, so it is let go."""
    async with proxying("lab=http://127.0.0.1:9") as running:
        found = standing("old", running.snapshot(), BudgetsPart("r", stands(None), (stands("old"),)))
        assert (found.known, found.held, found.view) == (True, True, None)
