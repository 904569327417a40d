"""What was used, by whom, and out of which budget: the accounts that :mod:`.ledger` keeps.

An agent has two accounts, its own and its subtree's (what it and every agent it started have used), and all agents
together have the pool. Each counts for ever; what was used today or in a run is the difference to where the count stood
when that began.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.types import Usage

Period = Literal["run", "day", "month", "ever"]
Covers = Literal["agent", "subtree"]

CALM_SHARE = 0.8
"""Of a budget, up to which nothing follows from its use: less than is warned of."""
POOL = ""  # the name of the pool, where an agent's name is expected


class Spent(Struct):
    """Tokens and dollars used so far. Only an account's own count is ever changed."""

    tokens: int = 0
    dollars: float = 0.0
    """Of those tokens whose price is known."""
    unpriced: int = 0
    """Tokens of models whose price isn't known."""
    estimated: int = 0
    """Of the tokens, those that the provider didn't state, or whose price is another model's."""

    def plus(self, other: Spent, factor: int = 1) -> Spent:
        """Return the sum of this and `factor` times the other."""
        return Spent(
            self.tokens + factor * other.tokens,
            self.dollars + factor * other.dollars,
            self.unpriced + factor * other.unpriced,
            self.estimated + factor * other.estimated,
        )

    def minus(self, other: Spent) -> Spent:
        """Return what was used since the count stood at `other`."""
        return self.plus(other, -1)


NOTHING = Spent()  # never changed, and so shared: an account begins with three


class Unpriced(Struct, frozen=True):
    """What a request used before prices were known: its tokens are counted, its dollars aren't yet."""

    provider: str
    model: str
    usage: Usage


class Budget(Struct, frozen=True):
    """A ceiling in tokens, in dollars, or in both; the one that is reached first holds.

    Raises: ValueError: a ceiling isn't above 0.
    """

    tokens: int | None = None
    dollars: float | None = None
    per: Period = "run"
    """`run`: since the runner started the agent's process, else since the proxy's run began, which a crash doesn't end.
    `day`: since midnight, by the proxy's clock; `month`: since that of the first. `ever`: since the agent was first
    seen."""
    covers: Covers = "agent"

    def __post_init__(self) -> None:
        for ceiling in (self.tokens, self.dollars):
            if ceiling is not None and not ceiling > 0:
                raise ValueError(f"a budget must be above 0, not {ceiling}")

    def __bool__(self) -> bool:
        return self.tokens is not None or self.dollars is not None


NO_BUDGET = Budget()


class Share(Struct):
    """What this proxy may use of a budget that other proxies count against too, as their store answered last
    (:mod:`.shared_budgets`)."""

    per: Period
    round: int = 0
    """Rises when the budget begins to count anew, so that a late answer about the period before is told apart."""
    elsewhere: Spent = field(default_factory=Spent)
    """Used by the other proxies in the budget's period, as far as known."""
    tokens: float = 0.0
    dollars: float = 0.0
    """Up to what this proxy's own count in the period may rise, requests in flight included; inf: no such ceiling."""
    alone: bool = False
    """No other proxy has, or may begin, a request under this budget: one may begin here, however large it is."""
    until: float = -math.inf
    """When the last three end to hold, since the store gives them to others then."""
    active_at: float = -math.inf  # when something was last in flight, waiting or used under it
    told_at: float = -math.inf  # when it was last reported
    told: int = -1  # the tokens used that were reported then
    told_open: bool = False  # whether its run was reported to go on


Estimate = tuple[int, float]
"""Tokens and dollars."""
_NO_MEMBERS: dict[str, None] = {}  # never changed, as the next: each of thousands of accounts begins with them
_NONE_SHORT: dict[str, Estimate] = {}


