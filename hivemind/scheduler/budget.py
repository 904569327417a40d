"""Token budgets: how much an agent may use in all.

What flies counts by estimate until it has ended and its real usage is known. So while it might use up the rest, nothing
more of the agent's is let go, and a budget is overshot by no more than what was in flight when it ran out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .events import BudgetWarned
from .ticket import Agent, Refusal

if TYPE_CHECKING:
    from .scheduler import Scheduler

WARN_SHARE = 0.85


def spent(agent: Agent) -> Refusal | None:
    """Why nothing of the agent's need wait any longer: all is used, and nothing flies that could turn out smaller."""
    if agent.flying or not agent.out_of_budget:
        return None
    return Refusal("budget", None, 403, agent.budget, agent.used_tokens)


def hold(scheduler: Scheduler, agent: Agent) -> bool:
    """Leave the agent out of the order, or put it back, as it has to be now. Returns whether that changed."""
    held = agent.paused or agent.out_of_budget
    if held is agent.held:
        return False
    agent.held = held
    for lane in scheduler.lanes.values():
        lane.queue.pause(agent.name, held)
    return True


def weigh(scheduler: Scheduler, agent: Agent, now: float) -> None:
    """See what the agent's budget comes to, after it or what was used has changed."""
    warning, refusal = _warning(agent, now), spent(agent)
    if warning is not None:
        scheduler.events.append(warning)
    if refusal is not None:
        scheduler.turn_away(agent, refusal, now)
    if hold(scheduler, agent):
        scheduler.let_go(agent, now)


def _warning(agent: Agent, now: float) -> BudgetWarned | None:
    """The mark that was crossed since this was asked last, the higher where both were; each is told once a budget."""
    if agent.budget is None:
        return None
    share = agent.used_tokens / agent.budget
    mark = 2 if share >= 1 else 1 if share >= WARN_SHARE else 0
    if mark <= agent.warned:
        return None
    agent.warned = mark
    return BudgetWarned(now, agent.name, agent.used_tokens, agent.budget, exhausted=mark == 2)
