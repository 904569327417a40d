"""Budgets that several proxies count against: what this one tells the others, and what it takes from them.

Each proxy keeps its own ledger, and tells how much each account has used in the budget's period, as an absolute figure:
told twice, it counts once. In return it learns what the others have used, and up to what its own count may rise
(:class:`~hivemind.scheduler.accounts.Share`), so that no request has to ask anybody. A period is each proxy's own; the
others' figures come from the same day, or from the runs that go on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.scheduler.accounts import POOL, Account, Budget, Estimate, Share, Spent
from hivemind.scheduler.config import BudgetConfig
from hivemind.scheduler.dispatcher import Dispatcher
from hivemind.scheduler.events import Commanded
from hivemind.scheduler.ledger import Review
from hivemind.scheduler.ticket import Agent

MOST = 256
"""Accounts in a report; the others are next."""
ACTIVE_S = 60.0
"""An account under which nothing was in flight or waited for so long returns its part of the budget."""
CHANGED_S = 0.2  # an account of which more was used is reported at most so often, unless a request waits for it
REFRESH_S = 1.0  # an active account of which nothing changed is reported as often
IDLE_REFRESH_S = 5.0  # and one that isn't active, for people to see
MOST_COUNTED = 64  # waiting requests of an agent that are counted into what it asks for

AccountKey = tuple[str, str]
"""Owner (:data:`~hivemind.scheduler.accounts.POOL`: all agents), and `agent`, `subtree` or `all`."""


class AccountReport(Struct):
    """One account with a budget, as it stands here."""

    key: AccountKey
    round: int  # to be handed back with the answer
    budget: Budget
    default: bool  # nothing was decided about it: the settings hold
    used: Spent  # in the budget's period
    run: str  # tells the period apart from earlier ones of this ledger, where the budget counts a run; else empty
    open: bool  # the run goes on
    active: bool  # a part of the budget is wanted
    in_flight: int
    reserved: Estimate  # by the requests in flight
    cap: tuple[float, float]  # up to what `used` and `reserved` may rise as last answered
    first: Estimate  # of the smallest request that waits for more of the budget; 0: none does
    ask: Estimate  # of all that wait so
    elsewhere: Spent  # as last answered
    alone: bool  # no other proxy may begin a request, as last answered


class BudgetsReport(Struct):
    """What this proxy tells the others."""

    accounts: list[AccountReport]
    decided: dict[str, Budget]
    """Budgets that were decided here and not told yet, by agent (:data:`.accounts.POOL`: all); empty ones are
    lifted."""
    restored: frozenset[str] = frozenset()
    """Of these, the ones that were decided before this proxy shared its budgets: any of the others' goes before."""
    busy: bool = False  # under some budget a request is in flight or waits
    more: bool = False  # there are others under which requests wait


class AccountShare(Struct):
    """The answer for one account."""

    key: AccountKey
    round: int  # as reported
    elsewhere: Spent  # used by the other proxies
    tokens: float = 0.0  # up to what the own count may rise; inf: no such ceiling
    dollars: float = 0.0
    alone: bool = False


class BudgetsLease(Struct):
    """What this proxy may use, and what was decided elsewhere."""

    until: float  # the accounts' parts hold as long, by the scheduler's clock
    accounts: list[AccountShare] = field(default_factory=list)
    decided: dict[str, tuple[Budget, str]] = field(default_factory=dict)
    """Budgets that hold from now on, by agent (:data:`.accounts.POOL`: all), and who decided."""
    defaults: BudgetConfig | None = None
    """What holds at all proxies where nothing was decided; None: as before."""
    lost: bool = False
    """What the others knew is lost, so all is to be told again."""


