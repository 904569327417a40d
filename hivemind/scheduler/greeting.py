"""An agent comes, for the first time or again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.scheduler.agents import process_of
from hivemind.scheduler.ledger.accounts import Budget
from hivemind.scheduler.ledger.budget import relimit
from hivemind.scheduler.ledger.family import adopt, join
from hivemind.scheduler.tasks.task_agents import greet
from hivemind.scheduler.ticket import Agent

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler


def meet(scheduler: Scheduler, name: str, now: float, parent: str | None) -> Agent:
    """The agent of this name, known from now on: it has its place in the books, the settings' budget if nobody gave it
    one, and its tasks."""
    agent, fresh = scheduler.agents.meet(name, now)
    if fresh:
        config = scheduler.config.budget
        if not agent.budgeted:
            agent.own.budget = Budget(config.tokens, config.dollars, config.per)
            agent.own.shut = bool(agent.own.budget) and agent.own.full  # it may be back, having used it up before
        join(scheduler, agent)
        if agent.own.budget:
            relimit(scheduler, agent.own, now)  # it may have used it up before
        greet(scheduler, agent)
    if parent is not None and agent.parent is None and parent != name:
        process = process_of(name, parent)
        adopt(scheduler, agent, meet(scheduler, parent, now, None if process == parent else process))
    return agent
