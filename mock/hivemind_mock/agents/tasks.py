"""What the demo's agents work on: a plan of tasks that goes round, a lead with two helpers, and a budget for the three.

Nobody waits for a task here: whoever has one that waits has another to do meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from hivemind.scheduler.commands import (
    BeginAgent,
    ClaimTask,
    Command,
    FinishTask,
    ForgetTasks,
    Rejected,
    SetBudget,
    SubmitTasks,
)
from hivemind.scheduler.types import Priority, TaskSpec

BATCH = "sprint"
LEAD, HELPERS = "alice", ("bruno", "chiara")
DOLLARS = 1.5
"""More than the three use in a round, with each of which their runs begin anew."""
WHO = "demo"

Apply = Callable[[Command, str], object]


def _task(name: str, agent: str, tokens: int, *after: str) -> TaskSpec:
    priority = Priority.HIGH if agent == LEAD else Priority.NORMAL  # as they ask anyway
    before = tuple(f"{BATCH}.{each}" for each in after)
    return TaskSpec(f"{BATCH}.{name}", priority, tokens, before, agent, BATCH)


PLAN = (
    _task("plan", LEAD, 6_000),
    _task("triage", "bruno", 4_000),
    _task("changelog", "chiara", 6_000),
    _task("answers", LEAD, 12_000, "plan"),
    _task("tests", "bruno", 12_000, "plan"),
    _task("docs", "chiara", 8_000, "plan"),
    _task("review", LEAD, 6_000, "tests", "docs"),
    _task("release", LEAD, 4_000, "review", "changelog"),
    _task("announce", LEAD, 2_000, "release"),
)
ROUND: tuple[tuple[float, str], ...] = (
    (0.0, "start plan triage changelog"),
    (20.0, "finish plan"),
    (0.0, "start answers tests docs"),
    (15.0, "finish triage"),
    (15.0, "finish changelog"),
    (10.0, "fail tests"),
    (5.0, "start tests"),
    (10.0, "finish docs"),
    (25.0, "finish tests"),
    (0.0, "start review"),
    (2.0, "finish answers"),
    (25.0, "finish review"),
    (0.0, "start release"),
    (15.0, "finish release"),
    (0.0, "start announce"),
    (10.0, "finish announce"),
    (20.0, "forget"),
)
"""Seconds after the step before, and what happens then."""


@asynccontextmanager
async def at_tasks(
    apply: Apply, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[asyncio.Task[None]]:
    """The plan goes round for as long as the context lasts. `apply` carries a command out, and may refuse it."""
    rounds = asyncio.create_task(_rounds(apply, sleep), name="demo-tasks")
    try:
        yield rounds
    finally:
        rounds.cancel()
        with suppress(asyncio.CancelledError):
            await rounds


async def _rounds(apply: Apply, sleep: Callable[[float], Awaitable[object]]) -> None:
    apply(SetBudget(LEAD, None, DOLLARS, "run", "subtree"), WHO)
    while True:
        apply(BeginAgent(LEAD), WHO)
        for helper in HELPERS:
            apply(BeginAgent(helper, LEAD), WHO)
        apply(SubmitTasks(PLAN), WHO)
        for pause_s, step in ROUND:
            await sleep(pause_s)
            for command in _commands(*step.split()):
                with suppress(Rejected):  # its agent began it already, or somebody at the screen decided otherwise
                    apply(command, WHO)
            if step == "forget":
                await sleep(pause_s)


def _commands(what: str, *names: str) -> list[Command]:
    if what == "forget":
        return [ForgetTasks(BATCH)]
    ids = [f"{BATCH}.{name}" for name in names]
    if what == "start":
        return [ClaimTask(task, WHO) for task in ids]
    if what == "fail":
        return [FinishTask(task, ok=False, note="exit code 1", again=True) for task in ids]
    return [FinishTask(task, ok=True) for task in ids]
