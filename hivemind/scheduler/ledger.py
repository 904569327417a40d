"""The ledger: how much an agent, an agent with all it started, or all agents together may use (paper, Token Budget
Management).

Requests in flight count by estimate until they have ended and their real usage is known. While that might use up the
rest, nothing more is granted, so a budget is overshot by no more than what was in flight when it ran out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.scheduler.accounts import NO_BUDGET, POOL, Account, Budget, Period, Share, Spent, Unpriced
from hivemind.scheduler.agents import Agents
from hivemind.scheduler.commands import Rejected, SetBudget
from hivemind.scheduler.config import BudgetConfig
from hivemind.scheduler.events import BudgetState, BudgetWarned, Event, PriceUnknown
from hivemind.scheduler.ticket import FINAL_STATUS, Agent, Refusal, Ticket, TicketState
from hivemind.scheduler.types import DEAREST, Price, Usage

WARN_SHARE = 0.85
MOST_TOKENS = 10**15  # a ceiling that every reader of a snapshot can represent exactly
MOST_DOLLARS = 1e9
_FREE = (0, 0.0, 0, False)
MOST_UNPRICED = 256  # models without a price of which an agent's use is told; later ones are likely made up
DEEPEST = 16  # generations that a request is charged to; deeper ones are taken to be made up


class Review(Struct):
    """What follows from a change of budgets, or of what was used of them."""

    agents: list[Agent] = field(default_factory=list)  # agents that may have to be held or released
    refused: list[tuple[Agent, Refusal]] = field(default_factory=list)
    """Agents whose waiting tickets are to be refused."""


class Ledger:
    """Every agent's accounts and the pool's. Returns which agents to hold, release or refuse; never acts itself."""

    def __init__(self, config: BudgetConfig, agents: Agents, emit: Callable[[Event], None]) -> None:
        self.pool = Account(None, Budget(config.pool_tokens, config.pool_dollars, config.per))
        """What all agents together have used, and may."""
        self.pool_budgeted = False  # the pool's budget was decided; else the settings hold
        self.unsaved: set[str] = set()
        """Names of agents (or :data:`.accounts.POOL`) of which something changed that a restart must know."""
        self.unsaved_use: set[str] = set()
        """Names of agents that are recorded, and whose requests in flight have used more since."""
        self.shared = False
        """Other proxies count against the budgets too (:mod:`.shared_budgets`)."""
        self.on_short: Callable[[], object] | None = None
        """Called when a request has to wait for more of a shared budget, and when one was decided."""
        self.decided: dict[str, None] = {}
        """Names of agents (or :data:`.accounts.POOL`) whose budget was decided here since the others were told."""
        self.redecided: set[str] = set()
        """Of them, those that weren't decided before the budgets were shared."""
        self.known: dict[str, Budget] = {}
        """Budgets of agents, here or not, that were decided at another proxy."""
        self.config = config
        """What holds where nothing was decided."""
        self.moved: dict[Account, None] | None = None
        """Accounts of which the budget or its use has changed since :meth:`changes`; None: any may have, or isn't shown
        any more."""
        self._agents = agents
        self._emit = emit
        self._price: Price | None = None

    # --- Refusals and warnings -------------------------------------------------------------------------------------

    def refusal(self, ticket: Ticket) -> Refusal | None:
        """Return why a ticket that came may not wait: a budget is used up, or the model's price isn't known."""
        limits, model = ticket.agent.limits, ticket.request.model
        for account in limits:
            if account.shut and account.exhausted:
                return _used_up(account)
        if not (ticket.agent.in_dollars and self.config.unpriced == "refuse" and self._price is not None):
            return None
        if model or ticket.request.max_output_tokens != 0:
            counts = next((account for account in limits if account.budget.dollars is not None), None)
            if counts is not None and self._price(ticket.provider, model, Usage()) is None:
                return Refusal("price_unknown", None, FINAL_STATUS, counts.state(), model)
        return None

    def states(self) -> tuple[BudgetState, ...]:
        """Return every budget and how much of it is used, the pool's first; for people."""
        return self._states(self._agents.values())

    def changes(self) -> tuple[BudgetState, ...] | None:
        """Return what :meth:`states` has of the pool, and of agents whose budgets have changed since this was called
        last; None: others may have none any more."""
        moved, self.moved = self.moved, {}
        if moved is None:
            return None
        names = dict.fromkeys([account.owner or POOL for account in moved])
        return self._states([agent for name in names if (agent := self._agents.get(name)) is not None])

    def _states(self, agents: Iterable[Agent]) -> tuple[BudgetState, ...]:
        own = (account for agent in agents if agent.limits for account in (agent.own, agent.tree))
        return tuple([account.state() for account in (self.pool, *own) if account.budget])

    def move(self, accounts: Iterable[Account]) -> None:
        """Note that the use of these accounts has changed."""
        if (moved := self.moved) is not None:
            for account in accounts:
                moved[account] = None

    # --- A ticket's way through the accounts -----------------------------------------------------------------------

    def has_room(self, ticket: Ticket, now: float) -> bool:
        """Whether the next ticket fits into what its agent's budgets have left; if not, the agent is to be held until
        one of the requests in flight has ended, or there is more of a shared budget."""
        agent, tokens = ticket.agent, ticket.estimated_input + ticket.estimated_output
        dollars = self._estimate(ticket) if agent.in_dollars else 0.0
        room, asks = True, False
        for account in agent.limits:
            if not account.has_room(tokens, dollars, now):
                account.keep_short(agent.name, (tokens, dollars))
                room, asks = False, asks or account.shared is not None
        if asks and self.on_short is not None:
            self.on_short()
        return room

    def short_of(self, ticket: Ticket, now: float) -> Account | None:
        """Return the account that has too little left for the ticket; None: it fits."""
        tokens, dollars = ticket.estimated_input + ticket.estimated_output, self._estimate(ticket)
        return next((each for each in ticket.agent.limits if not each.has_room(tokens, dollars, now)), None)

    def reserve(self, ticket: Ticket) -> list[Agent]:
        """Set aside what a granted ticket will likely use. Return the agents to hold because of that."""
        agent = ticket.agent
        tokens = ticket.reserved_tokens = ticket.estimated_input + ticket.estimated_output
        dollars = ticket.reserved_dollars = self._estimate(ticket) if agent.in_dollars else 0.0
        held: list[Agent] = []
        self.move(agent.limits)
        for account in agent.limits:
            account.reserve(tokens, dollars)
            if not (account.calm or account.shut) and account.full:
                account.shut = True
                held += self._members(account)
        return held

    def settle(self, ticket: Ticket, usage: Usage | None, now: float) -> None:
        """Free what was set aside for an attempt that has ended, and charge what it used."""
        agent, model = ticket.agent, ticket.request.model
        tokens, dollars, unpriced, guessed = _FREE if usage is None else self._cost(ticket.provider, model, usage)
        estimated = tokens if guessed else 0 if usage is None else usage.estimated_tokens
        self.move(agent.limits)
        for account in agent.limits:
            account.reserve(-ticket.reserved_tokens, -ticket.reserved_dollars, -1)
        for account in agent.accounts:
            ever = account.ever
            ever.tokens += tokens
            ever.dollars += dollars
            if unpriced:
                ever.unpriced += unpriced
            if estimated:
                ever.estimated += estimated
        ticket.reserved_tokens, ticket.reserved_dollars, ticket.so_far = 0, 0.0, None
        self.unsaved.add(agent.name)
        if unpriced or guessed:
            self.tell_unpriced(agent, model, now, guessed=guessed)

    def tell_unpriced(self, agent: Agent, model: str, now: float, *, guessed: bool = False) -> None:
        """Tell once that the price of what an agent used isn't known, where a budget counts dollars; `guessed`: it
        counts another model's."""
        if model not in agent.unpriced_models and len(agent.unpriced_models) < MOST_UNPRICED:
            agent.unpriced_models |= {model}
            if agent.in_dollars:
                self._emit(PriceUnknown(now, agent.name, model, guessed))

    def cost(self, provider: str, model: str, usage: Usage) -> Spent:
        """Return a usage in tokens and dollars; in tokens alone while prices aren't known."""
        tokens, dollars, unpriced, guessed = self._cost(provider, model, usage)
        return Spent(tokens, dollars, unpriced, tokens if guessed else usage.estimated_tokens)

    def note_use(self, ticket: Ticket, so_far: Usage) -> None:
        """Take what a request in flight is known to have used, which counts should the proxy die."""
        # With the first of it the agent is recorded whole, and those that started it.
        (self.unsaved if ticket.so_far is None else self.unsaved_use).add(ticket.agent.name)
        ticket.so_far = so_far

    def use_in_flight(self, agent: Agent) -> Spent | None:
        """Return what the agent's requests in flight are known to have used by now; None: nothing."""
        used = None
        for ticket in agent.tickets.values():
            if ticket.so_far is not None:
                cost = self.cost(ticket.provider, ticket.request.model, ticket.so_far)
                used = cost if used is None else used.plus(cost)
        return used

    def _cost(self, provider: str, model: str, usage: Usage) -> tuple[int, float, int, bool]:
        """Return the tokens, the dollars, the tokens without a price, and whether the dollars are another model's."""
        tokens = usage.total
        if self._price is None:
            return tokens, 0.0, 0, False
        dollars = self._price(provider, model, usage)
        if dollars is not None:
            return tokens, dollars, 0, False
        dollars = self._dearest(provider, usage)
        return (tokens, 0.0, tokens, False) if dollars is None else (tokens, dollars, 0, True)

    def _dearest(self, provider: str, usage: Usage) -> float | None:
        """Return the price of a model that has none, if it is to be estimated and its provider is known."""
        return self._price(provider, DEAREST, usage) if self._price and self.config.unpriced == "estimate" else None

    def price_by(self, price: Price) -> None:
        """Use these prices from now on."""
        self._price = price

    def recall(self, agent: Agent, unpriced: Iterable[Unpriced]) -> None:
        """Charge what waited for prices when an earlier version saved the agent; its tokens are counted already."""
        for each in unpriced:
            more = self.cost(each.provider, each.model, each.usage)
            more = replace(more, tokens=0, estimated=more.estimated - each.usage.estimated_tokens)
            self.move(agent.limits)
            for account in agent.accounts:
                account.ever = account.ever.plus(more)
            self.unsaved.add(agent.name)

    def _estimate(self, ticket: Ticket) -> float:
        """Return the ticket's estimate in dollars, if a budget counts them."""
        if self._price is None or not ticket.agent.in_dollars:
            return 0.0
        request = ticket.request
        usage = Usage(input_tokens=ticket.estimated_input, output_tokens=ticket.estimated_output, tier=request.tier)
        dollars = self._price(ticket.provider, request.model, usage)
        return (self._dearest(ticket.provider, usage) if dollars is None else dollars) or 0.0

    # --- Reviews ---------------------------------------------------------------------------------------------------

    def review(self, account: Account, agent: Agent | None, now: float) -> Review | None:
        """Compare the account with its budget after the agent's use of it changed, or (None) another proxy's: warn,
        shut or open it. Return what follows; None: nothing."""
        self._warn(account, agent, now)
        if not (account.short or account.shut or account.full):
            account.note_calm()
            return None
        review = Review([self._agents[name] for name in account.short if name in self._agents])
        account.short.clear()
        shut = account.full
        if shut is not account.shut:
            account.shut = shut
            review.agents = self._members(account)
        if shut and account.exhausted:
            refusal = _used_up(account)
            review.refused = [(member, refusal) for member in self._members(account)]
        return review

    def _warn(self, account: Account, agent: Agent | None, now: float) -> None:
        """Report the mark that was crossed, the higher one if both were; each once a budget."""
        if not account.budget:
            return
        if account.share < WARN_SHARE:
            return
        mark = 2 if account.exhausted else 1
        if mark > account.warned:
            account.warned = mark
            name = account.owner or (next(iter(account.members), POOL) if agent is None else agent.name)
            self._emit(BudgetWarned(now, name, account.state(), exhausted=mark == 2))

    def relimit(self, accounts: Iterable[Account], now: float) -> Review:
        """Begin with other budgets, or none, or with counts from another moment."""
        together = Review()
        for account in accounts:
            if account.budget:
                self.move((account,))
            else:
                self.moved = None
            account.warned, account.calm_below = 0, -math.inf
            account.members.clear()
            account.short.clear()
            self._share(account)
            charged = self._charged(account)
            account.in_flight, account.reserved_tokens, account.reserved_dollars = 0, 0, 0.0
            for agent in charged if account.budget else ():
                _reserve_again(account, agent)
            account.shut = bool(account.budget) and account.full
            for agent in charged:
                if account.budget:
                    account.add_member(agent.name)
                _limit(agent)
            together.agents += charged
            if account.budget and charged:
                owner = self._agents.get(account.owner or "", charged[0])
                review = self.review(account, owner, now)
                together.refused += [] if review is None else review.refused
        return together

    def set_budget(self, agent: Agent | None, command: SetBudget, now: float) -> Review:
        """Give an agent, or (None) all together, another budget. The command was checked by :func:`check_budget`."""
        budget = self._budget(command, self.pool.budget if agent is None else agent.budget)
        if self.shared:
            name = POOL if agent is None else agent.name
            self.decided[name] = None
            self.redecided.add(name)
            self.known.pop(name, None)
            if self.on_short is not None:
                self.on_short()
        return self.give(agent, budget, now)

    def give(self, agent: Agent | None, budget: Budget, now: float) -> Review:
        """Give an agent, or (None) all together, this budget from now on; none if it has no ceiling."""
        if agent is None:
            self.pool_budgeted = True
            self.pool.budget = budget
            return self.relimit([self.pool], now)
        agent.budgeted = bool(budget or self.config.tokens or self.config.dollars)
        changed = []
        for account, covers in ((agent.own, "agent"), (agent.tree, "subtree")):
            before, account.budget = account.budget, budget if budget.covers == covers else NO_BUDGET
            if account.budget or before:
                changed.append(account)
        return self.relimit(changed, now)

    def _budget(self, command: SetBudget, before: Budget) -> Budget:
        per = command.per or (before.per if before else self.config.per)
        return Budget(command.tokens, command.dollars, per, command.covers or before.covers)

    def begin(self, per: Period, now: float, agent: Agent | None = None) -> Review:
        """Begin a run, a day or a month of the agent's, or (None) of all agents and the pool."""
        accounts = self.accounts() if agent is None else [agent.own, agent.tree]
        # Most agents that are remembered have used nothing since: they needn't be saved again.
        self.unsaved.update([account.owner or POOL for account in accounts if account.begin(per)])
        return self.relimit([account for account in accounts if account.budget and account.budget.per == per], now)

    # --- Who is charged --------------------------------------------------------------------------------------------

    def open(self, agent: Agent, now: float) -> Review:
        """Open the accounts of an agent that is new at hand, with the settings' budget if none was decided."""
        if not agent.budgeted:
            agent.own.budget = self.default
        self.join(agent)
        if self.known and (decided := self.known.get(agent.name)) is not None:
            self.unsaved.add(agent.name)
            return self.give(agent, decided, now)
        # An agent that is back may have used up its budget before.
        return self.relimit([agent.own] if agent.own.budget else [], now)

    @property
    def default(self) -> Budget:
        """The budget of an agent about which nothing was decided."""
        return Budget(self.config.tokens, self.config.dollars, self.config.per)

    def _share(self, account: Account) -> None:
        """Have the account's budget shared or not, as it has to be now."""
        share, per = account.shared, account.budget.per
        if not (self.shared and account.budget):
            account.shared = None
        elif share is None or share.per != per:
            account.shared = Share(per, 0 if share is None else share.round + 1)

    def join(self, agent: Agent, *, charged_before: bool = True) -> None:
        """Charge the agent's requests to it, its ancestors, and the pool; new ones also (`charged_before`) with what it
        used before."""
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
        chain.append(self.pool)
        fresh = [account for account in chain if account not in agent.accounts]
        subs = self._agents.led_by(agent) if fresh and charged_before else []
        for account in fresh if charged_before else ():
            account.absorb(agent.own, 1)
            for sub in subs:  # a part of the agent's own account, and charged by itself
                account.absorb(sub.own, -1)
        agent.accounts = tuple(chain)
        _limit(agent)
        self.move(agent.limits)
        for account in agent.limits:
            account.add_member(agent.name)
            if account in fresh:
                _reserve_again(account, agent)

    def set_aside(self, agent: Agent) -> None:
        """Drop an agent that isn't at hand any more from the members of its accounts; :meth:`open` brings it back."""
        if agent.own.budget or agent.tree.budget:
            self.moved = None
        for account in agent.limits:
            account.members.pop(agent.name, None)
            account.short.pop(agent.name, None)

    def _charged(self, account: Account) -> list[Agent]:
        """Return the agents at hand whose requests the account is charged with."""
        owner = None if account.owner is None else self._agents.find(account.owner)
        if owner is None or owner.has_children:
            return [agent for agent in self._agents.values() if account in agent.accounts]
        return [owner] if owner.name in self._agents else []

    def _members(self, account: Account) -> list[Agent]:
        return [self._agents[name] for name in account.members if name in self._agents]

    def accounts(self) -> list[Account]:
        """Return all accounts: the pool's, and two of each agent that is remembered."""
        return [self.pool, *(account for agent in self._agents.everyone for account in (agent.own, agent.tree))]


