"""Budgets in dollars, of a subtree, of all agents together; and the moments from which they count."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, lane_config, request

from hivemind.records import replace
from hivemind.scheduler.accounts import Period
from hivemind.scheduler.commands import BeginAgent, Command, EndAgent, Rejected, SetBudget
from hivemind.scheduler.config import BudgetConfig, SchedulerConfig
from hivemind.scheduler.events import AgentBegan, BudgetState, PriceUnknown
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import DEAREST, Usage
from hivemind.text.amounts import how_used


def dollars(_: str, model: str, usage: Usage) -> float | None:
    """A tenth of a cent a token, at a gateway; the price of the model called dark is unknown."""
    return None if model in ("dark", DEAREST) else usage.total / 1000


def hands_with(*commands: Command, budget: BudgetConfig | None = None, max_agents: int = 0) -> Hands:
    config = SchedulerConfig(budget=budget or BudgetConfig(), max_agents=max_agents)
    hands = Hands(lane_config(slots=50), config=config)
    hands.scheduler.ledger.price_by(dollars)
    for command in commands:
        hands.apply(command)
    return hands


def use(hands: Hands, agent: str, tokens: int, *, parent: str | None = None, model: str = "m") -> Ticket:
    """Send one request that is answered, if it is granted."""
    ticket = hands.arrive(agent, size=4, max_out=1, parent=parent, family=model)
    if ticket.state is TicketState.IN_FLIGHT:
        hands.succeed(ticket, Usage(tokens, 0, 0, 0))
    return ticket


def refused(ticket: Ticket) -> BudgetState | None:
    return None if ticket.refusal is None else ticket.refusal.budget


def states(hands: Hands) -> tuple[BudgetState, ...]:
    return hands.scheduler.sample(hands.now).budgets


# --- Dollars ----------------------------------------------------------------------------------------------------------


def test_dollars_hold_like_tokens() -> None:
    """Each is charged with its price; at the ceiling the next one is refused, and more money lets it ask again."""
    hands = hands_with(SetBudget("a", dollars=1.0))
    use(hands, "a", 999)
    state = refused(use(hands, "a", 1)) or refused(use(hands, "a", 1))
    assert state is not None
    assert (state.dollars, round(state.used_dollars, 3), state.tokens) == (1.0, 1.0, None)
    hands.apply(SetBudget("a", dollars=2.0))
    assert use(hands, "a", 1).refusal is None


def test_the_ceiling_that_is_reached_first_holds() -> None:
    """A budget may have both."""
    hands = hands_with(SetBudget("a", tokens=10_000, dollars=0.5))
    use(hands, "a", 600)
    assert refused(use(hands, "a", 1)) is not None
    hands.apply(SetBudget("a", tokens=600, dollars=50.0))
    assert refused(use(hands, "a", 1)) is not None


def test_an_estimate_in_dollars_is_set_aside() -> None:
    """Fifty at once on the money for ten: no more are sent than it may be good for."""
    hands = hands_with(SetBudget("a", dollars=4.0))
    tickets = [hands.arrive("a", size=4 * 144) for _ in range(50)]  # 400 tokens each, by estimate
    assert sum(ticket.state is TicketState.IN_FLIGHT for ticket in tickets) == 10


def test_an_estimate_has_the_price_of_the_tier_that_is_asked_for() -> None:
    """At twice the price half as many are sent; one that is answered at the standard tier is charged as such."""
    hands = hands_with()
    hands.scheduler.ledger.price_by(lambda _, __, usage: usage.total / (500 if usage.tier == "fast" else 1000))
    hands.apply(SetBudget("a", dollars=4.0))
    asked = replace(request("a", size=4 * 144), tier="fast")  # 400 tokens each, by estimate
    tickets = [hands.take(asked) for _ in range(50)]
    sent = [ticket for ticket in tickets if ticket.state is TicketState.IN_FLIGHT]
    assert len(sent) == 5
    hands.succeed(sent[0], Usage(100, 0, 0, 0, tier="fast"))
    hands.succeed(sent[1], Usage(100, 0, 0, 0))
    (state,) = states(hands)
    assert state.used_dollars == pytest.approx(0.3)


def test_an_unknown_price_is_said_and_not_taken_for_zero() -> None:
    """Once a model and agent; the tokens are shown beside the dollars, and count in tokens all the same."""
    hands = hands_with(SetBudget("a", dollars=1.0))
    use(hands, "a", 300, model="dark")
    use(hands, "a", 300, model="dark")
    assert [(event.agent, event.model) for event in hands.seen(PriceUnknown)] == [("a", "dark")]
    (state,) = states(hands)
    assert (state.used_tokens, state.used_dollars, state.unpriced) == (600, 0.0, 600)
    hands.apply(SetBudget("a", tokens=600))
    assert refused(use(hands, "a", 1, model="dark")) is not None


def test_an_unknown_price_is_that_of_the_dearest_model() -> None:
    """By default, and where the provider is known: the budget holds, also by the estimate before, and says that it is
    an estimate; else the tokens are told. `count` leaves it at that."""

    def price(provider: str, model: str, usage: Usage) -> float | None:
        return usage.total / 1000 * {"m": 1, DEAREST: 2}[model] if model != "dark" else None

    hands = hands_with()
    hands.scheduler.ledger.price_by(price)
    hands.apply(SetBudget("a", dollars=1.0))
    use(hands, "a", 250, model="dark")
    (state,) = states(hands)
    assert (state.used_dollars, state.unpriced, state.estimated) == (0.5, 0, 250)
    assert [event.estimated for event in hands.seen(PriceUnknown)] == [True]
    assert how_used(state) == "$0.50 of $1.00 used this run (with 250 tokens by estimate)"
    use(hands, "a", 250, model="dark")
    assert refused(use(hands, "a", 1, model="dark")) is not None
    hands = hands_with(budget=BudgetConfig(unpriced="count"))
    hands.scheduler.ledger.price_by(price)
    hands.apply(SetBudget("a", dollars=1.0))
    use(hands, "a", 250, model="dark")
    (state,) = states(hands)
    assert (state.used_dollars, state.unpriced, state.estimated) == (0.0, 250, 0)


def test_an_unknown_price_can_be_refused() -> None:
    """Where the settings have it so, and only on a budget in dollars."""
    hands = hands_with(budget=BudgetConfig(unpriced="refuse"))
    use(hands, "a", 1, model="dark")
    hands.apply(SetBudget("a", dollars=1.0))
    ticket = use(hands, "a", 1, model="dark")
    assert ticket.refusal is not None
    assert (ticket.refusal.reason, ticket.refusal.status, ticket.refusal.detail) == ("price_unknown", 400, "dark")
    assert use(hands, "a", 1).refusal is None
    assert use(hands, "b", 1, model="dark").refusal is None


# --- Subtree and pool -------------------------------------------------------------------------------------------------


def test_a_subtree_shares_one_budget() -> None:
    """Children and grandchildren, those that come later too; others don't."""
    hands = hands_with()
    use(hands, "root", 10)
    hands.apply(SetBudget("root", tokens=100, covers="subtree"))
    use(hands, "child", 40, parent="root")
    use(hands, "grandchild", 50, parent="child")
    for name in ("root", "child", "grandchild"):
        state = refused(use(hands, name, 1))
        assert state is not None
        assert (state.owner, state.covers, state.used_tokens) == ("root", "subtree", 100)
    assert refused(use(hands, "late", 1, parent="grandchild")) is not None
    assert use(hands, "stranger", 1).refusal is None
    hands.apply(SetBudget("root", tokens=200, covers="subtree"))
    assert use(hands, "grandchild", 1).refusal is None


