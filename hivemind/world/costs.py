"""Costs: usage is noted as it comes and priced in batches, off the path of requests."""

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
    """The sums over all agents; each agent holds its own."""

    __slots__ = ("_pending", "dollars", "priced")

    def __init__(self) -> None:
        self.dollars = 0.0
        self.priced = 0
        """Tokens in that sum."""
        self._pending: deque[tuple[Account, str, str, Usage]] = deque(maxlen=PENDING_KEPT)

    def restore(self, dollars: float, priced: int) -> None:
        """Take over these sums, and drop usage that isn't priced yet."""
        self.dollars, self.priced = dollars, priced
        self._pending.clear()

    def note(self, agent: Account, provider: str, model: str, usage: Usage) -> None:
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
                agent.dollars += dollars
                agent.priced += tokens
                self.dollars += dollars
                self.priced += tokens
