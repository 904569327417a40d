"""Setting budgets, and the moments from which they count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.ledger.accounts import POOL, Account, Budget
from hivemind.scheduler.ledger.budget import relimit
from hivemind.scheduler.ticket import Agent

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler

MOST_TOKENS = 10**15
"""More than anybody pays for, and a number that every reader of a snapshot can hold."""
MOST_DOLLARS = 1e9


def set_budget(scheduler: Scheduler, command: cmd.SetBudget, now: float) -> None:
    """Give an agent, or all together, another budget.

    Raises: cmd.Rejected.
    """
    tokens, dollars, name = command.tokens, command.dollars, command.agent
    if tokens is not None and not 1 <= tokens <= MOST_TOKENS:
        given = f" {tokens:,}" if abs(tokens) < MOST_TOKENS else ""  # hundreds of digits, perhaps
        raise cmd.Rejected(f"budget{given}: must be from 1 to {MOST_TOKENS:,} tokens, or none")
    if dollars is not None and not 0 < dollars <= MOST_DOLLARS:
        raise cmd.Rejected(f"budget ${dollars:g}: must be above $0 and at most ${MOST_DOLLARS:,.0f}, or none")
    if name is None:
        if command.covers is not None:
            raise cmd.Rejected("covers: the pool covers all agents")
        scheduler.pool_budgeted = True
        scheduler.pool.budget = _budget(scheduler, command, scheduler.pool.budget)
        relimit(scheduler, scheduler.pool, now)
        return
    if not name:
        raise cmd.Rejected("an agent needs a name")
    agent = scheduler.meet(name, now)
    budget = _budget(scheduler, command, agent.budget)
    agent.budgeted = bool(budget or scheduler.config.budget.tokens or scheduler.config.budget.dollars)
    for account, covers in ((agent.own, "agent"), (agent.tree, "subtree")):
        before, account.budget = account.budget, budget if budget.covers == covers else Budget()
        if account.budget or before:
            relimit(scheduler, account, now)


def _budget(scheduler: Scheduler, command: cmd.SetBudget, before: Budget) -> Budget:
    per = command.per or (before.per if before else scheduler.config.budget.per)
    return Budget(command.tokens, command.dollars, per, command.covers or before.covers)


def review_all(scheduler: Scheduler, now: float) -> None:
    """See what every budget comes to, after counts were changed from outside."""
    for account in _all(scheduler):
        if account.budget:
            relimit(scheduler, account, now)


def states(scheduler: Scheduler) -> tuple[BudgetState, ...]:
    """Every budget and how it stands, the pool's first; for people."""
    accounts = [scheduler.pool] if scheduler.pool.budget else []
    for agent in scheduler.agents.values():
        if agent.limits:
            accounts += [account for account in (agent.own, agent.tree) if account.budget]
    return tuple([account.state() for account in accounts])


def begin_run(scheduler: Scheduler, agent: Agent | None, now: float) -> None:
    """The agent's run begins, or (None) everybody's, the pool's included."""
    if agent is not None:
        _from_now(scheduler, [agent.own, agent.tree], "run", now)
    else:
        _from_now(scheduler, _all(scheduler), "run", now)


def begin_day(scheduler: Scheduler, now: float) -> None:
    """It is midnight."""
    _from_now(scheduler, _all(scheduler), "day", now)


def _from_now(scheduler: Scheduler, accounts: list[Account], period: str, now: float) -> None:
    for account in accounts:
        # Most agents that are remembered have used nothing since: they needn't be written again.
        if (account.at_run if period == "run" else account.at_day) == account.ever:
            continue
        if period == "run":
            account.at_run = account.ever.copy()
        else:
            account.at_day = account.ever.copy()
        scheduler.unsaved.add(account.owner or POOL)
    for account in accounts:
        if account.budget and account.budget.per == period:
            relimit(scheduler, account, now)


def _all(scheduler: Scheduler) -> list[Account]:
    agents = (*scheduler.agents.values(), *scheduler.agents.past.values())
    return [scheduler.pool, *(account for agent in agents for account in (agent.own, agent.tree))]
