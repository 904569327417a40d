"""Budgets that other proxies count against too, with the answers of their store given by hand."""

from __future__ import annotations

import math

from scheduler.driving import Hands, lane_config

from hivemind.scheduler.accounts import POOL, Budget, Spent
from hivemind.scheduler.commands import BeginAgent, Command, SetBudget
from hivemind.scheduler.config import BudgetConfig
from hivemind.scheduler.shared_budgets import (
    AccountReport,
    AccountShare,
    BudgetsLease,
    BudgetsReport,
    SharedBudgets,
    smallest,
)
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Usage


class Member:
    """One scheduler whose budgets are shared."""

    def __init__(self) -> None:
        self.hands = Hands(lane_config(slots=50))
        self.sharing: SharedBudgets = self.hands.scheduler.share_budgets(0.0)
        self.calls = 0
        self.hands.scheduler.ledger.on_short = self._called

    def _called(self) -> None:
        self.calls += 1

    def report(self) -> BudgetsReport:
        report = self.sharing.report(self.hands.now)
        self.hands.gather()
        return report

    def account(self) -> AccountReport:
        """The report of agent a's account, after the time in which it is due."""
        self.hands.now += 1.0
        return next(each for each in self.report().accounts if each.key[0] == "a")

    def answer(self, tokens: float = 0.0, *, elsewhere: int = 0, alone: bool = False, covers: str = "agent") -> None:
        """Let a's own count rise so far."""
        rounds = {each.key: each.round for each in self.report().accounts}
        key = ("a", covers)
        share = AccountShare(key, rounds.get(key, 0), Spent(elsewhere), tokens, math.inf, alone)
        self.take(BudgetsLease(self.hands.now + 100.0, [share]))

    def take(self, lease: BudgetsLease) -> None:
        self.sharing.take(self.hands.now, lease)
        self.hands.gather()


def sharing(command: Command) -> tuple[Member, Hands]:
    """A member and its hands, after a command."""
    member = Member()
    member.hands.apply(command)
    return member, member.hands


def states(*tickets: Ticket) -> list[TicketState]:
    return [ticket.state for ticket in tickets]


def test_nothing_is_granted_before_the_others_have_been_heard() -> None:
    """An agent without a budget isn't affected, one with a budget waits, and the store is asked at once."""
    member, hands = sharing(SetBudget("a", 10_000))
    waits, free = hands.arrive("a"), hands.arrive("b")
    assert states(waits, free) == [TicketState.QUEUED, TicketState.IN_FLIGHT]
    assert member.calls == 2  # for the budget that was decided, and for the request
    report = member.account()
    estimate = waits.estimated_input + waits.estimated_output
    assert (report.first[0], report.ask[0], report.in_flight) == (estimate, estimate, 0)
    member.answer(estimate - 1)
    assert states(waits) == [TicketState.QUEUED]
    member.answer(estimate)
    assert states(waits) == [TicketState.IN_FLIGHT]
    assert member.account().reserved == (estimate, 0.0)


def test_what_others_used_counts() -> None:
    """Used up elsewhere, it is refused here, with the sum of all; what waits is refused too."""
    member, hands = sharing(SetBudget("a", 10_000))
    waits = hands.arrive("a")
    member.answer(0, elsewhere=10_000)
    assert waits.refusal is not None
    assert waits.refusal.budget is not None
    assert (waits.refusal.budget.used_tokens, waits.refusal.budget.here_tokens) == (10_000, 0)
    assert hands.arrive("a").refusal is not None
    hands.apply(SetBudget("a", 20_000))
    later = hands.arrive("a")
    assert states(later) == [TicketState.QUEUED]
    member.answer(9_000, elsewhere=10_000)
    assert states(later) == [TicketState.IN_FLIGHT]


def test_a_request_larger_than_the_rest_goes_alone_in_the_fleet() -> None:
    """Only where the store says that no other proxy has one."""
    member, hands = sharing(SetBudget("a", 100))
    large = hands.arrive("a")
    member.answer(100)
    assert states(large) == [TicketState.QUEUED]
    member.answer(100, alone=True)
    assert states(large) == [TicketState.IN_FLIGHT]


def test_parts_end_with_their_time() -> None:
    """Then the others may have them."""
    member, hands = sharing(SetBudget("a", 100_000))
    hands.arrive("a")
    member.answer(100_000)
    hands.now += 99.0
    assert states(hands.arrive("a")) == [TicketState.IN_FLIGHT]
    hands.now += 2.0
    assert states(hands.arrive("a")) == [TicketState.QUEUED]


def test_an_answer_about_an_earlier_run_is_ignored() -> None:
    """The count has begun anew since the report."""
    member, hands = sharing(SetBudget("a", 100_000))
    first = hands.arrive("a")
    member.answer(100_000)
    hands.succeed(first, Usage(10, 0, 0, 10))
    round_ = member.account().round
    hands.apply(BeginAgent("a"))
    member.take(BudgetsLease(200.0, [AccountShare(("a", "agent"), round_, Spent(), 100_000, math.inf)]))
    assert states(hands.arrive("a")) == [TicketState.QUEUED]


def test_a_request_that_gave_up_keeps_no_other_waiting() -> None:
    """The agent's next one may be smaller."""
    member, hands = sharing(SetBudget("a", 10_000))
    large = hands.arrive("a", size=20_000)
    small = hands.arrive("a", size=40)
    member.answer(2_000)
    assert states(large, small) == [TicketState.QUEUED, TicketState.QUEUED]
    hands.leave(large)
    member.report()
    assert states(small) == [TicketState.IN_FLIGHT]


def test_decisions_travel() -> None:
    """What is decided here is told once; what is decided elsewhere holds, also for an agent that comes later."""
    member, hands = sharing(SetBudget("a", 500))
    hands.apply(SetBudget(None, 900))
    assert member.report().decided == {"a": Budget(500), POOL: Budget(900)}
    assert member.report().decided == {}
    later = {"a": (Budget(700, per="day", covers="subtree"), "bob"), "c": (Budget(300), "bob"), POOL: (Budget(), "bob")}
    member.take(BudgetsLease(100.0, decided=later))
    assert member.report().decided == {}
    hands.arrive("c")
    agents = hands.scheduler.agents
    assert (agents["a"].budget, agents["c"].budget, hands.scheduler.pool.budget) == (
        Budget(700, per="day", covers="subtree"),
        Budget(300),
        Budget(),
    )
    hands.apply(SetBudget("a", 100))  # not told yet, so an answer to an earlier report doesn't undo it
    member.take(BudgetsLease(100.0, decided={"a": (Budget(800), "bob")}))
    assert agents["a"].own.budget.tokens is None
    assert agents["a"].tree.budget.tokens == 100


def test_the_smallest_of_all_settings_holds() -> None:
    """For agents about which nothing was decided, those at hand included."""
    member = Member()
    hands = member.hands
    hands.arrive("a")
    hands.apply(SetBudget("b", 900))
    own = BudgetConfig(tokens=500, pool_dollars=5.0)
    found = smallest([BudgetConfig(tokens=300), BudgetConfig(tokens=400, per="day", dollars=1.0)], own)
    assert (found.tokens, found.dollars, found.pool_dollars, found.per) == (300, None, 5.0, "run")
    member.take(BudgetsLease(100.0, defaults=found))
    agents = hands.scheduler.agents
    assert (agents["a"].own.budget.tokens, agents["b"].own.budget.tokens) == (300, 900)
    assert hands.scheduler.pool.budget.dollars == 5.0
