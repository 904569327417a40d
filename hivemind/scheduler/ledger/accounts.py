"""What was used, by whom, and out of which budget: the books that :mod:`.budget` reads.

An agent has two accounts, its own and its subtree's (what it and every agent it started have used), and all agents
together have the pool. Each counts for ever; what was used today or in a run is told by where the count stood when
that began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hivemind.scheduler.events import BudgetState

if TYPE_CHECKING:
    from hivemind.scheduler.ticket import Agent

Period = Literal["run", "day", "ever"]
Covers = Literal["agent", "subtree"]

POOL = ""
"""Stands for the pool where an agent's name is asked for."""


@dataclass(slots=True)
class Spent:
    """Used so far. Only an account's own count is ever changed; see :meth:`copy`."""

    tokens: int = 0
    dollars: float = 0.0
    """Of those tokens whose price is known."""
    unpriced: int = 0
    """Tokens of models whose price isn't known."""

    def copy(self) -> Spent:
        """As it is now, for good."""
        return Spent(self.tokens, self.dollars, self.unpriced)

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(self.tokens + other.tokens, self.dollars + other.dollars, self.unpriced + other.unpriced)

    def times(self, factor: int) -> Spent:
        """So many of it."""
        return Spent(self.tokens * factor, self.dollars * factor, self.unpriced * factor)

    def minus(self, other: Spent) -> Spent:
        """Since it was `other`."""
        return Spent(self.tokens - other.tokens, self.dollars - other.dollars, self.unpriced - other.unpriced)


@dataclass(frozen=True, slots=True)
class Budget:
    """A ceiling in tokens, in dollars, or in both; the one that is reached first holds."""

    tokens: int | None = None
    dollars: float | None = None
    per: Period = "run"
    """`run`: since the agent's process was started by the runner, else since the proxy's run began, which a crash
    doesn't end. `day`: since midnight, by the proxy's clock. `ever`: since it was first seen."""
    covers: Covers = "agent"

    def __bool__(self) -> bool:
        return self.tokens is not None or self.dollars is not None


NO_BUDGET = Budget()


class Account:
    """A count, what of it is only estimated, and a budget if there is one."""

    __slots__ = (
        "at_day",
        "at_run",
        "budget",
        "ever",
        "flying",
        "members",
        "owner",
        "reserved_dollars",
        "reserved_tokens",
        "short",
        "shut",
        "warned",
    )

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        """An agent's name; None: all agents."""
        self.ever = Spent()
        self.at_day, self.at_run = Spent(), Spent()
        """What `ever` was when the day, and the run, began."""
        self.budget = NO_BUDGET
        self.reserved_tokens = 0
        self.reserved_dollars = 0.0
        """Estimated, of what flies."""
        self.flying = 0
        self.warned = 0
        """The highest mark of its budget that was told."""
        self.shut = False
        """With what flies, all of its budget may be used: nothing more flies on it for the time being."""
        self.members: dict[str, Agent] = {}
        """Whose requests it is charged with, while it has a budget."""
        self.short: dict[str, Agent] = {}
        """Members whose next request is larger than what is left, so that it waits for what flies."""

    @property
    def spent(self) -> Spent:
        """Used in the budget's period."""
        return self.used(self.budget.per)

    def used(self, per: Period) -> Spent:
        """Used in a period."""
        if per == "ever":
            return self.ever
        return self.ever.minus(self.at_day if per == "day" else self.at_run)

    @property
    def exhausted(self) -> bool:
        """All of its budget is used, whatever flies may yet add."""
        return self._reached(0, 0.0)

    @property
    def full(self) -> bool:
        """With what flies, all of it may be used."""
        return self._reached(self.reserved_tokens, self.reserved_dollars)

    def _reached(self, tokens: int, dollars: float) -> bool:
        budget, spent = self.budget, self.spent
        if budget.tokens is not None and spent.tokens + tokens >= budget.tokens:
            return True
        return budget.dollars is not None and spent.dollars + dollars >= budget.dollars

    def has_room(self, tokens: int, dollars: float) -> bool:
        """A request that is estimated so fits into what is left, or has it for itself since nothing else flies."""
        if not self.flying:
            return True
        budget, spent = self.budget, self.spent
        if budget.tokens is not None and spent.tokens + self.reserved_tokens + tokens > budget.tokens:
            return False
        return budget.dollars is None or spent.dollars + self.reserved_dollars + dollars <= budget.dollars

    def state(self) -> BudgetState:
        """For people: the budget, and how it stands."""
        budget, spent = self.budget, self.spent
        covers = "all" if self.owner is None else budget.covers
        return BudgetState(
            self.owner,
            budget.tokens,
            budget.dollars,
            budget.per,
            covers,
            spent.tokens,
            spent.dollars,
            spent.unpriced,
            self.reserved_tokens,
        )
