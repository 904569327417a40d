"""What it cost: usage is noted as it comes and priced in batches, off the path of the requests."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from hivemind.scheduler.types import Price, Usage

PENDING_KEPT = 10_000
"""Usages noted and not priced yet; the oldest beyond stay unpriced."""


class Account(Protocol):
    """Who used something, such as an agent."""

    dollars: float
    priced: int


class Costs:
    """Over all agents; each agent's own sums are with the agent."""

    __slots__ = ("_pending", "dollars", "priced")

    def __init__(self) -> None:
        self.dollars = 0.0
        self.priced = 0
        """Tokens in that sum."""
        self._pending: deque[tuple[Account, str, str, Usage]] = deque(maxlen=PENDING_KEPT)

    def restore(self, dollars: float, priced: int) -> None:
        """So much was priced; what else was noted is void."""
        self.dollars, self.priced = dollars, priced
        self._pending.clear()

    def note(self, agent: Account, provider: str, model: str, usage: Usage) -> None:
        """The agent used so much of the provider's model."""
        self._pending.append((agent, provider, model, usage))

    def settle(self, price: Price | None) -> None:
        """Price what was noted; without prices it waits for them."""
        if price is None:
            return
        pending = self._pending
        while pending:
            agent, provider, model, usage = pending.popleft()
            dollars = price(provider, model, usage)
            if dollars is not None:
                tokens = usage.total
                agent.dollars += dollars
                agent.priced += tokens
                self.dollars += dollars
                self.priced += tokens
