"""The real program, killed in the middle of its work: what it knew a moment ago it knows when it is started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from control import processes
from ports import unused_port
from store.provider import INPUT, OUTPUT, Fleet, providing
from waiting import until

from hivemind.api_types import PREFIX
from hivemind.control.client import ControlClient
from hivemind.control.discovery import Token
from hivemind.prices import Prices
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority, TaskSpec, Usage

pytestmark = pytest.mark.e2e
HIVEMIND = Path(sys.executable).with_name("hivemind")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HIVEMIND", "HTTP"))}
NAMES = ("alice", "bob", "carol", "dave")
HANGS_S = 60
CONTROL = "control-token"


@dataclass
class Program(processes.Program):
    """A running `hivemind proxy`, and a client that steers it."""

    client: ControlClient
    http: httpx.AsyncClient

    async def do(self, *commands: cmd.Command) -> None:
        """Have them carried out; what was known when the last one was acknowledged survives."""
        for command in commands:
            await self.client.command(command, "test")

    async def books(self, agent: str | None = None) -> dict[str, Any]:
        """What an agent (None: all together) used and may use."""
        query = {} if agent is None else {"agent": agent}
        head = {"authorization": f"Bearer {CONTROL}"}
        answer = (await self.http.get(f"{self.url}{PREFIX}/budgets", params=query, headers=head)).json()
        found: dict[str, Any] = answer["pool"] if agent is None else answer["agents"][0]
        return found

    async def used(self, agent: str | None = None, period: str = "ever") -> int:
        """Tokens."""
        tokens: int = (await self.books(agent))[period]["tokens"]
        return tokens

    async def says(self, text: str) -> None:
        """Wait until the next line but what operators did is about that."""
        assert self.process.stderr is not None
        line = "INFO"
        while "INFO" in line:
            line = (await self.process.stderr.readline()).decode()
        assert text in line


@contextlib.asynccontextmanager
async def program(upstream: str, port: int, tmp_path: Path, *flags: str) -> AsyncIterator[Program]:
    """Start it, and see to it that it is gone afterwards."""
    flags = ("--profile", "anthropic", "--rpm", "0", "--tpm", "0", "--journal.enabled", "off", *flags)
    async with (
        processes.program(
            tmp_path, *flags, upstream=f"lab={upstream}", port=port, HIVEMIND_CONTROL_TOKEN=CONTROL
        ) as started,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        client = ControlClient(started.url, Token(CONTROL, "test"), http)
        yield Program(started.process, started.line, started.port, client, http)


async def test_three_kills_in_a_row(tmp_path: Path) -> None:
    """Under load, streams and plain answers: never more than the provider counted, never less than what was answered
    when the proxy last said that it had written everything down."""
    port = unused_port()
    async with providing() as (provider, upstream):
        fleet = Fleet(f"http://127.0.0.1:{port}", NAMES)
        known = dict.fromkeys(NAMES, 0)
        for life in range(4):
            async with program(upstream, port, tmp_path) as running:
                found = {name: await running.used(name) if life else 0 for name in NAMES}
                assert all(known[name] <= found[name] <= provider.used[name] for name in NAMES)
                assert await running.used() == await running.used(period="run") == sum(found.values())
                before = dict(fleet.answered)
                async with fleet.at_work():
                    await fleet.until(fleet.answers + 20)
                    known = {name: found[name] + fleet.answered[name] - before.get(name, 0) for name in NAMES}
                    await running.do(cmd.SetPriority("alice", Priority.HIGH))
                    await fleet.until(fleet.answers + 20)
                    await running.kill()
        async with program(upstream, port, tmp_path) as running:
            used = {name: await running.used(name) for name in NAMES}
            await running.stop()
        async with program(upstream, port, tmp_path) as running:
            assert {name: await running.used(name) for name in NAMES} == used
            assert [await running.used(name, "run") for name in (*NAMES, None)] == [0] * 5
            assert [await running.used(name, "day") for name in NAMES] == list(used.values())
            assert await running.stop() == ""


async def test_a_stream_that_is_cut_counts(tmp_path: Path) -> None:
    """As far as its agent had got when the proxy died, once, however often it is started again after that."""
    port = unused_port()
    async with providing() as (provider, upstream):
        provider.event_s = 0.25
        fleet = Fleet(f"http://127.0.0.1:{port}", ("alice",))
        async with program(upstream, port, tmp_path) as running, fleet.at_work():
            await until(lambda: provider.used["alice"] >= 56)
            await running.do(cmd.SetBudget("alice", 10_000))
            await running.kill()
        counted = provider.used["alice"]
        found = []
        for _ in range(3):
            async with program(upstream, port, tmp_path) as running:
                found.append((await running.used("alice"), await running.used()))
                await running.kill()
        assert found == [found[0]] * 3
        assert found[0][0] == found[0][1]
        assert 51 <= found[0][0] <= counted


@pytest.mark.parametrize("killed", [True, False])
async def test_what_was_used_before_prices_were_known(tmp_path: Path, killed: bool) -> None:
    """It costs what it would have, though two proxies ended before they had loaded them."""
    port, model = unused_port(), "claude-sonnet-5"
    ask = {"model": model, "stream": False, "max_tokens": 9, "messages": []}
    async with providing() as (_, upstream):
        for _ in range(2):
            async with program(upstream, port, tmp_path) as running:
                answer = await running.http.post(f"{running.url}/agent/alice/v1/messages", json=ask)
                assert answer.status_code == 200
                await running.do(cmd.SetPriority("alice", Priority.LOW))
                await (running.kill() if killed else running.stop())
        async with program(upstream, port, tmp_path) as running:
            while not (await running.books("alice"))["ever"]["dollars"]:  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.05)
            found = [(await running.books(name))["ever"] for name in ("alice", None)]
    prices = Prices()
    dollars = prices.cost("anthropic", model, Usage(INPUT, 0, 0, OUTPUT))
    assert dollars is not None
    assert [(spent["dollars"], spent["unpriced"]) for spent in found] == [(pytest.approx(2 * dollars), 0)] * 2


@pytest.mark.parametrize("killed", [True, False])
async def test_decisions_and_tasks(tmp_path: Path, killed: bool) -> None:
    """Priorities, who is paused or stopped, budgets, and where every task stands, whichever way the proxy ended."""
    port = unused_port()
    tasks = (TaskSpec("a", estimated_tokens=5), TaskSpec("b", after=("a",)), TaskSpec("c"), TaskSpec("d", batch="x"))
    async with program("http://127.0.0.1:9", port, tmp_path) as running:
        await running.do(
            cmd.SetBudget("alice", 5000, per="ever"),
            cmd.SetBudget("bob", None, 2.5, per="day", covers="subtree"),
            cmd.SetBudget(None, 10**6),
            cmd.SetPriority("alice", Priority.LOW),
            cmd.PauseAgent("alice", True),
            cmd.StopAgent("bob", True),
            cmd.SubmitTasks(tasks),
            cmd.ClaimTask("a", "runner"),
            cmd.FinishTask("a", True),
            cmd.ClaimTask("c", "runner"),
            cmd.ForgetTasks("x"),
        )
        budgets = [await running.books(name) for name in ("alice", "bob", None)]
        graph = (await running.client.tasks()).tasks
        await (running.kill() if killed else running.stop())
    async with program("http://127.0.0.1:9", port, tmp_path) as running:
        assert [await running.books(name) for name in ("alice", "bob", None)] == budgets
        assert (await running.client.tasks()).tasks == graph
        assert [(task.spec.id, task.state) for task in graph] == [("a", "done"), ("b", "ready"), ("c", "running")]
        refused = await running.http.post(f"{running.url}/agent/bob/v1/messages", json={"model": "m"})
        assert (refused.status_code, "stopped" in refused.text) == (400, True)
        await running.do(cmd.PauseAgent("alice", False), cmd.FinishTask("c", False, "exit code 1"))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process is set as Linux does it")
async def test_a_disk_that_is_full_for_a_while(tmp_path: Path) -> None:
    """Requests are answered, orders carried out; it is told once; and when there is room again nothing is missing."""
    port = unused_port()
    async with providing() as (provider, upstream):
        fleet = Fleet(f"http://127.0.0.1:{port}", NAMES)
        async with program(upstream, port, tmp_path) as running:
            pid = running.process.pid
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            async with fleet.at_work():
                await fleet.until(10)
                await running.do(cmd.SetPriority("alice", Priority.HIGH))
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
                await fleet.until(fleet.answers + 20)
                await running.do(cmd.SetPriority("alice", Priority.LOW), cmd.SetBudget("bob", 10**6))
                await running.says("usage and tasks can't be written to")
                await fleet.until(fleet.answers + 20)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
                await running.says("usage and tasks are written to")
                known = dict(fleet.answered)
                await running.do(cmd.SetPriority("alice", Priority.HIGH))
                await running.kill()
        async with program(upstream, port, tmp_path) as running:
            for name in NAMES:
                assert known[name] <= await running.used(name) <= provider.used[name]
            assert (await running.books("bob"))["budget"]["tokens"] == 10**6


@pytest.mark.parametrize("command", ["hivemind proxy", "hivemind-tui"])
async def test_a_file_that_cannot_be_used(tmp_path: Path, command: str) -> None:
    """The program doesn't start, with one line and exit code 2, and leaves the file alone."""
    path = tmp_path / "proxy-0.db"
    path.write_text("no database")
    program, *words = command.split()
    process = await asyncio.create_subprocess_exec(
        HIVEMIND.with_name(program),
        *(*words, "--upstream", "http://127.0.0.1:9", "--port", "0", "--state-dir", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
    )
    said, errors = await asyncio.wait_for(process.communicate(), HANGS_S)
    assert (process.returncode, said, errors.count(b"\n")) == (2, b"", 1)
    assert f"{path} can't be used (file is not a database): move it away".encode() in errors
    assert path.read_text() == "no database"
