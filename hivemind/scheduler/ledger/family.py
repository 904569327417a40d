"""Agents that start agents: who is charged for whom, and whose decisions hold for whom.

A sub-agent within the process of another (its name begins with that one's and a slash) is a part of it: what is decided
about the one holds for the other, and what the sub-agent uses counts as the other's own. A child with a process of its
own is on its own, and only counts in the subtree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.scheduler.admission.queue import reclass
from hivemind.scheduler.ledger.accounts import Account
from hivemind.scheduler.ledger.budget import hold
from hivemind.scheduler.ticket import Agent

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler

DEEPEST = 16
"""Generations that a request is charged to; whoever claims more of them is taken to make them up."""


def join(scheduler: Scheduler, agent: Agent) -> None:
    """The agent is new, or back: its requests are charged to it, to all above it, and to the pool."""
    chain: list[Account] = [agent.own, agent.tree]
    above, lead = agent.parent, agent.lead
    for _ in range(DEEPEST):
        if above is None:
            break
        if above is lead:
            chain.append(above.own)
            lead = above.lead
        chain.append(above.tree)
        above = above.parent
    _move(scheduler, agent, (*chain, scheduler.pool))
    hold(scheduler, agent)


def adopt(scheduler: Scheduler, agent: Agent, parent: Agent) -> None:
    """The agent was started by that one.

    Once it has a parent it keeps it, and nobody becomes an ancestor of its own.
    """
    above: Agent | None = parent
    while above is not None and above is not agent:
        above = above.parent
    if agent.parent is not None or above is agent:
        return
    agent.parent = parent
    agent.lead = _lead(agent.name, parent)
    scheduler.unsaved.add(agent.name)
    for each in (agent, *_below(scheduler, agent)):
        join(scheduler, each)


def _lead(name: str, parent: Agent | None) -> Agent | None:
    """The nearest above whose process it is in, by its name."""
    while parent is not None and not name.startswith(parent.name + "/"):
        parent = parent.parent
    return parent


def with_subs(scheduler: Scheduler, agent: Agent) -> list[Agent]:
    """The agent, and those at hand that are a part of it."""
    if not agent.has_children:
        return [agent]
    subs = [each for each in scheduler.agents.values() if each.lead is agent]
    return [agent, *(each for sub in subs for each in with_subs(scheduler, sub))]


def reclass_all(scheduler: Scheduler, agent: Agent, now: float) -> None:
    """Move what they have waiting to the classes in which it counts now."""
    for each in with_subs(scheduler, agent):
        reclass(each, now)


def _below(scheduler: Scheduler, agent: Agent) -> list[Agent]:
    children = _children(scheduler, agent)
    return children + [each for child in children for each in _below(scheduler, child)]


def _children(scheduler: Scheduler, agent: Agent) -> list[Agent]:
    """Those that it started, also where they aren't at hand any more."""
    if not agent.has_children:
        return []
    known = (*scheduler.agents.values(), *scheduler.agents.past.values())
    return [each for each in known if each.parent is agent]


def _move(scheduler: Scheduler, agent: Agent, chain: tuple[Account, ...]) -> None:
    """Charge what the agent alone has used, and what flies of it, to those that are new in the chain."""
    fresh = [account for account in chain if account not in agent.accounts]
    subs = [each for each in _children(scheduler, agent) if each.lead is agent] if fresh else []
    for account in fresh:
        _add(account, agent.own, 1)
        for sub in subs:
            _add(account, sub.own, -1)
    for account in chain:
        if account.budget:
            account.members[agent.name] = agent
    agent.accounts = chain
    agent.limits = tuple(account for account in chain if account.budget)
    if agent.parent is not None:
        agent.parent.has_children = True


def _add(account: Account, part: Account, sign: int) -> None:
    """Of an agent's own account that of each of its sub-agents is a part, which moves by itself."""
    account.ever = account.ever.plus(part.ever.times(sign))
    account.at_day = account.at_day.plus(part.at_day.times(sign))
    account.at_run = account.at_run.plus(part.at_run.times(sign))
    account.flying += sign * part.flying
    account.reserved_tokens += sign * part.reserved_tokens
    account.reserved_dollars += sign * part.reserved_dollars
