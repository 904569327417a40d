"""What agents used and what they may use, as the control API tells it."""

from __future__ import annotations

from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.scheduler.agents import Agents
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.ledger.accounts import Account
from hivemind.scheduler.ticket import Agent


def books(run: str, agents: Agents, pool: Account, only: str | None) -> BudgetsPart:
    """Of every agent at hand, or of just one, which may be of an earlier run.

    Raises: Rejected: there is none of that name.
    """
    if only is None:
        shown = list(agents.values())
    else:
        found = agents.get(only) or agents.past.get(only)
        if found is None:
            raise Rejected(f"no agent named {only!r} was seen")
        shown = [found]
    return BudgetsPart(run, _stands(None, pool, None), tuple(_of(agent) for agent in shown))


def _of(agent: Agent) -> AgentBudget:
    parent = None if agent.parent is None else agent.parent.name
    return _stands(agent, agent.own, parent)


def _stands(agent: Agent | None, account: Account, parent: str | None) -> AgentBudget:
    limited = account if agent is None or account.budget else agent.tree
    return AgentBudget(
        None if agent is None else agent.name,
        parent,
        limited.state() if limited.budget else None,
        account.used("run"),
        account.used("day"),
        account.used("ever"),
    )
