"""A request in flight that the operator cuts."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.commands import CutRequest, Rejected, SetBudget
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import TicketState


@pytest.mark.parametrize("retry", [True, False])
def test_nothing_is_blamed_and_all_is_released_once(retry: bool) -> None:
    """However many are cut after however long, level, circuit and retry budget stay; slot and budget are free again."""
    hands = Hands(lane_config(slots=2))
    hands.apply(SetBudget("a", tokens=1_000_000))
    ticket = hands.arrive("a", max_out=100)
    before = lane_state(hands.lane, hands.now, paused=False)
    for number in range(1, 12):
        hands.wait(1000.0)  # longer than any wait in the queue may be
        hands.apply(CutRequest("a", retry=retry))
        assert ticket.cut is not None
        with pytest.raises(Rejected, match="to be cut"):
            hands.apply(CutRequest("a"))
        again = hands.scheduler.fail(hands.now, ticket, ticket.cut)
        assert (again is not None) is retry
        if not retry:
            assert ticket.state is TicketState.DONE
            ticket = hands.arrive("a", max_out=100)
        assert (ticket.state, ticket.attempts) == (TicketState.IN_FLIGHT, number + 1 if retry else 1)
    after = lane_state(hands.lane, hands.now, paused=False)
    assert (after.level, after.circuit_errors, after.active) == (before.level, before.circuit_errors, 1)
    assert hands.lane.retries.spend(hands.now) == 0
    hands.succeed(ticket)
    account = hands.scheduler.agents["a"].own
    assert (account.reserved_tokens, hands.lane.gate.active) == (0, 0)


def test_which_one() -> None:
    """The only one needs no number, one whose answer has begun isn't sent again, and one that waits isn't in flight."""
    hands = Hands(lane_config(slots=2))
    first, second, third = (hands.arrive("a") for _ in range(3))
    for command, line in (
        (CutRequest("a"), f"a has 2 requests in flight; say which (in flight: {first.id}, {second.id})"),
        (CutRequest("a", third.id), f"a has no request {third.id} in flight"),
        (CutRequest("b"), "no agent named 'b'"),
    ):
        with pytest.raises(Rejected) as refused:
            hands.apply(command)
        assert str(refused.value).startswith(line)
    hands.scheduler.first_content(hands.now, first)
    with pytest.raises(Rejected, match="can only be cut, not retried"):
        hands.apply(CutRequest("a", first.id))
    hands.apply(CutRequest("a", first.id, retry=False))
    assert first.cut is not None
    assert not first.cut.retryable
