"""Deadlines of runs and tasks: the earliest is started first, and one that passed isn't started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from agents.batches import Kind, bench, ended, said
from agents.running import before


@pytest.mark.e2e
async def test_the_earliest_deadline_of_a_batch_is_started_first(tmp_path: Path) -> None:
    """Before tasks without one; a task whose deadline has passed is told of at once, and fails without a start."""
    here = bench(tmp_path)
    more = {"later": {"deadline": "2h"}, "sooner": {"deadline": "1h"}, "missed": {"deadline": "1s"}, "any": {}}
    kinds = [Kind("first", gated=True, more={"priority": "high"}), *(Kind(n, more=each) for n, each in more.items())]
    here.write(kinds, max_agents=1)
    async with here.batch() as runner:
        await said(runner, "missed wasn't started by its deadline")
        here.open_gate()
        ran = await ended(runner)
    assert ran.code == 1
    assert [line for line in here.journal if line.startswith("begin")] == [
        f"begin {name}" for name in ("first", "sooner", "later", "any")
    ]
    assert "missed failed (its deadline, " in ran.errors


async def test_a_run_s_deadline_is_its_agent_s(tmp_path: Path) -> None:
    """What it asks for goes by it; one that can't be read is wrong usage."""
    async with before(tmp_path) as (running, place):
        ran = await place.called("run", "--name", "al", "--deadline", "2h", "--", "true")
        assert ran.code == 0, ran.err
        deadline_at, now = running.proxy.engine.agents["al"].deadline_at, running.proxy.engine.now()
        wrong = await place.called("run", "--deadline", time.strftime("%Y-%m-%d"), "--", "true")
    assert 7000 < deadline_at - now <= 7200
    assert (wrong.code, wrong.out) == (2, "")
    assert "--deadline" in wrong.err
    assert len(wrong.err.splitlines()) == 1
