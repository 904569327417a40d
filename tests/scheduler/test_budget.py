"""How much an agent may use in all."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, failure, lane_config

from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.admission.estimate import FIRST_OUTPUT
from hivemind.scheduler.commands import PauseAdmissions, PauseAgent, Rejected, SetBudget
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import BudgetWarned, Commanded, Event, Refused
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Usage

SIZE = 4 * (400 - FIRST_OUTPUT)
"""Of a request that is estimated at four hundred tokens."""


def known(budget: SetBudget | None = None, lane: LaneConfig | None = None) -> Hands:
    """Agent a was seen, and has used nothing yet; then the budget is set."""
    hands = Hands(lane or lane_config(slots=50))
    hands.leave(hands.arrive("a"))
    hands.log.clear()
    if budget is not None:
        hands.apply(budget)
    return hands


def ask(hands: Hands, count: int) -> list[Ticket]:
    return [hands.arrive("a", size=SIZE) for _ in range(count)]


def in_flight(tickets: list[Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets if ticket.state is TicketState.IN_FLIGHT]


def estimate(ticket: Ticket) -> int:
    return ticket.estimated_input + ticket.estimated_output


def used(hands: Hands) -> int:
    return hands.scheduler.agents["a"].own.ever.tokens


def out(budget: int, used: int) -> tuple[str, int, int | None, int]:
    return "budget", 400, budget, used


def told(ticket: Ticket) -> tuple[str, int, int | None, int] | None:
    """Why it was refused: the reason, the status, the budget and what was used of it."""
    refusal = ticket.refusal
    if refusal is None or refusal.budget is None:
        return None
    return refusal.reason, refusal.status, refusal.budget.tokens, refusal.budget.used_tokens


def gates(hands: Hands) -> list[str]:
    return [hold.gate for hold in lane_state(hands.lane, hands.now, paused=False).upcoming]


@pytest.mark.parametrize("real", [100, 400, 900])
def test_fifty_at_once_overshoot_by_no_more_than_was_in_flight(real: int) -> None:
    """Whatever they turn out to use: as many are sent as might use the budget up, and never more than that."""
    hands = known(SetBudget("a", 3000))
    tickets = ask(hands, 50)
    agent = hands.scheduler.agents["a"]
    assert len(in_flight(tickets)) == 7
    before: list[Ticket] = []
    most = 7
    while now := in_flight(tickets):
        if [ticket for ticket in now if ticket not in before]:
            # A granted request fitted in, or was alone.
            assert len(now) == 1 or used(hands) + agent.own.reserved_tokens <= 3000
            most = len(now)
        before = now
        hands.succeed(now[0], Usage(real - 100, 0, 0, 100))
    assert 3000 <= used(hands) < 3000 + most * real
    refused = [why for ticket in tickets if (why := told(ticket)) is not None]
    assert len(refused) == 50 - len([event for event in hands.log if type(event).__name__ == "Finished"])
    assert {why[:3] for why in refused} == {("budget", 400, 3000)}
    assert all(3000 <= why[3] <= used(hands) for why in refused)
    assert hands.scheduler.agents["a"].own.reserved_tokens == 0


def test_what_waits_for_it_is_left_out_of_the_order() -> None:
    """It isn't refused while a request is in flight that could turn out smaller, and others aren't kept by it."""
    hands = known(SetBudget("a", 700))
    tickets = ask(hands, 4)
    assert len(in_flight(tickets)) == 1
    assert gates(hands) == ["budget", "budget", "budget"]
    assert hands.arrive("b").state is TicketState.IN_FLIGHT
    hands.succeed(tickets[0], Usage(50, 0, 0, 50))
    assert len(in_flight(tickets)) == 1
    assert gates(hands) == ["budget", "budget"]


def test_when_all_is_used_and_nothing_is_in_flight_the_rest_is_refused() -> None:
    """In the queue and between two attempts, and whatever comes; the text can tell both numbers."""
    hands = known(SetBudget("a", 1200))
    first, second, third = ask(hands, 3)
    hands.lane.retries.failure_share = 1.0
    hands.scheduler.fail(hands.now, second, failure(), Usage(40, 0, 0, 10))
    hands.gather()
    assert (second.state, third.state) == (TicketState.BACKING_OFF, TicketState.IN_FLIGHT)
    for ticket in (first, third):
        hands.succeed(ticket, Usage(500, 0, 0, 100))
    expected = out(1200, 1250)
    assert told(second) == expected
    assert told(hands.arrive("a")) == expected
    assert [(event.reason, event.status) for event in hands.seen(Refused)] == [("budget", 400)] * 2
    assert hands.lane.queue.waiting == len(hands.lane.backing_off) == 0


def test_an_attempt_that_used_it_up_is_not_tried_again() -> None:
    """Wasted tokens count too; the ticket's own wait for its retry ends at once."""
    hands = known(SetBudget("a", 500))
    (ticket,) = ask(hands, 1)
    hands.scheduler.fail(hands.now, ticket, failure(FailureKind.TRUNCATED), Usage(500, 0, 0, 0))
    hands.gather()
    assert told(ticket) == out(500, 500)
    assert ticket.state is TicketState.DONE