class SharedBudgets:
    """Makes the reports of one scheduler and carries out the answers."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._ledger = dispatcher.ledger
        self._agents = dispatcher.agents
        self._past: deque[str] = deque()
        """Agents that aren't at hand, whose use the others haven't been told."""
        self._past_told = 0
        self._restored: frozenset[str] = frozenset()
        """Names about whose budget something was decided before, if not since."""

    def begin(self, now: float) -> Review:
        """Share every budget from now on."""
        ledger = self._ledger
        ledger.shared = True
        restored = [agent.name for agent in self._agents.everyone if agent.budgeted]
        if ledger.pool_budgeted:
            restored.append(POOL)
        self._restored = frozenset(restored)
        ledger.decided.update(dict.fromkeys(restored))
        self.tell_all()
        return ledger.relimit([account for account in ledger.accounts() if account.budget], now)

    def tell_all(self) -> None:
        """Report every account again: what the others knew may be lost."""
        self._past = deque(self._agents.past)
        for account in self._at_hand():
            if account.shared is not None:
                account.shared.told_at, account.shared.told = -math.inf, -1

    # --- What was used here ----------------------------------------------------------------------------------------

    def report(self, now: float) -> BudgetsReport:
        """Return what is to be told now; the answer, if there is one, goes to :meth:`take`."""
        self._release_gone(now)
        urgent, due, busy = [], [], False
        for account in self._at_hand():
            share = account.shared
            if share is None:
                continue
            changed = account.spent.tokens != share.told
            if account.in_flight or account.short or (changed and share.told >= 0):
                share.active_at = now
                busy = True
            age_s = now - share.told_at
            if account.short or share.alone:
                urgent.append((share.told_at, account, share))
            elif changed or share.told_open is not self._is_open(account):
                if age_s >= CHANGED_S:
                    due.append((share.told_at, account, share))
            elif age_s >= (REFRESH_S if now - share.active_at < ACTIVE_S else IDLE_REFRESH_S):
                due.append((share.told_at, account, share))
        for some in (urgent, due):
            some.sort(key=lambda each: each[0])
        accounts = [self._account(account, share, now) for _, account, share in (urgent + due)[:MOST]]
        past = list(islice(self._past, MOST - len(accounts)))
        self._past_told = len(past)
        accounts += [report for name in past for report in self._of_past(name)]
        decided = {name: budget for name in self._ledger.decided if (budget := self._decided(name)) is not None}
        self._ledger.decided.clear()
        restored, self._restored = self._restored - self._ledger.redecided, frozenset()
        self._ledger.redecided.clear()
        more = len(urgent) > MOST
        return BudgetsReport(accounts, decided, restored, busy, more)

    def _release_gone(self, now: float) -> None:
        """Release the agents whose request that was too large doesn't wait any more."""
        gone = Review()
        for account in self._at_hand():
            if account.shared is None or not account.short:
                continue
            for name, (tokens, _) in list(account.short.items()):
                agent = self._agents.get(name)
                waiting = [] if agent is None else agent.waiting
                if not any(ticket.estimated_input + ticket.estimated_output == tokens for ticket in waiting):
                    del account.short[name]
                    gone.agents += [] if agent is None else [agent]
        self._dispatcher.carry_out(gone, now)

    def _at_hand(self) -> Iterable[Account]:
        """Return the pool's account, and those with a budget that requests of agents at hand are charged to."""
        found = {self._ledger.pool: None}
        for agent in self._agents.values():
            for account in agent.limits:
                found[account] = None
        return found

    def _account(self, account: Account, share: Share, now: float) -> AccountReport:
        share.told_at, share.told, share.told_open = now, account.spent.tokens, self._is_open(account)
        agent = None if account.owner is None else self._agents.find(account.owner)
        first = min(account.short.values(), default=(0, 0.0))
        return AccountReport(
            _key(account, agent),
            share.round,
            account.budget,
            not (self._ledger.pool_budgeted if agent is None else agent.budgeted),
            account.spent,
            str(account.at_run.tokens) if share.per == "run" else "",
            share.told_open,
            now - share.active_at < ACTIVE_S,
            account.in_flight,
            (account.reserved_tokens, account.reserved_dollars),
            (share.tokens, share.dollars) if now < share.until else (0.0, 0.0),
            first,
            self._asked(account, first),
            share.elsewhere,
            share.alone and now < share.until,
        )

    def _is_open(self, account: Account) -> bool:
        """Whether the run goes on that the account counts."""
        if account.owner is None:
            return not self._dispatcher.draining
        agent = self._agents.find(account.owner)
        return agent is not None and not agent.ended

    def _asked(self, account: Account, first: Estimate) -> Estimate:
        """Return about how much all requests need that wait for more of the account's budget."""
        tokens = 0
        for name in account.short:
            agent = self._agents.get(name)
            for ticket in islice(() if agent is None else agent.waiting, MOST_COUNTED):
                tokens += ticket.estimated_input + ticket.estimated_output
        return max(tokens, first[0]), first[1] * max(1.0, tokens / first[0]) if first[0] else 0.0

    def _of_past(self, name: str) -> Iterator[AccountReport]:
        """Yield what an agent has used that isn't at hand, if there is or may be a budget for that."""
        agent = self._agents.past.get(name)
        if agent is None:
            return
        budget = self._ledger.known.get(name) or (agent.budget if agent.budgeted else self._ledger.default)
        account = agent.own if budget.covers == "agent" else agent.tree
        used = account.used(budget.per)
        if budget and used.tokens and not account.members:  # else it is charged by agents at hand
            run = str(account.at_run.tokens) if budget.per == "run" else ""
            none, key, is_open = (0, 0.0), (name, budget.covers), not agent.ended
            yield AccountReport(
                key, 0, budget, not agent.budgeted, used, run, is_open, False, 0, none, none, none, none, Spent(), False
            )

    def _decided(self, name: str) -> Budget | None:
        if name == POOL:
            return self._ledger.pool.budget
        agent = self._agents.find(name)
        return None if agent is None else agent.budget

    # --- What the others used --------------------------------------------------------------------------------------

    def take(self, now: float, lease: BudgetsLease) -> None:
        """Go on by an answer: hold, refuse and release agents as it has to be now."""
        for _ in range(min(self._past_told, len(self._past))):
            self._past.popleft()
        self._past_told = 0
        if lease.lost:
            self.tell_all()
        reviews: list[Review | None] = []
        if lease.defaults is not None and lease.defaults != self._ledger.config:
            reviews.append(self._begin_with(lease.defaults, now))
        for name, (budget, who) in lease.decided.items():
            if name not in self._ledger.decided:  # else a later decision, which the others are still to be told
                reviews.append(self._give(name, budget, who, now))
        reviews += [self._take(share, lease.until, now) for share in lease.accounts]
        # All at once, so that the most urgent of all that are released is next.
        together = Review()
        for review in reviews:
            if review is not None:
                together.agents += review.agents
                together.refused += review.refused
        self._dispatcher.carry_out(together, now)

    def _take(self, lease: AccountShare, until: float, now: float) -> Review | None:
        name, covers = lease.key
        agent = self._agents.find(name)
        if name and agent is None:
            return None
        account = self._ledger.pool if agent is None else agent.tree if covers == "subtree" else agent.own
        share = account.shared
        if share is None or share.round != lease.round:
            return None
        self._ledger.move((account,))
        share.elsewhere, share.alone, share.until = lease.elsewhere, lease.alone, until
        share.tokens, share.dollars = lease.tokens, lease.dollars
        waits = account.short
        if waits and not account.full and not any(account.has_room(*each, now) for each in waits.values()):
            account.short = {}  # they go on to wait
            review = self._ledger.review(account, agent, now)
            account.short = waits
            return review
        return self._ledger.review(account, agent, now)

    def _give(self, name: str, budget: Budget, who: str, now: float) -> Review | None:
        dispatcher, ledger = self._dispatcher, self._ledger
        agent = self._agents.get(name)
        before = ledger.pool.budget if name == POOL else ledger.known.get(name) if agent is None else agent.budget
        if name:
            ledger.known[name] = budget
        if before == budget or (not before and not budget):
            return None
        about = {
            "agent": name or None,
            "tokens": budget.tokens,
            "dollars": budget.dollars,
            "per": budget.per,
            "covers": budget.covers if name else None,
        }
        dispatcher.events.append(Commanded(now, who, "SetBudget", about))
        if name == POOL or agent is not None:
            ledger.unsaved.add(name)
            return ledger.give(agent, budget, now)
        if name in self._agents.past:
            self._past.append(name)
        return None

    def _begin_with(self, defaults: BudgetConfig, now: float) -> Review:
        """Have these budgets hold wherever nothing was decided."""
        ledger = self._ledger
        ledger.config = defaults
        changed = []
        if not ledger.pool_budgeted:
            ledger.pool.budget = Budget(defaults.pool_tokens, defaults.pool_dollars, defaults.per)
            changed.append(ledger.pool)
        for agent in self._agents.everyone:
            if not agent.budgeted:
                agent.own.budget = ledger.default
                changed.append(agent.own)
        self._past = deque(self._agents.past)
        return ledger.relimit(changed, now)