def test_a_childs_use_does_not_count_for_the_agent_alone() -> None:
    """Unless the budget covers its subtree."""
    hands = hands_with(SetBudget("root", tokens=100))
    use(hands, "child", 500, parent="root")
    assert use(hands, "root", 1).refusal is None


def test_a_budget_that_is_made_to_cover_the_subtree_counts_its_past() -> None:
    """And keeps what it covers when only the amount is changed."""
    hands = hands_with(SetBudget("root", tokens=100))
    use(hands, "child", 500, parent="root")
    hands.apply(SetBudget("root", tokens=400, covers="subtree"))
    assert refused(use(hands, "child", 1)) is not None
    hands.apply(SetBudget("root", tokens=900))
    (state,) = states(hands)
    assert (state.covers, state.used_tokens) == ("subtree", 500)


def test_a_parent_that_is_known_later_inherits_what_the_child_used() -> None:
    """Once; and no agent becomes an ancestor of its own."""
    hands = hands_with()
    use(hands, "child", 70)
    in_flight = hands.arrive("child", size=4, max_out=1)
    hands.apply(BeginAgent("root"))
    hands.apply(SetBudget("root", tokens=900, covers="subtree"))
    hands.apply(BeginAgent("child", parent="root", resumed=True))
    hands.apply(BeginAgent("root", parent="child", resumed=True))
    root = hands.scheduler.agents["root"]
    assert (root.tree.ever.tokens, root.tree.in_flight, root.parent) == (70, 1, None)
    hands.succeed(in_flight, Usage(5, 0, 0, 0))
    assert (root.tree.ever.tokens, root.own.ever.tokens, root.tree.in_flight) == (75, 0, 0)