def test_everything_counts_from_the_first_request_on() -> None:
    """What was used before there was a budget, what failed, and what a client left, cached or not."""
    hands = Hands(lane_config(slots=9))
    hands.succeed(hands.arrive("a"), Usage(1, 20, 300, 4000))
    hands.scheduler.fail(hands.now, hands.arrive("a"), failure(retryable=False), Usage(10_000, 0, 0, 0))
    hands.leave(hands.arrive("a"), Usage(0, 0, 0, 200_000))
    hands.succeed(hands.arrive("a"))
    assert used(hands) == 214_321
    hands.apply(SetBudget("a", 214_321))
    assert hands.arrive("a").refusal is not None
    hands.apply(SetBudget("a", 214_322))
    assert hands.arrive("a").state is TicketState.IN_FLIGHT


@pytest.mark.parametrize("tokens", [5000, None])
def test_more_lets_them_go_at_once(tokens: int | None) -> None:
    """As many as it is good for; without one all of them."""
    hands = known(SetBudget("a", 400))
    tickets = ask(hands, 20)
    assert len(in_flight(tickets)) == 1
    hands.apply(SetBudget("a", tokens))
    assert len(in_flight(tickets)) == (12 if tokens else 20)
    assert hands.seen(Commanded)[-1].arguments["tokens"] == tokens


def test_less_than_what_is_used_refuses_what_waits() -> None:
    """As soon as nothing is in flight; here at once, since another agent has the slot."""
    hands = known(lane=lane_config(slots=1))
    hands.succeed(hands.arrive("a"), Usage(1000, 0, 0, 0))
    hands.arrive("b")
    waiting = hands.arrive("a")
    hands.apply(SetBudget("a", 10))
    assert told(waiting) == out(10, 1000)


def test_over_several_lanes() -> None:
    """A budget is the agent's, wherever it asks; what comes free on one lane lets it go on another."""
    hands = known()
    hands.scheduler.open_lane(0.0, "other", lane_config(slots=5))
    hands.apply(SetBudget("a", 700))
    here = ask(hands, 2)
    there = hands.arrive("a", lane="other", size=SIZE)
    assert there.in_queue
    hands.succeed(here[0], Usage(10, 0, 0, 0))
    hands.succeed(here[1], Usage(10, 0, 0, 0))
    assert there.state is TicketState.IN_FLIGHT


def test_a_paused_agent_stays_paused() -> None:
    """Raising its budget doesn't resume it, and resuming it doesn't raise its budget."""
    hands = known(SetBudget("a", 400))
    tickets = ask(hands, 3)
    hands.apply(PauseAgent("a", True))
    assert gates(hands) == ["budget"] * 2
    hands.apply(SetBudget("a", 10_000))
    assert (len(in_flight(tickets)), gates(hands)) == (1, ["held"] * 2)
    hands.apply(SetBudget("a", 400))
    hands.apply(PauseAgent("a", False))
    assert (len(in_flight(tickets)), gates(hands)) == (1, ["budget"] * 2)


