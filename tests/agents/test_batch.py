"""`hivemind batch` as people start it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import stat
import struct
import termios
import time
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from agents.batches import HIVEMIND, Bench, Kind, bench, check, served
from agents.running import ended, said

from hivemind.control.client import ControlClient, open_http
from hivemind.control.discovery import find_token, parse_address
from hivemind.scheduler.commands import ClaimTask, SubmitTasks
from hivemind.scheduler.types import TaskSpec
from hivemind.world.snapshot import AgentView


def tell(*words: str) -> list[str]:
    """A command that writes a line of the shell's making into the journal."""
    return ["sh", "-c", f"echo {' '.join(words)} >> journal"]


def task(name: str, command: list[str] | str, **more: object) -> Kind:
    """One with a command of its own."""
    return Kind(name, more={"command": command, **more})


def lines_of(path: Path) -> list[str]:
    """Of a file."""
    return path.read_text().splitlines()


@contextlib.asynccontextmanager
async def steering(here: Bench) -> AsyncIterator[ControlClient]:
    """The proxy's control API."""
    place = parse_address(f"http://127.0.0.1:{here.port}")
    token = find_token(place, {"HIVEMIND_STATE_DIR": str(here.folder / "state")})
    async with open_http(place) as http:
        yield ControlClient(place.url, token, http)


async def agents(here: Bench) -> dict[str, AgentView]:
    """What the proxy knows of agents."""
    async with steering(here) as client:
        return {agent.name: agent for agent in (await client.world()).snapshot.agents}


async def test_a_task_has_a_token_of_its_own(tmp_path: Path) -> None:
    """Where the proxy wants one of its agents: it is good for the task's agent, and isn't the one for all."""
    line = tell('"$HIVEMIND_AGENT ${HIVEMIND_TOKEN%%.*} ${ANTHROPIC_BASE_URL#*/token/}"')
    async with served(tmp_path, token="everybodys-token") as (_, here):
        here.write([task("a", line), task("b", line, agent="bob", after=["a"])])
        ran = await here.run("--token", "everybodys-token")
    assert ran.code == 0, ran.err
    found = [entry.split() for entry in here.journal]
    assert [(agent, kind) for agent, kind, _ in found] == [("work.a", "run"), ("bob", "run")]
    assert all("everybodys" not in base and base.endswith(f"/agent/{agent}") for agent, _, base in found)
    assert found[0][2].split("/")[0] != found[1][2].split("/")[0]


async def test_a_tasks_world(tmp_path: Path) -> None:
    """It is told its name, its task and its own path; the plan's and its own variables and folder count."""
    (tmp_path / "sub").mkdir()
    line = tell("$HIVEMIND_AGENT $HIVEMIND_TASK $ANTHROPIC_BASE_URL $A $B $(basename $PWD)")
    line[2] = line[2].replace("journal", str(tmp_path / "journal"))
    tasks = [task("a", line, cwd="sub", env={"B": "own"}), task("b", line, agent="bob")]
    async with served(tmp_path) as (running, here):
        here.write(tasks, env={"A": "all", "B": "b"})
        ran = await here.run()
    assert ran.code == 0, ran.err
    url = running.url
    assert sorted(here.journal) == [
        f"bob work.b {url}/agent/bob all b {tmp_path.name}",
        f"work.a work.a {url}/agent/work.a all own sub",
    ]


@pytest.mark.e2e
async def test_logs_and_report(tmp_path: Path) -> None:
    """Each task's output of all its tries is in a file that nobody else reads; table and report tell the same."""
    talk = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    async with served(tmp_path) as (_, here):
        here.write([task("a", talk, restarts=1), task("b", "true", after="a"), task("c", "nosuchprogram")])
        ran = await here.run()
    assert ran.code == 1
    a, b, c = (here.report[name] for name in "abc")
    log = Path(a["log"])
    text = lines_of(log)
    assert [line for line in text if not line.startswith("--- try 2, ")] == ["out", "err", "out", "err"]
    assert len(text) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert (a["state"], a["attempts"], a["exit_code"], a["note"]) == ("failed", 2, 3, "exit code 3")
    assert (b["state"], b["attempts"], b["note"]) == ("blocked", 0, "a failed")
    assert (c["state"], c["exit_code"], c["note"]) == ("failed", 127, "nosuchprogram: no such command in PATH")
    assert lines_of(Path(c["log"])) == [c["note"]], "people look there"
    assert ran.out.splitlines()[1].split()[:5] == ["a", "failed", "2", "3", a_span(ran.out)]
    assert f"failed: a (exit code 3), {log}" in ran.out
    assert "a failed (exit code 3)" in ran.err
    assert "it starts again at once (1 of 1)" in ran.err


