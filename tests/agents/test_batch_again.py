"""A batch of which some tasks failed, tried again."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.batches import Kind, bench, served
from agents.running import ended

STOPPED = "exit code 5, stopped by an operator"
SKIP = {"on_failure": "skip"}


@pytest.mark.e2e
async def test_what_was_skipped_has_its_turn(tmp_path: Path) -> None:
    """Once what failed is done, tasks that were skipped for its sake, however far behind it, run too, each once."""
    kinds = [
        Kind("d", after=("c", "b"), more=SKIP),
        Kind("c", after=("b",), more=SKIP),
        Kind("b", after=("a",), more=SKIP),
        Kind("a", first="3"),
        Kind("never", first="4", later="4"),
        Kind("beside", after=("never",), more=SKIP),
    ]
    async with served(tmp_path) as (_, here):
        here.write(kinds)
        first = await here.run()
        states = {name: row["state"] for name, row in here.report.items()}
        assert (first.code, states["a"], states["d"], states["beside"]) == (1, "failed", "skipped", "skipped")
        assert (await here.run("--resume")).code == 1
        assert {name: row["state"] for name, row in here.report.items()} == states
        assert (await here.run("--retry-failed")).code == 1
    states = {name: row["state"] for name, row in here.report.items()}
    assert states == {**dict.fromkeys("abcd", "done"), "never": "failed", "beside": "skipped"}
    assert [here.journal.count(f"ok {name}") for name in "abcd"] == [1, 1, 1, 1]


@pytest.mark.e2e
async def test_one_that_was_stopped_stays_so(tmp_path: Path) -> None:
    """A task of which an operator stopped the agent isn't started again by itself; tried again it may ask again."""
    here = bench(tmp_path)
    here.write([Kind("a", first="5", gated=True, more={"restarts": 3})])
    async with here.proxy():
        async with here.batch() as runner:
            await here.journal_of(1)
            async with here.program("stop", "work.a") as stop:
                assert (await ended(stop)).code == 0
            here.open_gate()
            assert (await ended(runner)).code == 1
        assert (here.report["a"]["attempts"], here.report["a"]["note"]) == (1, STOPPED)
        assert (await here.run("--retry-failed")).code == 0
    assert here.journal == ["begin a", "begin a", "ok a"]
