"""`hivemind work` runs what is submitted outside of batches, whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from agents.running import Place, at, before, ended, providing, said
from agents.test_run_places import serving
from ports import unused_port
from proxy.kit import Running
from waiting import until

from hivemind.api_types import NOBODY
from hivemind.control.client import ControlClient, open_http
from hivemind.control.discovery import find_token, parse_address
from hivemind.scheduler.commands import SubmitTasks
from hivemind.scheduler.types import TaskSpec

GATED = "echo begin $HIVEMIND_TASK >> log; while [ ! -e go ]; do sleep 0.02; done; echo end $HIVEMIND_TASK >> log"


def submit(running: Running, folder: Path, *names: str, script: str = GATED) -> None:
    """Add tasks that start a shell there."""
    specs = [TaskSpec(name, command=("sh", "-c", script), cwd=str(folder)) for name in names]
    running.proxy.apply(SubmitTasks(tuple(specs)), "test")


def states(running: Running) -> dict[str, str]:
    """The tasks' states."""
    return {task.spec.id: task.state for task in running.proxy.processes.tasks(None)}


def log(folder: Path) -> list[str]:
    """What the tasks wrote."""
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


async def work(place: Place, *flags: str) -> asyncio.subprocess.Process:
    """Start a worker, and wait until it is at work."""
    process = await place.start("hivemind", "work", *flags)
    await said(process, "works on tasks")
    return process


@pytest.mark.e2e
async def test_what_comes(tmp_path: Path) -> None:
    """A task that nobody would run says so when it is submitted; a worker runs it, in the folder where it was
    submitted, one after another by their order, and leaves a plan's tasks alone."""
    (tmp_path / "state").mkdir()
    async with before(tmp_path) as (running, place):
        lonely = await place.called("tasks", "submit", "first", "--", "sh", "-c", "pwd > folder; exit 0")
        second = await place.called("tasks", "submit", "second", "--after", "first", "--", "sh", "-c", "cat folder")
        running.proxy.apply(SubmitTasks((TaskSpec("p.t", command=("true",), batch="p", planned=True),)), "test")
        listed = await place.called("tasks")
        process = await work(place, "--idle-exit", "0.5")
        await until(lambda: states(running)["second"] == "done")
        attended = await place.called("tasks", "submit", "third", "--", "false")
        ran = await ended(process)
        found = states(running)
    assert (lonely.code, lonely.err, second.err) == (0, f"hivemind: first: {NOBODY}\n", f"hivemind: second: {NOBODY}\n")
    assert "no runner" in listed.out
    assert (attended.code, attended.err) == (0, "")
    assert found == {"first": "done", "second": "done", "third": "failed", "p.t": "ready"}
    assert ran.code == 0, ran.err
    assert (tmp_path / "state" / "work" / "logs" / "second.log").read_text() == f"{tmp_path}\n"


@pytest.mark.e2e
async def test_a_killed_worker(tmp_path: Path) -> None:
    """What a killed worker has begun goes on, is taken over by the next one, and nothing runs twice."""
    async with before(tmp_path) as (running, place):
        first = await work(place, "--max-agents", "2")
        submit(running, tmp_path, "a", "b", "c")
        await until(lambda: len(log(tmp_path)) == 2)
        first.kill()
        await first.wait()
        second = await work(place, "--idle-exit", "0.2", "--max-agents", "1")
        await said(second, "still runs")
        (tmp_path / "go").touch()
        ran = await ended(second)
        found = states(running)
    assert ran.code == 0, ran.err
    assert found == {"a": "done", "b": "done", "c": "done"}
    assert sorted(log(tmp_path)) == sorted(f"{what} {name}" for name in "abc" for what in ("begin", "end"))


@pytest.mark.slow
async def test_a_restarted_proxy(tmp_path: Path) -> None:
    """A worker waits for a proxy that is away: what it runs goes on meanwhile, and is reported to the next one."""
    port = unused_port()
    url = parse_address(f"http://127.0.0.1:{port}")
    environ = {"HIVEMIND_PORT": str(port), "HIVEMIND_STATE_DIR": str(tmp_path / "state")}
    async with providing() as (_, upstream), at(tmp_path, **environ) as place, open_http(url) as http:
        async with serving(place, upstream, port):
            worker = await work(place)
            client = ControlClient(url.url, find_token(url, environ), http)
            specs = [TaskSpec(name, command=("sh", "-c", GATED), cwd=str(tmp_path)) for name in "ab"]
            await client.command(SubmitTasks(tuple(specs)), "test")
            await until(lambda: len(log(tmp_path)) == 1)
        await said(worker, "the proxy is away")
        (tmp_path / "go").touch()
        async with serving(place, upstream, port):
            assert client.renew_token()
            found: dict[str, str] = {}
            while found != {"a": "done", "b": "done"}:
                found = {task.spec.id: task.state for task in (await client.tasks()).tasks}
                await asyncio.sleep(0.05)
    assert log(tmp_path) == ["begin a", "end a", "begin b", "end b"]
