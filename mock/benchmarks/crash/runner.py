"""Kills of a batch's runner, of the proxy beside it, and of `hivemind run`."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from agents.batches import Bench, bench, check, killed, made_up
from detached import detached_in, end_all

from benchmarks.crash.result import Kill, drafts_in, running_in
from hivemind.scheduler.places import LEASE_S

TASKS = 14
HANGS_S = 120
MOMENTS = (
    "at random",
    "a task is claimed",
    "a task is started",
    "a result is written",
    "starting",
    "its proxy is killed",
)
SLOW_S = 0.001
_STILL_RUNS = b"runs already"


async def kill_batch(folder: Path, moment: str, rng: random.Random) -> Kill:
    """Kill the runner of a new batch at that moment, run it to its end, and look."""
    kill = Kill("batch", moment)
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs meanwhile
    here, kinds = bench(folder), made_up(rng.randrange(1 << 30), TASKS)
    here.write(kinds, max_agents=3)
    if moment == "its proxy is killed":
        await _proxy_killed(here, rng)
    else:
        async with here.batch() as runner:
            until = time.monotonic() + (rng.uniform(0, 0.8) if moment == "starting" else HANGS_S)
            come = _until(moment, here, rng)
            while not (time.monotonic() >= until or come()) and runner.returncode is None:  # noqa: ASYNC110
                await asyncio.sleep(SLOW_S)
            await killed(runner)
        if rng.random() < 0.5:
            end_all(detached_in(folder))  # the proxy that it started too
        ran = await here.run("--resume")
        kill.holds(ran.code in (0, 1), f"--resume: exit code {ran.code}: {ran.err[-500:]}")
        kill.holds("Traceback" not in ran.err, f"--resume: a traceback: {ran.err[-500:]}")
    try:
        check(kinds, here)
    except AssertionError as error:
        kill.broken.append(f"a task didn't run exactly once and isn't reported: {error}")
    kill.drafts = len(drafts_in(folder))
    await _none_left(kill, folder)
    return kill


async def _proxy_killed(here: Bench, rng: random.Random) -> None:
    async with here.proxy() as proxy, here.batch() as runner:
        await here.journal_of(rng.randrange(1, TASKS))
        await killed(proxy)
        await asyncio.sleep(rng.uniform(0, 0.5))
        async with here.proxy():
            async with asyncio.timeout(HANGS_S):
                await runner.communicate()


def _until(moment: str, here: Bench, rng: random.Random) -> Callable[[], bool]:
    """What tells that the moment has come, somewhere in the middle of the batch."""
    attempts = here.folder / "state/batches/work/1/attempts"
    number = rng.randrange(1, TASKS // 2)
    if moment == "a task is claimed":
        return lambda: len(list(attempts.glob("*/*"))) >= number
    if moment == "a task is started":
        return lambda: len(list(attempts.glob("*/*/run/taken"))) >= number
    if moment == "a result is written":
        return lambda: len(list(attempts.glob("*/*/run/ended"))) >= number
    until = time.monotonic() + rng.uniform(0.8, 3)
    return lambda: moment == "at random" and time.monotonic() >= until


async def kill_run(folder: Path, rng: random.Random) -> Kill:
    """Kill `hivemind run`, alone or with the proxy that it started: its command goes on to its end, and its name is
    free again once its place has lapsed."""
    kill = Kill("run", "at random")
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs meanwhile
    here = bench(folder)
    worker = ("sh", "-c", "echo begin >> journal; while [ ! -e gate ]; do sleep 0.05; done; echo end >> journal")
    async with here.program("run", "--name", "alice", "--", *worker) as runner:
        await here.journal_of(1)
        await asyncio.sleep(rng.uniform(0, 1))
        await killed_alone(runner)
    if rng.random() < 0.5:
        end_all(detached_in(folder))
    here.open_gate()
    await here.journal_of(2)
    report = folder / "report.json"
    words = ("run", "--name", "alice", "--report", str(report), "--", "sh", "-c", "echo again >> journal")
    errors, until = _STILL_RUNS, time.monotonic() + 2 * LEASE_S
    while _STILL_RUNS in errors and time.monotonic() < until:
        async with here.program(*words) as runner, asyncio.timeout(HANGS_S):
            _, errors = await runner.communicate()
    kill.holds(runner.returncode == 0, f"it doesn't run again: {errors.decode()[-500:]}")
    kill.holds(here.journal == ["begin", "end", "again"], f"it ran as {here.journal}")
    kill.holds(report.exists() and json.loads(report.read_text())["exit_code"] == 0, "there is no report")
    kill.drafts = len(drafts_in(folder))
    await _none_left(kill, folder)
    return kill


async def killed_alone(process: asyncio.subprocess.Process) -> None:
    """Kill a program whose command holds its output open."""
    process.kill()
    while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for the pipes' ends too
        await asyncio.sleep(SLOW_S)


async def _none_left(kill: Kill, folder: Path) -> None:
    end_all(detached_in(folder))  # it would end when idle
    left = running_in(folder)
    for _ in range(200):
        if not left:
            return
        await asyncio.sleep(0.05)
        left = running_in(folder)
    kill.broken.append(f"processes go on: {left}")
