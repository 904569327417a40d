"""How the budgets stand, as the last sample had them, and who is out of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hivemind.scheduler.events import BudgetState
from hivemind.world.agents import AgentFold
from hivemind.world.state import WorldState

_DEEPEST = 16
"""Ancestors looked at: whoever claims more of them is taken to make them up."""


class Budgets:
    """Of all agents, and the pool's."""

    __slots__ = ("_limited", "_spent", "pool")

    def __init__(self) -> None:
        self.pool: BudgetState | None = None
        self._limited: list[AgentFold] = []
        self._spent: dict[str | None, str] = {}
        """Owners of which nothing is left, and what their budget covers."""

    def sampled(self, states: Iterable[BudgetState], agents: Mapping[str, AgentFold]) -> None:
        """Every budget as it stands now."""
        for agent in self._limited:
            agent.budget = None
        self.pool = None
        self._limited.clear()
        self._spent.clear()
        for state in states:
            if state.share >= 1:
                self._spent[state.owner] = state.covers
            if state.owner is None:
                self.pool = state
                continue
            owner = agents.get(state.owner)
            if owner is not None:
                owner.budget = state
                self._limited.append(owner)

    def keep_spent(self) -> tuple[tuple[str | None, str], ...]:
        """Owners of which nothing is left, and what their budget covers."""
        return tuple(self._spent.items())

    def restore(self, state: WorldState, agents: Mapping[str, AgentFold]) -> None:
        """As they stood; the agents already have theirs."""
        self.pool = state.pool
        self._limited = [agent for agent in agents.values() if agent.budget is not None]
        self._spent = dict(state.spent)

    def spent(self, agent: AgentFold, agents: Mapping[str, AgentFold]) -> bool:
        """Nothing is left of a budget of the agent's: its own, one that covers it, or everybody's."""
        if not self._spent:
            return False
        if agent.name in self._spent or None in self._spent:
            return True
        above = agents.get(agent.parent or "")
        for _ in range(_DEEPEST):
            if above is None:
                return False
            if self._spent.get(above.name) == "subtree":
                return True
            above = agents.get(above.parent or "")
        return False
