"""`hivemind run --count`: several agents of one command, their output, exit codes, signals and a killed runner."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest
from agents.repositories import ENVIRON, git, repository
from agents.running import Place, Ran, before, ended, said
from proxy.kit import Running
from waiting import until

from hivemind.agents.numbered import Output, exit_code, shown_safely
from hivemind.agents.progress import TaskRow

GATED = "echo begin >> $HIVEMIND_AGENT; while [ ! -e gate ]; do sleep 0.05; done; echo end >> $HIVEMIND_AGENT"


@asynccontextmanager
async def several(folder: Path) -> AsyncIterator[tuple[Running, Place]]:
    """A proxy and a place where `hivemind run` may be called in this process."""
    async with before(folder) as (running, place):
        with mock.patch("signal.getsignal", return_value=signal.SIG_IGN):
            yield running, place


async def run(place: Place, *args: str) -> Ran:
    return await place.called("run", *args)


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().split()


async def test_each_is_an_agent_with_its_own_output(tmp_path: Path) -> None:
    """As children of one, in the order of their numbers; whoever crashes is started again; each has the budget."""
    script = "echo I am $HIVEMIND_AGENT; echo bad >&2; [ $HIVEMIND_AGENT != w-2 ] || exit 4"
    async with several(tmp_path) as (running, place):
        flags = ("--name", "w", "--count", "3", "--restarts", "1", "--budget", "5k", "--report", "report.json")
        ran = await run(place, *flags, "--", "sh", "-c", script)
        agents = {agent.name: agent for agent in running.snapshot().agents}
        tasks = running.proxy.processes.tasks(None)
    assert ran.code == 4, ran.err
    shown = sorted(line for line in ran.out.splitlines() if "try 2" not in line)
    assert shown == sorted(f"w-{number} | {text}" for number in (1, 2, 2, 3) for text in (f"I am w-{number}", "bad"))
    assert "w-2 failed (exit code 4)" in ran.err
    assert "; it starts again in 1.0s (1 of 1)" in ran.err
    assert "hivemind: w: 3 agents, 2 done, 1 failed; " in ran.err
    assert {name: (agent.parent, agent.exit_code) for name, agent in agents.items() if name != "w"} == {
        "w-1": ("w", 0),
        "w-2": ("w", 4),
        "w-3": ("w", 0),
    }
    budgets = [agent.budget for name, agent in agents.items() if name != "w"]
    assert [(budget.tokens, budget.covers) for budget in budgets if budget is not None] == [(5000, "subtree")] * 3
    assert not tasks, "they were only the runner's"
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["exit_code"] == 4
    assert [(each["agent"], each["exit_code"], each["attempts"]) for each in report["tasks"]] == [
        ("w-1", 0, 1),
        ("w-2", 4, 2),
        ("w-3", 0, 1),
    ]


async def test_each_must_send_requests_where_that_is_asked_for(tmp_path: Path) -> None:
    async with several(tmp_path) as (_, place):
        ran = await run(place, "--name", "w", "--count", "2", "--require-traffic", "--", "true")
    assert ran.code != 0
    assert "w: 2 agents, 2 failed; " in ran.err


@pytest.mark.e2e
async def test_run_again_and_without_a_name(tmp_path: Path) -> None:
    """The same name begins anew; without one the command's is taken, while it and its agents' are free."""
    async with several(tmp_path) as (_, place):
        for _ in range(2):
            ran = await run(place, "--count", "1", "--name", "w", "--quiet", "--", "sh", "-c", "echo x >> starts")
            assert (ran.code, ran.err) == (0, "")
        for name in ("true", "true-3"):  # true-2 is the second agent of the first
            ran = await run(place, "--count", "2", "--", "true")
            assert f"hivemind: {name}: 2 agents, 2 done; " in ran.err
    assert lines(tmp_path, "starts") == ["x", "x"]


@pytest.mark.e2e
async def test_each_in_a_worktree(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    async with several(repo) as (_, place):
        place.environ |= {key: value for key, value in ENVIRON.items() if key.startswith("GIT_")}
        script = "[ $HIVEMIND_AGENT = w-1 ] || echo $HIVEMIND_AGENT > made"
        ran = await run(place, "--count", "2", "--name", "w", "--worktree", "--report", "r", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    assert [each["worktree"] for each in json.loads((repo / "r").read_text())["tasks"]] == [
        None,
        str(repo / ".hivemind/worktrees/w-2"),
    ]
    assert git(repo, "branch", "--list", "hivemind/*").split() == ["+", "hivemind/w-2"]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--count", "0"), "--count 0: must be a whole number from 1 to 1,000"),
        (("--count", "x"), "--count"),
        (("--count", "2", "--task", "t"), "--task: is one agent's, so it doesn't go with --count"),
        (("--count", "2", "--name", "a b"), "--name a b: with --count it must be letters, digits, . _ and -"),
        (("--count", "2", "--budget", "5k", "--covers", "agent"), "--covers agent: with --count the budget is each"),
    ],
)
async def test_mistakes(tmp_path: Path, flags: tuple[str, ...], error: str) -> None:
    async with several(tmp_path) as (_, place):
        ran = await run(place, *flags, "--", "true")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert error in ran.err
        assert (await run(place, "--count", "2", "--", "nosuchprogram")).code == 127


@pytest.mark.e2e
async def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    """In good order; the exit code is the signal's."""
    notes = "trap 'echo stopped >> $HIVEMIND_AGENT; exit 0' TERM; echo begin >> $HIVEMIND_AGENT"
    script = f"{notes}; while :; do sleep 0.05; done"
    async with before(tmp_path) as (running, place):
        process = await place.run("--count", "2", "--name", "w", "--", "sh", "-c", script)
        await until(lambda: (tmp_path / "w-1").exists() and (tmp_path / "w-2").exists())
        process.send_signal(signal.SIGINT)
        ran = await ended(process)
        running_now = [agent.name for agent in running.snapshot().agents if agent.running]
    assert ran.code == 130, ran.err
    assert lines(tmp_path, "w-1") == lines(tmp_path, "w-2") == ["begin", "stopped"]
    assert not running_now


