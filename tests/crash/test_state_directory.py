"""A state directory that vanishes under a running proxy, and comes back."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from store.provider import Fleet

from benchmarks.crash.serving import NAMES, serving_in
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority

HANGS_S = 60


@pytest.mark.e2e
async def test_it_vanishes(tmp_path: Path) -> None:
    """Traffic and commands go on, each part says so once, the journal goes on in the new folder, and the end is in good
    order."""
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
            while "usage and tasks can't be written to" not in served.errors:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
            while not list(served.state.glob("journals/*.jsonl")):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
            await fleet.until(fleet.answers + 20)
        code = await served.stop()
        errors = served.errors
        first = min((served.state / "journals").iterdir(), key=lambda path: path.stat().st_mtime)
        kinds = {type(event).__name__ for event in open_journal(first).events()}
    assert code == 0
    assert "Traceback" not in errors
    assert errors.count("usage and tasks can't be written to") == 1
    assert "Finished" in kinds