class Account(Struct, eq=False):
    """A count, what of it is only estimated, and a budget if there is one."""

    owner: str | None  # an agent's name; None: all agents
    budget: Budget = NO_BUDGET
    ever: Spent = field(default_factory=Spent)
    at_day: Spent = field(default_factory=lambda: NOTHING)  # what `ever` was when the day began
    at_month: Spent = field(default_factory=lambda: NOTHING)  # what `ever` was when the month began
    at_run: Spent = field(default_factory=lambda: NOTHING)  # what `ever` was when the run began
    reserved_tokens: int = 0
    """Estimated use of the requests in flight; as the next two, counted only while there is a budget."""
    reserved_dollars: float = 0.0
    in_flight: int = 0
    calm_below: float = -math.inf
    """The tokens of `ever`, with those reserved, below which nothing follows from their use; of a budget in tokens."""
    warned: int = 0  # the highest mark of its budget that a warning was emitted for
    shut: bool = False
    """Its requests in flight may use up the rest of the budget: no further one is granted for the time being."""
    members: dict[str, None] = field(default_factory=lambda: _NO_MEMBERS)
    """Names of the agents at hand whose requests it is charged with, while it has a budget; an ordered set."""
    short: dict[str, Estimate] = field(default_factory=lambda: _NONE_SHORT)
    """Members whose next request is larger than what is left, and its estimate: it waits for those in flight."""
    shared: Share | None = None
    """None: the budget isn't shared with other proxies."""

    def add_member(self, name: str) -> None:
        """Note an agent that it is charged by."""
        if not self.members:
            self.members = {}
        self.members[name] = None

    def keep_short(self, name: str, estimate: Estimate) -> None:
        """Note that the next request of a member doesn't fit."""
        if not self.short:
            self.short = {}
        self.short[name] = estimate

    @property
    def spent(self) -> Spent:
        """Used in the budget's period."""
        return self.used(self.budget.per)

    def used(self, per: Period) -> Spent:
        """Return what was used in a period."""
        if per == "ever":
            return self.ever
        return self.ever.minus(self._began(per))

    def _began(self, per: Period) -> Spent:
        return self.at_day if per == "day" else self.at_month if per == "month" else self.at_run

    def begin(self, per: Period) -> bool:
        """Count a period from now on. Return whether that makes a difference."""
        if self._began(per) == self.ever:
            return False
        self.calm_below = -math.inf
        if self.shared is not None and self.shared.per == per:
            self.shared = Share(per, self.shared.round + 1)
        if per == "run":
            self.at_run = replace(self.ever)
        elif per == "day":
            self.at_day = replace(self.ever)
        else:
            self.at_month = replace(self.ever)
        return True

    @property
    def exhausted(self) -> bool:
        """Whether all of the budget is used, without counting requests in flight."""
        return self._reached(0, 0.0)

    @property
    def full(self) -> bool:
        """Whether all of the budget may be used, requests in flight included."""
        return self._reached(self.reserved_tokens, self.reserved_dollars)

    @property
    def calm(self) -> bool:
        """Whether far too little is used, requests in flight included, for anything to follow from it."""
        return self.ever.tokens + self.reserved_tokens < self.calm_below and not (self.short or self.shut)

    def note_calm(self) -> None:
        """Note up to where nothing follows from the use of the budget as it is."""
        budget, per = self.budget, self.budget.per
        if budget.tokens is not None and budget.dollars is None and self.shared is None:
            since = 0 if per == "ever" else self._began(per).tokens
            self.calm_below = since + CALM_SHARE * budget.tokens

    @property
    def share(self) -> float:
        """The used share of the budget, as of :attr:`BudgetState.share`."""
        budget = self.budget
        tokens, dollars = self._counted()
        used = 0.0 if budget.tokens is None else tokens / budget.tokens
        return used if budget.dollars is None else max(used, dollars / budget.dollars)

    def _counted(self) -> tuple[int, float]:
        """Return the tokens and dollars used in the budget's period, by all proxies that share it."""
        share = self.shared
        if share is None:
            return self._counted_here()
        tokens, dollars = self._counted_here()
        return tokens + share.elsewhere.tokens, dollars + share.elsewhere.dollars

    def _counted_here(self) -> tuple[int, float]:
        """Return the tokens and dollars of :attr:`spent`."""
        ever, per = self.ever, self.budget.per
        if per == "ever":
            return ever.tokens, ever.dollars
        since = self._began(per)
        return ever.tokens - since.tokens, ever.dollars - since.dollars

    def _reached(self, tokens: int, dollars: float) -> bool:
        budget = self.budget
        used_tokens, used_dollars = self._counted()
        if budget.tokens is not None and used_tokens + tokens >= budget.tokens:
            return True
        return budget.dollars is not None and used_dollars + dollars >= budget.dollars

    def has_room(self, tokens: int, dollars: float, now: float) -> bool:
        """Whether a request of this estimate fits into what is left. A request that is alone always does; under a
        shared budget, if it is the only one of all proxies."""
        share = self.shared
        if not self.in_flight and (share is None or (share.alone and now < share.until)):
            return True
        budget, tokens, dollars = self.budget, tokens + self.reserved_tokens, dollars + self.reserved_dollars
        used_tokens, used_dollars = self._counted()
        if budget.tokens is not None and used_tokens + tokens > budget.tokens:
            return False
        if budget.dollars is not None and used_dollars + dollars > budget.dollars:
            return False
        if share is None:
            return True
        here_tokens, here_dollars = self._counted_here()
        return now < share.until and here_tokens + tokens <= share.tokens and here_dollars + dollars <= share.dollars

    def reserve(self, tokens: int, dollars: float, requests: int = 1) -> None:
        """Set aside the estimate of a request that is in flight from now on; what is negative is freed."""
        self.in_flight += requests
        self.reserved_tokens += tokens
        self.reserved_dollars += dollars

    def absorb(self, part: Account, factor: int) -> None:
        """Count another account's use here too (`factor` 1), or no longer (-1)."""
        self.calm_below = -math.inf
        self.ever = self.ever.plus(part.ever, factor)
        self.at_day = self.at_day.plus(part.at_day, factor)
        self.at_month = self.at_month.plus(part.at_month, factor)
        self.at_run = self.at_run.plus(part.at_run, factor)

    def state(self) -> BudgetState:
        """Return the budget and how much of it is used, for people."""
        budget, spent, share = self.budget, self.spent, self.shared
        total = spent if share is None else spent.plus(share.elsewhere)
        covers = "all" if self.owner is None else budget.covers
        return BudgetState(
            self.owner,
            budget.tokens,
            budget.dollars,
            budget.per,
            covers,
            total.tokens,
            total.dollars,
            total.unpriced,
            self.reserved_tokens,
            None if share is None else spent.tokens,
            None if share is None else spent.dollars,
            total.estimated,
        )