def warning_of(agent: Agent) -> BudgetState | None:
    """Return the agent's most used budget, if so much is used that the agent should know."""
    used = [account for account in agent.limits if not account.calm and account.share >= WARN_SHARE]
    return max(used, key=lambda account: account.share).state() if used else None


def check_budget(command: SetBudget) -> None:
    """Raises: Rejected: the ceilings are out of range, or the agent has no name."""
    tokens, dollars = command.tokens, command.dollars
    if tokens is not None and not 1 <= tokens <= MOST_TOKENS:
        given = f" {tokens:,}" if abs(tokens) < MOST_TOKENS else ""  # hundreds of digits, perhaps
        raise Rejected(f"budget{given}: must be from 1 to {MOST_TOKENS:,} tokens, or none")
    if dollars is not None and not 0 < dollars <= MOST_DOLLARS:
        raise Rejected(f"budget ${dollars:g}: must be above $0 and at most ${MOST_DOLLARS:,.0f}, or none")
    if command.agent is None and command.covers is not None:
        raise Rejected("covers: the pool covers all agents")
    if command.agent == "":
        raise Rejected("an agent needs a name")


def _limit(agent: Agent) -> None:
    """Note which of the agent's accounts have a budget."""
    agent.limits = tuple(account for account in agent.accounts if account.budget)
    agent.in_dollars = any(account.budget.dollars is not None for account in agent.limits)


def _reserve_again(account: Account, agent: Agent) -> None:
    """Set aside what the agent's requests in flight will use, in an account that counts them from now on."""
    for ticket in agent.tickets.values() if agent.in_flight else ():
        if ticket.state is TicketState.IN_FLIGHT:
            account.reserve(ticket.reserved_tokens, ticket.reserved_dollars)


def _used_up(account: Account) -> Refusal:
    return Refusal("budget", None, FINAL_STATUS, account.state())
