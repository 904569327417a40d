"""Batches whose runner, whose proxy, or both are killed in the middle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from agents.batches import Kind, bench, check, killed, made_up
from agents.running import ended, said

pytestmark = pytest.mark.e2e


async def test_a_hundred_tasks(tmp_path: Path) -> None:
    """A runner is killed in the middle, and then one with the proxy: with `--resume` every task runs to success exactly
    once or is reported, and none before what it waits for."""
    here, kinds = bench(tmp_path), made_up(7, 100)
    here.write(kinds, max_agents=8)
    for lines, flags in ((35, ()), (80, ("--resume",))):
        async with here.batch(*flags) as runner:
            await here.journal_of(lines)
            await killed(runner)
        if flags:
            here.kill_proxy()
    assert len(here.journal) < 125, "it was nearly over"
    ran = await here.run("--resume")
    assert ran.code == 1, ran.err
    found = check(kinds, here)
    assert found["done"] > 50
    assert min(found["failed"], found["blocked"], found["skipped"]) > 0


async def test_a_proxy_that_forgot(tmp_path: Path) -> None:
    """What runs isn't ended because the proxy came back without its memory; that is said, and nothing more started."""
    here = bench(tmp_path)
    here.write([Kind("a", gated=True), Kind("b", after=("a",))])
    async with here.proxy() as proxy, here.batch() as runner:
        await here.journal_of(1)
        await killed(proxy)
        for path in (tmp_path / "state").glob("proxy-*.db*"):
            path.unlink()
        async with here.proxy():
            await said(runner, "the proxy doesn't know this batch any more")
            here.open_gate()
            ran = await ended(runner)
    assert (ran.code, here.journal) == (1, ["begin a", "ok a"])
    assert {name: row["state"] for name, row in here.report.items()} == {"a": "done", "b": "waiting"}


async def test_what_runs_is_adopted(tmp_path: Path) -> None:
    """A process that outlives its runner isn't started again, and its end counts when it comes; one that ended
    meanwhile isn't either."""
    here = bench(tmp_path)
    kinds = [Kind("long", gated=True), Kind("short", works_s=1.0), Kind("last", after=("long", "short"))]
    here.write(kinds)
    async with here.batch() as runner:
        await here.journal_of(2)
        await killed(runner)
    await here.until(lambda: "ok short" in here.journal)
    async with here.batch("--resume") as runner:
        assert "short still runs" not in await said(runner, "long still runs")
        here.open_gate()
        ran = await ended(runner)
    assert (ran.code, check(kinds, here)["done"]) == (0, 3)
    assert here.journal.count("begin long") == here.journal.count("begin short") == 1


async def test_failures_without_a_proxy_dont_count(tmp_path: Path) -> None:
    """What fails after runner and proxy were killed is started again, whatever its restarts."""
    here = bench(tmp_path)
    here.write([Kind("victim", first="1", gated=True)])
    async with here.batch() as runner:
        await here.journal_of(1)
        await killed(runner)
    here.kill_proxy()
    here.open_gate()
    taken = next((tmp_path / "state/batches/work/1/attempts/victim").iterdir()) / "run"
    await here.until((taken / "ended").exists)
    ran = await here.run("--resume")
    assert (ran.code, here.journal) == (0, ["begin victim", "begin victim", "ok victim"])
    assert re.search("victim: exit code 1 while the proxy was away; it goes back", ran.err)