def a_span(table: str) -> str:
    """The time in a table's first row, which is whatever it is."""
    return table.splitlines()[1].split()[4]


@pytest.mark.e2e
async def test_timeout(tmp_path: Path) -> None:
    """What takes longer than it may is ended, even if it doesn't want to, and that is said."""
    polite = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"]
    async with served(tmp_path) as (_, here):
        here.write([task("a", "sleep 3600", timeout="200ms"), task("b", polite, timeout="0.5s")])
        ran = await here.run()
    ends = [(row["state"], row["note"], row["exit_code"]) for row in here.report.values()]
    assert ends == [("failed", "timed out after 0.2s", -15), ("failed", "timed out after 0.5s", 0)], ran.err


async def test_no_timeout_by_a_clock_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor by a machine that sleeps: the time of day goes on, and the task doesn't."""
    jumps = count()
    wall = SimpleNamespace(time=lambda: time.time() + next(jumps) * 7200)
    monkeypatch.setattr("hivemind.cli.agents.batch.time", wall)
    async with served(tmp_path) as (_, here):
        here.write([task("a", "sleep 0.5", timeout="1h")])
        ran = await here.run()
    assert [(row["state"], row["note"]) for row in here.report.values()] == [("done", "")], ran.err


@pytest.mark.e2e
async def test_interrupted_and_resumed(tmp_path: Path) -> None:
    """Ctrl-C starts nothing more and ends what runs, which isn't held against it; `--resume` goes on."""
    here = bench(tmp_path)
    kinds = [Kind("quick"), Kind("slow", gated=True), Kind("next", after=("slow",))]
    here.write(kinds)
    async with here.batch() as runner:
        await said(runner, "quick is done")
        await here.journal_of(3)
        runner.send_signal(signal.SIGINT)
        ran = await ended(runner)
    assert ran.code == 130, ran.err
    assert {name: row["state"] for name, row in here.report.items()} == {
        "quick": "done",
        "slow": "stopped",
        "next": "waiting",
    }
    ran = await here.run()
    assert (ran.code, ran.err.splitlines()[-1]) == (
        2,
        "hivemind: work: 1 of 3 done; --resume goes on, --fresh begins anew",
    )
    here.open_gate()
    ran = await here.run("--resume")
    assert (ran.code, check(kinds, here)["done"]) == (0, 3)
    assert here.journal.count("begin quick") == 1


@pytest.mark.e2e
async def test_one_runner_at_a_time(tmp_path: Path) -> None:
    """A second one is refused while the first lives."""
    here = bench(tmp_path)
    here.write([Kind("a", works_s=3600)])
    async with here.batch() as runner:
        await here.journal_of(1)
        ran = await here.run("--resume")
        assert ran.code == 2
        assert ran.err == "hivemind: work: a runner works on this batch already; wait for it, or end it\n"
        runner.send_signal(signal.SIGINT)
        await ended(runner)


@pytest.mark.e2e
async def test_a_plan_that_changed(tmp_path: Path) -> None:
    """What is over can't change, and that is told at its line; what failed can be mended, new tasks come, others go."""
    async with served(tmp_path) as (_, here):
        await _changed(here)


async def _changed(here: Bench) -> None:
    here.write([Kind("a"), Kind("b", first="1"), Kind("c", after=("b",)), Kind("gone", after=("b",))])
    assert (await here.run()).code == 1
    here.write([Kind("a", later="9"), Kind("b", later="8"), Kind("c", after=("a",))])
    ran = await here.run("--resume")
    assert ran.code == 2
    assert [line.partition(": ")[2] for line in ran.err.splitlines()] == [
        "work.yaml:1: task a is done, so its command can't change; change it back, or begin anew with --fresh",
        "work.yaml:1: task b is failed, so its command can't change; change it back, or begin anew with --fresh",
        "work.yaml:1: task c: after can't change any more; change it back, or begin anew with --fresh",
    ]
    mended = [Kind("a"), Kind("b", first="0"), Kind("c", after=("b",)), Kind("new", after=("c",))]
    here.write(mended)
    ran = await here.run("--retry-failed")
    assert ran.code == 1, ran.err
    states = {name: row["state"] for name, row in here.report.items()}
    assert states == {"a": "done", "b": "done", "c": "done", "new": "done", "gone": "cancelled"}
    assert here.journal.count("begin b") == 2