@pytest.mark.e2e
async def test_a_killed_runner(tmp_path: Path) -> None:
    """Its agents work on, and the same command goes on with them; another one under their name is refused."""
    command = ("--count", "2", "--name", "w", "--", "sh", "-c", GATED)
    async with before(tmp_path) as (_, place):
        process = await place.run(*command)
        await until(lambda: (tmp_path / "w-1").exists() and (tmp_path / "w-2").exists())
        busy = await place.ran(*command)
        assert busy.err == "hivemind: w: a runner works on agents of that name already; choose another --name\n"
        process.kill()
        await process.wait()
        other = await place.ran("--count", "2", "--name", "w", "--", "true")
        assert (other.code, "another --name" in other.err) == (2, True), other.err
        again = await place.run(*command)
        await said(again, "w-2 still runs")
        (tmp_path / "gate").touch()
        ran = await ended(again)
    assert ran.code == 0, ran.err
    assert lines(tmp_path, "w-1") == lines(tmp_path, "w-2") == ["begin", "end"]


@pytest.mark.e2e
async def test_nobody_reads_the_output(tmp_path: Path) -> None:
    """The agents work to their ends all the same."""
    async with before(tmp_path) as (_, place):
        script = "hivemind run --count 2 --name w -- sh -c 'echo x; sleep 0.5; echo y >> $HIVEMIND_AGENT' | true"
        ran = await ended(await place.start("bash", "-o", "pipefail", "-c", script))
    assert (ran.code, lines(tmp_path, "w-1"), lines(tmp_path, "w-2")) == (0, ["y"], ["y"]), ran.err


@pytest.mark.parametrize(
    ("ends", "code"),
    [([0, 0], 0), ([0, 3], 3), ([3, 3], 3), ([3, 4], 1), ([-15, 0], 143), ([None, 0], 1), ([None, 3], 1)],
)
def test_one_exit_code_of_several(ends: list[int | None], code: int) -> None:
    assert exit_code(TaskRow("a", "a", "done" if end == 0 else "failed", exit_code=end) for end in ends) == code


def test_output_comes_by_lines(tmp_path: Path) -> None:
    """With a long line in parts, the rest of the last one at the end, and nothing that was shown before."""
    got: list[tuple[str, bytes]] = []
    logs = {name: tmp_path / name for name in ("a", "b", "none")}
    logs["a"].write_bytes(b"old\n")
    output = Output(logs, lambda name, line: got.append((name, line)))
    output.skip()
    with logs["a"].open("ab") as file:
        for piece in (b"one\ntw", b"o\n", b"rest"):
            file.write(piece)
            file.flush()
            output.copy()
    logs["b"].write_bytes(b"x" * 100_000)
    output.copy()
    output.copy(last=True)
    assert [line for name, line in got if name == "a"] == [b"one", b"two", b"rest"]
    assert b"".join(line for name, line in got if name == "b") == b"x" * 100_000
    assert {name for name, _ in got} == {"a", "b"}


def test_output_commands_no_terminal() -> None:
    assert shown_safely("\x1b[31mred\x1b[0m \x1b]0;title\x07done\x07") == "red done "
    assert shown_safely("10 %\r50 %\r100 %") == "100 %"
    assert shown_safely("windows\r") == "windows"