def test_the_pool_is_for_all() -> None:
    """Whichever agent uses it up, it is used up for all, and the refusal says so."""
    hands = hands_with(SetBudget(None, tokens=100))
    use(hands, "a", 60)
    use(hands, "b", 40)
    state = refused(use(hands, "c", 1))
    assert state is not None
    assert (state.owner, state.covers, state.tokens, state.used_tokens) == (None, "all", 100, 100)
    hands.apply(SetBudget(None))
    assert use(hands, "c", 1).refusal is None
    with pytest.raises(Rejected, match="covers: the pool covers all agents"):
        hands.apply(SetBudget(None, tokens=1, covers="subtree"))


def test_the_smaller_budget_holds_and_is_named() -> None:
    """An agent with plenty of its own stops with the pool, and the other way round."""
    hands = hands_with(budget=BudgetConfig(pool_tokens=100))
    hands.apply(SetBudget("a", tokens=1000))
    use(hands, "a", 100)
    state = refused(use(hands, "a", 1))
    assert state is not None
    assert state.owner is None
    hands.apply(SetBudget(None, tokens=5000))
    use(hands, "a", 900)
    state = refused(use(hands, "a", 1))
    assert state is not None
    assert state.owner == "a"


# --- Settings and periods ---------------------------------------------------------------------------------------------


def test_settings_give_each_agent_a_budget_until_another_is_set() -> None:
    """Taken away by command it stays away, also over a restart's worth of asking."""
    hands = hands_with(budget=BudgetConfig(tokens=50, per="ever"))
    use(hands, "a", 50)
    assert refused(use(hands, "a", 1)) is not None
    hands.apply(SetBudget("a"))
    assert use(hands, "a", 1).refusal is None
    assert not hands.scheduler.agents["a"].ordinary


def test_a_run_begins_with_the_process() -> None:
    """Started anew it may use its budget again, resumed it may not."""
    hands = hands_with(BeginAgent("a"), SetBudget("a", tokens=50))
    use(hands, "a", 50)
    hands.apply(EndAgent("a", 1))
    hands.apply(BeginAgent("a", resumed=True))
    assert refused(use(hands, "a", 1)) is not None
    hands.apply(BeginAgent("a"))
    assert use(hands, "a", 1).refusal is None
    assert [(event.agent, event.resumed) for event in hands.seen(AgentBegan)] == [
        ("a", False),
        ("a", True),
        ("a", False),
    ]