@pytest.mark.e2e
async def test_another_plan_of_the_same_name(tmp_path: Path) -> None:
    """One batch doesn't go on as another, whose tasks it would cancel."""
    async with served(tmp_path) as (_, here):
        here.write([Kind("a", first="1"), Kind("b", after=("a",))])
        assert (await here.run()).code == 1
        other = Bench(tmp_path, here.port, "other.yaml", here.environ)
        other.write([Kind("x")], name="work")
        ran = await other.run("--resume")
    assert (ran.code, ran.err.splitlines()[-1]) == (
        2,
        f"hivemind: work: this batch was begun from {tmp_path / here.plan}, another plan;"
        " give this one a name of its own",
    )


@pytest.mark.e2e
async def test_nothing_to_resume(tmp_path: Path) -> None:
    """`--resume` of what was never begun begins it; a proxy that knows it no more isn't taken for a new beginning."""
    here = bench(tmp_path)
    here.write([Kind("a", first="1")])
    for part in ("runners", "logs", "attempts"):  # as a runner leaves it that was killed before it had submitted a task
        (tmp_path / "state/batches/work/1" / part).mkdir(parents=True)
    assert (await here.run("--resume")).code == 1
    here.kill_proxy()
    for path in (tmp_path / "state").glob("proxy-*.db*"):
        path.unlink()
    ran = await here.run("--resume")
    assert ran.code == 2
    assert "doesn't know this batch any more" in ran.err.splitlines()[-1]
    assert here.journal == ["begin a"]


@pytest.mark.e2e
async def test_budgets_and_the_tree(tmp_path: Path) -> None:
    """The batch is its agents' parent, with the budget of all together; a task has its own, with what it starts."""
    here = bench(tmp_path)
    here.write([Kind("a", works_s=3600, more={"budget": "200k"}), task("b", "true")], budget="$20/day")
    async with here.proxy(), here.batch() as runner:
        await here.journal_of(1)
        found = await agents(here)
        batch, mine, budget = found["work"], found["work.a"], found["work.a"].budget
        assert batch.budget is not None
        assert (batch.budget.dollars, batch.budget.per, batch.budget.covers) == (20.0, "day", "subtree")
        assert budget is not None
        assert (mine.parent, mine.running, budget.tokens, budget.covers) == ("work", True, 200_000, "subtree")
        runner.send_signal(signal.SIGINT)
        await ended(runner)
        found = await agents(here)
        assert [found[name].running for name in ("work", "work.a")] == [False, False]


@pytest.mark.e2e
async def test_ended_by_somebody_else(tmp_path: Path) -> None:
    """A task that is cancelled at the proxy while it runs is ended here, and nothing is told of it twice."""
    here = bench(tmp_path)
    here.write([Kind("a", works_s=3600), Kind("b", after=("a",))])
    async with here.proxy(), here.batch() as runner:
        await here.journal_of(1)
        async with here.program("tasks", "cancel", "work.a") as process:
            assert (await ended(process)).code == 0
        ran = await ended(runner)
    assert (ran.code, here.report["a"]["state"], here.report["b"]["state"]) == (1, "cancelled", "blocked")
    assert "a was ended, because somebody else ended its task" in ran.err


async def test_run_by_somebody_else(tmp_path: Path) -> None:
    """What another runner, somewhere else, is at isn't taken from it, and not begun anew beside it."""
    async with served(tmp_path) as (running, here):
        here.write([Kind("a")])
        running.proxy.apply(SubmitTasks((TaskSpec("work.a", batch="work", command=("true",)),)), "bob")
        running.proxy.apply(ClaimTask("work.a", "bob"), "bob")
        for flag in ("--resume", "--fresh"):
            ran = await here.run(flag)
            assert (ran.code, here.journal) == (2, [])
            assert "task a is run by somebody else (bob); wait for it, or end it with: hivemind tasks" in ran.err


@pytest.mark.e2e
async def test_within_an_agent_at_the_limit(tmp_path: Path) -> None:
    """A batch that is started within a task of another goes on where one agent alone may run, for its own waits."""
    here = bench(tmp_path)
    inner = {"name": "inner", "tasks": {"x": {"command": tell("x $HIVEMIND_AGENT")}}}
    (tmp_path / "inner.yaml").write_text(json.dumps(inner))
    here.write([task("a", ["sh", "-c", "exec $PROGRAM batch inner.yaml"]), task("b", tell("b"), priority="low")])
    async with here.program("proxy", "--max-agents", "1") as proxy:
        assert proxy.stdout is not None
        await proxy.stdout.readline()
        ran = await here.run(PROGRAM=str(HIVEMIND))
    assert ran.code == 0, (ran.err, lines_of(Path(here.report["a"]["log"])))
    assert here.journal == ["x inner.x", "b"]


