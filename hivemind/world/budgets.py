"""What agents use: its cost, priced in batches off the path of requests, and budgets as of the last sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.types import Price, Usage
from hivemind.world.agents import AgentFold
from hivemind.world.state import Counts, WorldState

PENDING_KEPT = 10_000
"""Usages noted and not priced yet; the oldest beyond stay unpriced."""
_DEEPEST = 16
"""Ancestors looked at, as requests name their parents themselves and may name any number."""


class Costs:
    """Adds the cost of usage to an agent and to the totals."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._pending: deque[tuple[AgentFold, str, str, Usage]] = deque(maxlen=PENDING_KEPT)

    def note(self, agent: AgentFold, provider: str, model: str, usage: Usage) -> None:
        """Note the usage of a model by an agent."""
        self._pending.append((agent, provider, model, usage))

    def settle(self, price: Price | None) -> None:
        """Price all noted usage; without prices, keep it for later."""
        if price is None:
            return
        pending = self._pending
        while pending:
            agent, provider, model, usage = pending.popleft()
            dollars = price(provider, model, usage)
            if dollars is not None:
                tokens = usage.total
                for account in (agent, self._counts):
                    account.dollars += dollars
                    account.priced += tokens


class Budgets:
    """The budgets of all agents, and the pool's."""

    def __init__(self) -> None:
        self.pool: BudgetState | None = None
        self._limited: list[AgentFold] = []
        self.exhausted: dict[str | None, str] = {}
        """Owners of exhausted budgets, and what each budget covers."""

    def sampled(self, states: Iterable[BudgetState], agents: Mapping[str, AgentFold]) -> None:
        """Take over all budgets from a sample."""
        for agent in self._limited:
            agent.budget = None
        self.pool = None
        self._limited.clear()
        self.exhausted.clear()
        for state in states:
            if state.share >= 1:
                self.exhausted[state.owner] = state.covers
            if state.owner is None:
                self.pool = state
                continue
            owner = agents.get(state.owner)
            if owner is not None:
                owner.budget = state
                self._limited.append(owner)

    def restore(self, state: WorldState, agents: Mapping[str, AgentFold]) -> None:
        """Take over the given state; agents already have their budgets."""
        self.pool = state.pool
        self._limited = [agent for agent in agents.values() if agent.budget is not None]
        self.exhausted = dict(state.spent)

    def spent(self, agent: AgentFold, agents: Mapping[str, AgentFold]) -> bool:
        """Return whether a budget that covers the agent is exhausted: its own, an ancestor's, or the pool."""
        if not self.exhausted:
            return False
        if agent.name in self.exhausted or None in self.exhausted:
            return True
        above = agents.get(agent.parent or "")
        for _ in range(_DEEPEST):
            if above is None:
                return False
            if self.exhausted.get(above.name) == "subtree":
                return True
            above = agents.get(above.parent or "")
        return False
