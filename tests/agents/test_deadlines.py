"""Deadlines of runs and tasks: the earliest is started first, and one that passed isn't started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from agents.batches import Kind, bench, served
from agents.running import before, ended, said


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
    assert "missed failed (its deadline, " in ran.err


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


async def test_a_deadline_that_was_changed_in_the_plan_counts(tmp_path: Path) -> None:
    """For a task that still waits, once its runner goes on; one in the same words stays as it was."""
    async with served(tmp_path) as (running, here):
        spans: list[tuple[float, float]] = []
        for wait, other in (("1h", "18:00"), ("2h", "18:00"), ("", "")):
            more = {"b": {"deadline": wait} if wait else {}, "c": {"deadline": other} if other else {}}
            here.write(
                [Kind("a", first="3", later="3"), *(Kind(n, after=("a",), more=each) for n, each in more.items())]
            )
            assert (await here.run(*(("--resume",) if spans else ()))).code == 1
            tasks = {each.spec.id: each.spec for each in running.proxy.processes.tasks(None)}
            spans.append((tasks["work.b"].deadline_s, tasks["work.c"].deadline))
    until = spans[0][1]
    assert until > time.time()
    assert spans == [(3600.0, until), (7200.0, until), (0.0, 0.0)]