def test_between_two_attempts_it_is_reported_too() -> None:
    """The retry would come first, but what keeps the ticket is its agent's budget."""
    hands = known(SetBudget("a", 700))
    tickets = ask(hands, 2)
    hands.lane.retries.failure_share = 1.0
    hands.fail(tickets[0])
    assert gates(hands) == ["backoff"]
    hands.apply(SetBudget("a", 300))
    assert gates(hands) == ["budget"]
    hands.apply(PauseAdmissions(True))
    (state,) = hands.scheduler.sample(hands.now).lanes
    assert [hold.gate for hold in state.upcoming] == ["paused"]


def warnings(hands: Hands) -> list[tuple[int, int | None, bool]]:
    return [(event.state.used_tokens, event.state.tokens, event.exhausted) for event in hands.seen(BudgetWarned)]


def test_two_marks_are_reported_once_a_budget() -> None:
    """At 85 % and when nothing is left; another budget has its own."""
    hands = known(SetBudget("a", 1000))
    for tokens in (849, 1, 100, 40, 10, 5):
        account = hands.scheduler.agents["a"].own
        account.ever = account.ever.plus(Spent(tokens - 1))
        ticket = hands.arrive("a", size=4)
        if ticket.state is TicketState.IN_FLIGHT:
            hands.succeed(ticket, Usage(1, 0, 0, 0))
    assert warnings(hands) == [(850, 1000, False), (1000, 1000, True)]
    hands.apply(SetBudget("a", 1100))
    assert warnings(hands)[2:] == [(1004, 1100, False)]
    hands.apply(SetBudget("a", 1004))
    assert warnings(hands)[3:] == [(1004, 1004, True)]


def test_both_marks_at_once_are_one_word() -> None:
    """That nothing is left."""
    hands = known(SetBudget("a", 100))
    (ticket,) = ask(hands, 1)
    hands.succeed(ticket, Usage(400, 0, 0, 0))
    assert warnings(hands) == [(400, 100, True)]


def test_the_command_is_reported_before_its_effects() -> None:
    """Cause before effect, in the order of the events."""
    hands = known(lane=lane_config(slots=1))
    hands.succeed(hands.arrive("a"), Usage(1000, 0, 0, 0))
    hands.arrive("b")
    hands.arrive("a")
    hands.log.clear()
    hands.apply(SetBudget("a", 10))
    kinds: list[type[Event]] = [type(event) for event in hands.log]
    assert kinds == [Commanded, BudgetWarned, Refused]


@pytest.mark.parametrize(
    ("tokens", "given"), [(0, " 0"), (-5_000, " -5,000"), (10**15 + 1, ""), (10**300, ""), (-(10**300), "")]
)
def test_a_number_of_tokens_that_can_be(tokens: int, given: str) -> None:
    """The text says what would be right, and nothing changes; a number that no screen could reckon with is none."""
    hands = known()
    with pytest.raises(Rejected) as rejected:
        hands.apply(SetBudget("a", tokens))
    assert str(rejected.value) == f"budget{given}: must be from 1 to 1,000,000,000,000,000 tokens, or none"
    assert hands.arrive("a").state is TicketState.IN_FLIGHT


def test_before_it_was_seen() -> None:
    """A budget can be set before its agent comes; only an agent without a name can't have one."""
    hands = known(SetBudget("zoe", 5))
    hands.succeed(hands.arrive("zoe"), Usage(5, 0, 0, 0))
    assert told(hands.arrive("zoe")) == out(5, 5)
    with pytest.raises(Rejected, match="an agent needs a name"):
        hands.apply(SetBudget("", 5))
