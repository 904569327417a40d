"""What a restart must know, as plain records: usage, budgets and decisions of each agent, and the tasks.

Each record is whole and replaces the one before it, so that nothing is counted twice however often it is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from hivemind.scheduler.events import AgentRecalled, BudgetWarned
from hivemind.scheduler.ledger import budget, ceilings, family
from hivemind.scheduler.ledger.accounts import POOL, Account, Budget, Spent
from hivemind.scheduler.tasks import task_agents
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import Priority, TaskSpec, record

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler


_NOTHING = Spent()


@record
class Counts:
    """Of one account."""

    ever: Spent = field(default_factory=Spent)
    at_day: Spent = field(default_factory=Spent)
    at_run: Spent = field(default_factory=Spent)
    """What `ever` was when the day, and the run, began."""
    flying: Spent = field(default_factory=Spent)
    """Known to be used by what was in flight; should the next record never come, it was used."""


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
    own: Counts
    tree: Counts
    """With all that it started; runs began for the subtree when they did for this agent, so it isn't a mere sum."""

    @property
    def decided(self) -> bool:
        """Somebody decided something about it that must not be forgotten."""
        return self.priority is not None or self.paused or self.stopped or self.budget is not None


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
    seen: dict[str, float]
    """When the agents were seen last, by the scheduler's clock; without those that weren't since it began."""
    forgotten: frozenset[str]
    """Agents that aren't remembered any more. One that is among :attr:`agents` too has come again, with new counts."""

    def __bool__(self) -> bool:
        return bool(self.agents or self.tasks or self.gone or self.forgotten)


def take_unsaved(scheduler: Scheduler) -> Unsaved:
    """What has to be written now, all of it at once; whoever takes it writes it."""
    names = set(scheduler.unsaved)
    for name in scheduler.unsaved:
        agent = _find(scheduler, name)
        while agent is not None and (agent := agent.parent) is not None and agent.name not in names:
            names.add(agent.name)  # its subtree's account has changed too
    changed = [agent for name in names if (agent := _find(scheduler, name)) is not None]
    flying = _flying(scheduler)
    agents = [_saved(agent, flying) for agent in changed]
    if names:
        agents.append(_saved_pool(scheduler, flying))
    tasks = [
        SavedTask(task.spec, task.number, task.state, task.attempt, task.runner, task.note)
        for task in scheduler.unsaved_tasks.values()
        if task is not None
    ]
    gone = tuple(name for name, task in scheduler.unsaved_tasks.items() if task is None)
    seen = {agent.name: agent.last_seen for agent in changed if agent.last_seen > -math.inf}
    forgotten = frozenset(scheduler.agents.forgotten)
    scheduler.unsaved, scheduler.unsaved_tasks, scheduler.agents.forgotten = set(), {}, set()
    return Unsaved(tuple(agents), tuple(tasks), gone, seen, forgotten)


def restore(
    scheduler: Scheduler, agents: Iterable[SavedAgent], tasks: Iterable[SavedTask], now: float, *, new_run: bool
) -> None:
    """Go on from what was saved, the agents that were seen longest ago first; call it before the first request.
    `new_run`: the last run had come to its end.

    What flew when the last record was written counts as used, and is to be written as such at once.
    """
    task_agents.restore(scheduler, tasks, now)
    found = {saved.name: saved for saved in agents}
    pool = found.pop(POOL, None)
    for saved in found.values():
        _bring_back(scheduler, saved, now)
    _reunite(scheduler, found)
    # By now everybody has been charged for their descendants, but some of those may be forgotten.
    for saved in found.values():
        agent = _find(scheduler, saved.name)
        if agent is not None:
            _set(agent.own, saved.own)
            _set(agent.tree, saved.tree)
    if pool is not None:
        _set(scheduler.pool, pool.own)
        if pool.budget is not None:
            scheduler.pool.budget = pool.budget
            scheduler.pool_budgeted = True
    scheduler.unsaved = {name for name, saved in found.items() if saved.tree.flying != Spent()}
    if new_run:
        ceilings.begin_run(scheduler, None, now)
    # What was told on the way was of counts that hadn't all come yet.
    scheduler.events[:] = [event for event in scheduler.events if not isinstance(event, BudgetWarned)]
    ceilings.review_all(scheduler, now)
    scheduler.events += [_recalled(agent, now) for agent in scheduler.agents.values()]


def _recalled(agent: Agent, now: float) -> AgentRecalled:
    parent = None if agent.parent is None else agent.parent.name
    return AgentRecalled(now, agent.name, parent, agent.priority, agent.paused, agent.stopped)


def _bring_back(scheduler: Scheduler, saved: SavedAgent, now: float) -> None:
    agent = Agent(saved.name, now)
    agent.last_seen = -math.inf
    agent.priority, agent.paused, agent.stopped = saved.priority, saved.paused, saved.stopped
    _set(agent.own, saved.own)
    _set(agent.tree, saved.own)
    if saved.budget is not None:
        agent.budgeted = True
        account = agent.own if saved.budget.covers == "agent" else agent.tree
        account.budget = saved.budget
    scheduler.agents.past[saved.name] = agent
    if not agent.ordinary:
        scheduler.meet(saved.name, now)
    else:
        family.join(scheduler, agent)


def _reunite(scheduler: Scheduler, found: dict[str, SavedAgent]) -> None:
    """Give agents their parents: oldest generation first, so that nobody's descendants have to be looked for."""
    done: set[str] = set()
    for name in found:
        line = []
        each = found.get(name)
        while each is not None and each.name not in done:
            done.add(each.name)
            line.append(each)
            each = found.get(each.parent or POOL)
        for saved in reversed(line):
            agent, parent = _find(scheduler, saved.name), _find(scheduler, saved.parent or POOL)
            if agent is not None and parent is not None:
                family.adopt(scheduler, agent, parent)


def _set(account: Account, counts: Counts) -> None:
    account.ever, account.at_day, account.at_run = counts.ever.plus(counts.flying), counts.at_day, counts.at_run


def _find(scheduler: Scheduler, name: str) -> Agent | None:
    return scheduler.agents.get(name) or scheduler.agents.past.get(name)


def _flying(scheduler: Scheduler) -> dict[Account, Spent]:
    """What is known to be used by what flies, on each account that is charged with it."""
    found: dict[Account, Spent] = {}
    for agent in scheduler.agents.values():
        if not agent.flying:
            continue
        for ticket in agent.tickets.values():
            if ticket.so_far is not None:
                cost = budget.cost(scheduler, ticket, ticket.so_far)
                for account in agent.accounts:
                    found[account] = found.get(account, _NOTHING).plus(cost)
    return found


def _saved(agent: Agent, flying: dict[Account, Spent]) -> SavedAgent:
    return SavedAgent(
        agent.name,
        None if agent.parent is None else agent.parent.name,
        agent.priority,
        agent.paused,
        agent.stopped,
        agent.budget if agent.budgeted else None,
        _counts(agent.own, flying),
        _counts(agent.tree, flying),
    )


def _saved_pool(scheduler: Scheduler, flying: dict[Account, Spent]) -> SavedAgent:
    counts = _counts(scheduler.pool, flying)
    decided = scheduler.pool.budget if scheduler.pool_budgeted else None
    return SavedAgent(POOL, None, None, False, False, decided, counts, Counts())


def _counts(account: Account, flying: dict[Account, Spent]) -> Counts:
    return Counts(account.ever.copy(), account.at_day, account.at_run, flying.get(account, _NOTHING))
