"""Random histories in which budgets are shared with proxies that use, decide and answer whatever they like."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest import mock

from examples import of_histories
from hypothesis import strategies as st
from hypothesis.stateful import rule
from scheduler.test_invariants import Histories, Told

from hivemind.scheduler.accounts import POOL, Budget, Spent
from hivemind.scheduler.config import BudgetConfig, LaneConfig, SchedulerConfig
from hivemind.scheduler.ledger import Ledger
from hivemind.scheduler.shared_budgets import AccountReport, AccountShare, BudgetsLease, BudgetsReport, SharedBudgets
from hivemind.scheduler.ticket import Agent, Ticket

AMOUNTS = st.sampled_from([0, 0, 50, 400, 3_000, 20_000])
BUDGETS = st.builds(
    Budget,
    st.sampled_from([None, 300, 5_000]),
    st.sampled_from([None, 0.001, 5.0]),
    st.sampled_from(["run", "day", "ever"]),
    st.sampled_from(["agent", "subtree"]),
)


class SharedHistories(Histories):
    """As others, and from time to time an answer of the store comes."""

    sharing: SharedBudgets

    def __init__(self) -> None:
        super().__init__()
        patch = mock.patch.object(Ledger, "reserve", self.reserved(Ledger.reserve))
        patch.start()
        self.patches.append(patch)

    def reserved(self, reserve: Callable[[Ledger, Ticket], list[Agent]]) -> Callable[[Ledger, Ticket], list[Agent]]:
        """Check that what is granted fits into what may be used here, and into what all have left."""

        def checked(ledger: Ledger, ticket: Ticket) -> list[Agent]:
            held = reserve(ledger, ticket)
            for account in ticket.agent.limits:
                share, now = account.shared, self.hands.now
                assert share is not None
                assert now < share.until
                if account.in_flight > 1 or not share.alone:
                    used = account.used(account.budget.per)
                    assert used.tokens + account.reserved_tokens <= share.tokens
                    assert used.dollars + account.reserved_dollars <= share.dollars
                    ceiling = account.budget.tokens
                    together = used.tokens + share.elsewhere.tokens + account.reserved_tokens
                    assert ceiling is None or together <= ceiling
            return held

        return checked

    def make(self, lane: LaneConfig, config: SchedulerConfig, draw: float) -> Told:
        hands = super().make(lane, config, draw)
        self.sharing = hands.scheduler.share_budgets(0.0)
        return hands

    @rule(new_run=st.booleans())
    def restart(self, new_run: bool) -> None:
        own = self.hands.scheduler.config.budget
        self.sharing.take(self.hands.now, BudgetsLease(0.0, defaults=own))  # the settings aren't remembered
        self.hands.gather()
        super().restart(new_run)
        self.sharing = self.hands.scheduler.share_budgets(self.hands.now)
        self.hands.gather()

    def report(self) -> BudgetsReport:
        report = self.sharing.report(self.hands.now)
        self.hands.gather()
        for each in report.accounts:
            self.check_report(each)
        return report

    def check_report(self, told: AccountReport) -> None:
        """What is told is what the books say."""
        agent = self.hands.scheduler.agents.find(told.key[0])
        account = self.hands.scheduler.pool if agent is None else agent.tree if told.key[1] == "subtree" else agent.own
        assert told.used == account.used(told.budget.per)
        assert told.in_flight == account.in_flight
        if account.short:
            assert told.first == min(account.short.values())
            assert told.ask[0] >= told.first[0] > 0

    @rule(
        elsewhere=AMOUNTS,
        tokens=AMOUNTS,
        dollars=st.sampled_from([0.0, 0.01, math.inf]),
        alone=st.booleans(),
        late=st.booleans(),
        seconds=st.sampled_from([0.0, 1.0, 100.0]),
        which=st.integers(0, 3),
    )
    def answered(
        self, elsewhere: int, tokens: int, dollars: float, alone: bool, late: bool, seconds: float, which: int
    ) -> None:
        """The others have used so much, and this proxy may use so much more of some accounts."""
        report, hands = self.report(), self.hands
        if late:
            hands.wait(70.0)
        shares = [
            AccountShare(
                told.key,
                told.round,
                Spent(elsewhere, elsewhere * 1e-6),
                told.used.tokens + tokens,
                told.used.dollars + dollars,
                alone,
            )
            for n, told in enumerate(report.accounts)
            if which == 0 or n % 3 == which - 1
        ]
        self.sharing.take(hands.now, BudgetsLease(hands.now + seconds, shares))
        hands.gather()

    @rule(name=st.sampled_from(["a", "b", "a/x", "z", POOL]), budget=BUDGETS)
    def decided_elsewhere(self, name: str, budget: Budget) -> None:
        self.report()
        if name == POOL:
            budget = Budget(budget.tokens, budget.dollars, budget.per)
        self.hands.steered = True
        self.sharing.take(self.hands.now, BudgetsLease(0.0, decided={name: (budget, "bob")}))
        self.hands.gather()
        self.hands.steered = False
        agent = self.hands.scheduler.agents.get(name)
        if name == POOL or agent is not None:
            found = (self.hands.scheduler.pool if agent is None else agent).budget
            assert found == budget or not (found or budget)

    @rule(tokens=st.sampled_from([None, 500, 9_000]), pool_dollars=st.sampled_from([None, 0.01]))
    def settings_elsewhere(self, tokens: int | None, pool_dollars: float | None) -> None:
        defaults = BudgetConfig(tokens=tokens, pool_dollars=pool_dollars)
        self.sharing.take(self.hands.now, BudgetsLease(0.0, defaults=defaults))
        self.hands.gather()
        for agent in self.hands.scheduler.agents.values():
            assert agent.budgeted or agent.own.budget.tokens == tokens

    def before_each_end(self) -> None:
        """The others have used nothing, and leave it all to this one."""
        report, hands = self.report(), self.hands
        shares = [AccountShare(each.key, each.round, Spent(), math.inf, math.inf, True) for each in report.accounts]
        self.sharing.take(hands.now, BudgetsLease(math.inf, shares))
        hands.gather()


TestSharedHistories = SharedHistories.TestCase
TestSharedHistories.settings = of_histories(50)
