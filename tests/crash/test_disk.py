"""A disk that is full for a while, and a state directory that vanishes, under a running proxy."""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from ports import unused_port
from store.provider import Fleet, providing
from store.test_kill import program
from waiting import until

from benchmarks.crash.serving import NAMES, serving_in
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import POOL
from hivemind.scheduler.types import Priority
from hivemind.store.checkpoints import folder_in, listed
from hivemind.store.schema import load

HANGS_S = 60


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process is set as Linux does it")
async def test_a_full_disk(tmp_path: Path) -> None:
    """Database, journal, checkpoints and settings can't be written, which is said once of each; requests are answered
    and commands carried out; when there is room again all four are written."""
    port = unused_port()
    async with providing() as (_, upstream), program(upstream, port, tmp_path, "--journal.enabled", "on") as running:
        assert running.process.stderr is not None
        warnings: list[str] = []
        fleet = Fleet(running.url, NAMES)
        do, size = running.client.command, resource.RLIMIT_FSIZE
        _, most = resource.prlimit(running.process.pid, size)

        async def said(*texts: str) -> None:
            assert running.process.stderr is not None
            while not all(any(text in line for line in warnings) for text in texts):
                line = (await running.process.stderr.readline()).decode()
                assert line, warnings
                warnings.extend([line] if "WARNING" in line else [])

        async with fleet.at_work():
            await fleet.until(10)
            resource.prlimit(running.process.pid, size, (0, most))
            await do(cmd.StopAgent("alice", True), "test")
            with pytest.raises(cmd.Rejected, match="can't be written"):
                await running.client.write(await running.client.draft({"aimd.alpha": 0.5}), "test")
            await said("usage and tasks can't be written", "the journal", "checkpoints can't be written")
            await fleet.until(fleet.answers + 20)
            resource.prlimit(running.process.pid, size, (most, most))
            await said("usage and tasks are written", "the journal is written again")
            await do(cmd.StopAgent("alice", False), "test")
            await do(cmd.StopAgent("alice", True), "test")
            await running.client.write(await running.client.draft({"aimd.alpha": 0.5}), "test")
            await until(lambda: listed(folder_in(tmp_path / "state"))[0])
        rest = await running.stop()
    told = "".join(warnings) + rest
    for text in ("usage and tasks can't", "traffic goes on", "checkpoints can't"):
        assert told.count(text) == 1, told
    assert "Traceback" not in told
    assert (tmp_path / "hivemind.toml").read_text() == "[aimd]\nalpha = 0.5\n"


@pytest.mark.e2e
async def test_it_vanishes(tmp_path: Path) -> None:
    """Traffic and commands go on, each part says so once, the database is written anew with all that it held, the
    journal goes on in the new folder, and the end is in good order."""
    async with serving_in(tmp_path / "served", random.Random(1)) as serving:
        served = serving.served
        await served.start("proxy")
        assert await served.ready()
        fleet = Fleet(served.url, NAMES)
        async with asyncio.timeout(HANGS_S), fleet.at_work():
            await fleet.until(10)
            shutil.rmtree(served.state)
            await served.client.command(cmd.SetPriority("alice", Priority.HIGH), "test")
            await fleet.until(fleet.answers + 20)
            await until(lambda: "is written anew: nothing is lost" in served.errors)
            await until(lambda: list(served.state.glob("journals/*.jsonl")))
            await fleet.until(fleet.answers + 20)
        books = await served.books()
        code = await served.stop()
        errors = served.errors
        first = min((served.state / "journals").iterdir(), key=lambda path: path.stat().st_mtime)
        kinds = {type(event).__name__ for event in open_journal(first).events()}
    assert code == 0
    assert "Traceback" not in errors
    assert errors.count("is written anew: nothing is lost") == 1
    (database,) = served.state.glob("proxy-*.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        saved = {each.name: each for each in load(connection, 0.0).agents}
    assert saved["alice"].priority is Priority.HIGH
    assert saved[POOL].own.ever.tokens >= books[None]["ever"]["tokens"] > 0
    assert "Finished" in kinds