def _key(account: Account, agent: Agent | None) -> AccountKey:
    if agent is None:
        return POOL, "all"
    return agent.name, "agent" if account is agent.own else "subtree"


def smallest(configs: Iterable[BudgetConfig], own: BudgetConfig) -> BudgetConfig:
    """Return what holds at all proxies whose settings are these: of each kind of ceiling the smallest, in the period of
    the smallest that is set at all, so that what a budget counts is the same everywhere."""
    known = [own, *configs]

    def rank(config: BudgetConfig) -> tuple[float, float, float, float, str]:
        ceilings = (config.tokens, config.dollars, config.pool_tokens, config.pool_dollars)
        tokens, dollars, pool_tokens, pool_dollars = (math.inf if each is None else each for each in ceilings)
        return tokens, dollars, pool_tokens, pool_dollars, config.per

    def least(name: str) -> float | None:
        return min((value for each in same if (value := getattr(each, name)) is not None), default=None)

    per = min(known, key=rank).per
    same = [each for each in known if each.per == per]
    tokens, pool_tokens = least("tokens"), least("pool_tokens")
    return replace(
        own,
        tokens=None if tokens is None else int(tokens),
        dollars=least("dollars"),
        pool_tokens=None if pool_tokens is None else int(pool_tokens),
        pool_dollars=least("pool_dollars"),
        per=per,
    )
