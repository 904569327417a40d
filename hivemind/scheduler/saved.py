"""What a restart must know, as plain records: usage, budgets and decisions of each agent, and the tasks.

Each record is whole and replaces the one before it, so that nothing is counted twice however often it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import budget, ceilings
from .accounts import POOL, Account, Budget, Spent
from .ticket import Agent
from .types import Priority, TaskSpec, record

if TYPE_CHECKING:
    from .scheduler import Scheduler


@record
class SavedAgent:
    """An agent, or the pool."""

    name: str
    parent: str | None
    priority: Priority | None
    """As the operator decided."""
    paused: bool
    stopped: bool
    budget: Budget | None
    """None: nobody decided, so the settings hold."""
    ever: Spent
    at_day: Spent
    at_run: Spent
    """What `ever` was when the day, and the run, began."""
    flying: Spent
    """Known to be used by what was in flight; should the next record never come, it was used."""


@record
class SavedTask:
    """A task."""

    spec: TaskSpec
    number: int
    state: str
    attempt: int
    runner: str
    note: str


@record
class Unsaved:
    """What changed since this was asked last."""

    agents: tuple[SavedAgent, ...]
    tasks: tuple[SavedTask, ...]
    gone: tuple[str, ...]
    """Ids of tasks that are forgotten."""

    def __bool__(self) -> bool:
        return bool(self.agents or self.tasks or self.gone)


def take_unsaved(scheduler: Scheduler) -> Unsaved:
    """What has to be written now; whoever takes it writes it. Whatever flies is among it each time."""
    names = scheduler.unsaved | {name for name, agent in scheduler.agents.items() if agent.flying}
    agents = [_saved(scheduler, agent) for name in names if (agent := _find(scheduler, name)) is not None]
    if agents or POOL in names:
        agents.append(_of_account(scheduler, scheduler.pool, POOL, Spent()))
    changed = scheduler.unsaved_tasks
    tasks = [
        SavedTask(task.spec, task.number, task.state, task.attempt, task.runner, task.note)
        for task in changed.values()
        if task is not None
    ]
    gone = tuple(name for name, task in changed.items() if task is None)
    scheduler.unsaved, scheduler.unsaved_tasks = set(), {}
    return Unsaved(tuple(agents), tuple(tasks), gone)


def restore(
    scheduler: Scheduler, agents: Iterable[SavedAgent], tasks: Iterable[SavedTask], now: float, *, new_run: bool
) -> None:
    """Go on from what was saved; call it before the first request. `new_run`: the last run had come to its end.

    What flew when the last record was written counts as used.
    """
    scheduler.tasks.restore((t.spec, t.number, t.state, t.attempt, t.runner, t.note) for t in tasks)
    found = {saved.name: saved for saved in agents}
    pool = found.pop(POOL, None)
    for saved in found.values():
        _bring_back(scheduler, saved, now)
    for saved in found.values():
        agent, parent = _find(scheduler, saved.name), _find(scheduler, saved.parent or POOL)
        if agent is not None and parent is not None:
            budget.adopt(scheduler, agent, parent)
    if pool is not None:
        # It has counted its agents by now; those that are forgotten were in it too.
        scheduler.pool.ever, scheduler.pool.at_day, scheduler.pool.at_run = _counts(pool)
        for saved in found.values():
            scheduler.pool.ever = scheduler.pool.ever.plus(saved.flying)
        if pool.budget is not None:
            scheduler.pool.budget = pool.budget
            scheduler.pool_budgeted = True
    if new_run:
        ceilings.begin_run(scheduler, None, now)
    ceilings.review_all(scheduler, now)


def _bring_back(scheduler: Scheduler, saved: SavedAgent, now: float) -> None:
    agent = Agent(saved.name, now)
    agent.last_seen = float("-inf")
    agent.priority, agent.paused, agent.stopped = saved.priority, saved.paused, saved.stopped
    agent.own.ever, agent.own.at_day, agent.own.at_run = _counts(saved)
    agent.own.ever = agent.own.ever.plus(saved.flying)
    agent.tree.ever, agent.tree.at_day, agent.tree.at_run = agent.own.ever, agent.own.at_day, agent.own.at_run
    if saved.budget is not None:
        agent.budgeted = True
        account = agent.own if saved.budget.covers == "agent" else agent.tree
        account.budget = saved.budget
    scheduler.agents.past[saved.name] = agent
    if not agent.ordinary:
        scheduler.meet(saved.name, now)
    else:
        budget.join(scheduler, agent)


def _counts(saved: SavedAgent) -> tuple[Spent, Spent, Spent]:
    return saved.ever, saved.at_day, saved.at_run


def _find(scheduler: Scheduler, name: str) -> Agent | None:
    return scheduler.agents.get(name) or scheduler.agents.past.get(name)


def _saved(scheduler: Scheduler, agent: Agent) -> SavedAgent:
    flying = Spent()
    for ticket in agent.tickets.values():
        if ticket.so_far is not None:
            flying = flying.plus(budget.cost(scheduler, ticket, ticket.so_far))
    decided = agent.budget if agent.budgeted else None
    return SavedAgent(
        agent.name,
        None if agent.parent is None else agent.parent.name,
        agent.priority,
        agent.paused,
        agent.stopped,
        decided,
        agent.own.ever,
        agent.own.at_day,
        agent.own.at_run,
        flying,
    )


def _of_account(scheduler: Scheduler, pool: Account, name: str, flying: Spent) -> SavedAgent:
    decided = pool.budget if scheduler.pool_budgeted else None
    return SavedAgent(name, None, None, False, False, decided, pool.ever, pool.at_day, pool.at_run, flying)