@pytest.mark.e2e
async def test_as_many_at_once_as_may(tmp_path: Path) -> None:
    """The plan's limit and the proxy's both hold, each place is used again, and whoever is more urgent is first."""
    names = {
        name: {"priority": priority} for name, priority in zip("abcdef", ["low", "high", "normal"] * 2, strict=True)
    }
    async with served(tmp_path, max_agents=2) as (_, here):
        here.write([Kind(name, gated=True, more=more) for name, more in names.items()])
        running = asyncio.ensure_future(here.run())
        await here.journal_of(2)
        here.open_gate()
        assert (await running).code == 0
        begun = [line for line in here.journal if line.startswith("begin")]
        assert most_at_once(here.journal) == 2
        assert (sorted(begun[:2]), sorted(begun[-2:])) == (["begin b", "begin e"], ["begin a", "begin d"])
        (tmp_path / "journal").unlink()
        assert (await here.run("--max-agents", "1")).code == 0
    assert here.journal[::2] == [f"begin {name}" for name in "becfad"]


def most_at_once(journal: list[str]) -> int:
    """How many tasks were between their beginning and their end."""
    running, most = 0, 0
    for line in journal:
        running += 1 if line.startswith("begin") else -1
        most = max(most, running)
    return most


@pytest.mark.e2e
async def test_on_a_terminal(tmp_path: Path) -> None:
    """It shows what runs in place, and takes that away at the end."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    async with served(tmp_path) as (_, here), contextlib.AsyncExitStack() as stack:
        here.write([Kind("a", works_s=1.0), Kind("b", after=("a",))])
        runner = await stack.enter_async_context(here.program("batch", here.plan, terminal=its, TERM="xterm"))
        reading = asyncio.ensure_future(asyncio.to_thread(up_to, "/TASK.log", ours))
        assert await runner.wait() == 0
        # Held open until then: some systems drop what is unread when the last one lets go of a terminal.
        done, _ = await asyncio.wait((reading,), timeout=10)
        os.close(its)
        assert done, "the table never came"
        shown = reading.result()
    os.close(ours)
    assert re.search(r"work.*  0 of 2 done  .*\n.*1 running, 1 waiting.*\n.*running +try", shown)
    assert re.search(r"\x1b\[\d+F\x1b\[J\x1b\[32mb is done after \d.*\n", shown)
    assert "a    \x1b[32mdone" in shown.rpartition("\x1b[J")[2]


def up_to(last: str, terminal: int) -> str:
    """What is written on it up to these last words."""
    shown = b""
    while last.encode() not in shown:
        shown += os.read(terminal, 65536)
    return shown.decode()


async def test_check(tmp_path: Path) -> None:
    """`--check` prints the order and starts nothing; a wrong plan is as many lines as there are mistakes."""
    here = bench(tmp_path)
    here.write([Kind("b", after=("a",)), Kind("a", more={"priority": "low"})])
    ran = await here.run("--check")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == ("work: 2 tasks; one at a time, in this order:\n    1  a  low\n    2  b  normal    after a\n")
    (tmp_path / "work.yaml").write_text("tasks:\n  a: {after: b}\n")
    ran = await here.run()
    assert (ran.code, ran.out, os.listdir(tmp_path)) == (2, "", ["work.yaml", "worker.sh"])
    assert ran.err.splitlines() == [
        "hivemind: work.yaml:2: task a waits for 'b', which isn't in the plan; there is no such task",
        "hivemind: work.yaml:2: task a: it has no command",
    ]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--resume", "--fresh"), "--fresh begins anew and --resume goes on; choose one"),
        (("--json", "nowhere/report.json"), "--json nowhere/report.json: can't be written"),
        (("--max-agents", "many"), "--max-agents"),
    ],
)
async def test_wrong_flags(tmp_path: Path, flags: tuple[str, ...], error: str) -> None:
    """One line, and nothing is started."""
    here = bench(tmp_path)
    here.write([Kind("a")])
    ran = await here.run(*flags)
    assert (ran.code, here.journal, ran.err.count("\n")) == (2, [], 1)
    assert error in ran.err
