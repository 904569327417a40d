"""Budgets as of the last sample, and which agents have exhausted one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hivemind.scheduler.events import BudgetState
from hivemind.world.agents import AgentFold
from hivemind.world.state import WorldState

_DEEPEST = 16
"""Ancestors looked at, as requests name their parents themselves and may name any number."""


class Budgets:
    """The budgets of all agents, and the pool's."""

    __slots__ = ("_limited", "_spent", "pool")

    def __init__(self) -> None:
        self.pool: BudgetState | None = None
        self._limited: list[AgentFold] = []
        self._spent: dict[str | None, str] = {}
        """Owners of exhausted budgets, and what each budget covers."""

    def sampled(self, states: Iterable[BudgetState], agents: Mapping[str, AgentFold]) -> None:
        """Take over all budgets from a sample."""
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
        """Return the owners of exhausted budgets, and what each budget covers."""
        return tuple(self._spent.items())

    def restore(self, state: WorldState, agents: Mapping[str, AgentFold]) -> None:
        """Take over the given state; agents already have their budgets."""
        self.pool = state.pool
        self._limited = [agent for agent in agents.values() if agent.budget is not None]
        self._spent = dict(state.spent)

    def spent(self, agent: AgentFold, agents: Mapping[str, AgentFold]) -> bool:
        """Return whether a budget that covers the agent is exhausted: its own, an ancestor's, or the pool."""
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
