"""The demo's plan goes round: every task in turn, and nobody held for it."""

from __future__ import annotations

import asyncio
import random

from hivemind.scheduler.commands import Command, Rejected
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind_mock.agents.demo import DOLLARS, HELPERS, LEAD, PLAN, at_tasks


class Stage:
    """A scheduler that is told what the demo does, on a clock of its own."""

    def __init__(self, until_s: float) -> None:
        self.scheduler = Scheduler(SchedulerConfig(), random.Random(1).random)
        self.now, self.until_s = 0.0, until_s
        self.over = asyncio.Event()
        self.refused: list[str] = []
        self.held: set[str] = set()
        self.done: list[str] = []

    def apply(self, command: Command, who: str) -> None:
        try:
            self.scheduler.apply(self.now, command, who)
        except Rejected as rejected:
            self.refused.append(str(rejected))
            raise
        self.held |= {name for name, agent in self.scheduler.agents.items() if agent.task_gate != "open"}
        tasks = self.scheduler.tasks.values()
        self.done += [task.spec.id for task in tasks if task.state == "done" and task.spec.id not in self.done]

    async def sleep(self, pause_s: float) -> None:
        self.now += pause_s
        if self.now > self.until_s:
            self.over.set()
            await asyncio.Event().wait()


async def watched(until_s: float) -> Stage:
    """The demo up to a moment."""
    stage = Stage(until_s)
    async with asyncio.timeout(10), at_tasks(stage.apply, sleep=stage.sleep):
        await stage.over.wait()
    return stage


async def test_a_round_does_every_task() -> None:
    """In an order that the graph allows, without a command refused, and no agent ever waits for a task."""
    stage = await watched(600.0)
    assert sorted(stage.done) == sorted(task.id for task in PLAN)
    assert (stage.refused, stage.held) == ([], set())


async def test_the_lead_has_two_helpers_and_a_budget_for_all_three() -> None:
    """In dollars, with whatever it starts."""
    stage = await watched(0.0)
    agents = stage.scheduler.agents
    assert all(agents[name].parent is agents[LEAD] for name in HELPERS)
    budget = agents[LEAD].budget
    assert (budget.dollars, budget.covers, budget.per) == (DOLLARS, "subtree", "run")
