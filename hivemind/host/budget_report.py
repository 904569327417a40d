"""What agents used and may use, as the control API reports it."""

from __future__ import annotations

from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.scheduler.accounts import Account
from hivemind.scheduler.agents import Agents
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.ticket import Agent


def budget_report(run: str, agents: Agents, pool: Account, only: str | None) -> BudgetsPart:
    """Return the budgets of every current agent, or of just one, which may be of an earlier run.

    Raises: Rejected: no agent has that name.
    """
    if only is None:
        shown = list(agents.values())
    else:
        found = agents.get(only) or agents.past.get(only)
        if found is None:
            raise Rejected(f"no agent named {only!r} was seen")
        shown = [found]
    return BudgetsPart(run, _budget(None, pool), tuple(_budget(agent, agent.own) for agent in shown))


def _budget(agent: Agent | None, account: Account) -> AgentBudget:
    limited = account if agent is None or account.budget else agent.tree
    return AgentBudget(
        None if agent is None else agent.name,
        None if agent is None or agent.parent is None else agent.parent.name,
        limited.state() if limited.budget else None,
        account.used("run"),
        account.used("day"),
        account.used("ever"),
    )