@pytest.mark.parametrize("begins", ["day", "month"])
@pytest.mark.parametrize("period", ["run", "day", "month", "ever"])
def test_midnight_renews_a_budget_for_the_day_alone(period: str, begins: Period) -> None:
    """The agent's and the pool's; that of the first likewise one for the month."""
    hands = hands_with()
    hands.apply(SetBudget("a", tokens=50, per=period))  # type: ignore[arg-type]
    hands.apply(SetBudget(None, tokens=60, per=period))  # type: ignore[arg-type]
    use(hands, "a", 60)
    hands.scheduler.begin_period(hands.now, begins)
    hands.gather()
    left = period == begins
    assert (use(hands, "a", 1).refusal is None) is left
    assert (use(hands, "b", 1).refusal is None) is left


def test_a_new_run_renews_budgets_for_a_run_alone() -> None:
    """All agents', and waiting tickets are released."""
    hands = hands_with(SetBudget("a", tokens=50), SetBudget("b", tokens=50, per="ever"))
    use(hands, "a", 50)
    use(hands, "b", 50)
    hands.scheduler.begin_period(hands.now, "run")
    hands.gather()
    assert use(hands, "a", 1).refusal is None
    assert refused(use(hands, "b", 1)) is not None
    assert hands.scheduler.agents["a"].own.ever.tokens == 51


@pytest.mark.parametrize("amount", [0.0, -1.0, 2e9, float("inf"), float("nan")])
def test_an_amount_of_money_that_can_be(amount: float) -> None:
    """The text says what would be right."""
    hands = hands_with()
    with pytest.raises(Rejected, match=r"must be above \$0 and at most \$1,000,000,000, or none"):
        hands.apply(SetBudget("a", dollars=amount))


# --- The limit of live agents -----------------------------------------------------------------------------------------


def test_a_parent_that_waits_for_its_child_takes_no_place() -> None:
    """Else a tree of agents could keep itself from going on; others still count."""
    hands = hands_with(max_agents=1)
    use(hands, "root", 1)
    assert use(hands, "child", 1, parent="root").refusal is None
    other = use(hands, "other", 1)
    assert other.refusal is not None
    assert other.refusal.reason == "too_many_agents"


def test_an_agent_whose_process_has_ended_is_not_live() -> None:
    """Its place is the next one's at once, not after it was idle for long."""
    hands = hands_with(max_agents=1)
    hands.apply(BeginAgent("a"))
    use(hands, "a", 1)
    hands.apply(EndAgent("a", 0))
    assert use(hands, "b", 1).refusal is None


def test_an_agent_that_was_put_aside_comes_back_with_what_it_used() -> None:
    """However many came in between."""
    hands = hands_with()
    use(hands, "early", 77)
    hands.wait(400.0)
    for number in range(4100):
        hands.scheduler.arrive(hands.now, request(f"agent-{number}", size=4))
    assert "early" not in hands.scheduler.agents
    assert use(hands, "early", 3).agent.own.ever.tokens == 77
    assert hands.scheduler.pool.ever.tokens == 77


def test_a_part_that_a_part_started_counts_once_in_an_ancestor_that_is_known_later() -> None:
    """What it used and has in flight is in the account of the agent in whose process it works."""
    hands = Hands(lane_config(slots=5))
    hands.succeed(hands.arrive("ann/sub", parent="ann"), Usage(100))
    hands.succeed(hands.arrive("ann/deeper", parent="ann/sub"), Usage(10))
    hands.arrive("ann/deeper")
    hands.apply(BeginAgent("ann", "ben"))
    hands.apply(SetBudget("ben", tokens=900, covers="subtree"))
    tree = hands.scheduler.agents["ben"].tree
    assert (tree.ever.tokens, tree.in_flight) == (110, 1)
