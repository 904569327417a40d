"""Agents make up models' names: what is kept of them is bounded, and real models are not displaced."""

from __future__ import annotations

from scheduler.driving import Hands, lane_config

from hivemind.records import replace
from hivemind.scheduler.admission.estimate import MODELS_KEPT
from hivemind.scheduler.commands import SetBudget
from hivemind.scheduler.events import PriceUnknown
from hivemind.scheduler.lane import FAMILIES_KEPT, Lane
from hivemind.scheduler.ledger import MOST_UNPRICED
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import Usage, WindowKind, WindowReading

MANY = 2 * max(MODELS_KEPT, FAMILIES_KEPT)
USAGE = Usage(5, 5, 0, 7)


def lane_of(hands: Hands) -> Lane:
    (lane,) = hands.scheduler.lanes.values()
    return lane


def ask(hands: Hands, family: str, usage: Usage = USAGE) -> None:
    """One request waits for another of the same model; both are answered."""
    first, second = (hands.arrive(agent, family=family) for agent in ("a", "b"))
    hands.succeed(first, usage)
    hands.wait(0.1)
    assert second.state is TicketState.IN_FLIGHT
    hands.succeed(second, usage)


def test_bounded() -> None:
    """After many names as many are kept as after some, in every place that knows models."""
    hands = Hands(lane_config(slots=1))
    for _ in range(5):
        ask(hands, "real", Usage(5, 5, 0, 90))
    for number in range(MANY):
        ask(hands, f"made-up-{number}")
    lane = lane_of(hands)
    assert len(lane.allowances) <= FAMILIES_KEPT
    assert len(lane.estimators.models) <= MODELS_KEPT
    assert len(lane.estimators._agents["a"]) <= MODELS_KEPT
    assert len(lane.queue._bands) == 0
    assert lane.estimators.models["real"].output_tokens > 50


def test_windows_in_use_stay() -> None:
    """Rate windows that a reply stated, or that a request in flight has reserved of, aren't dropped."""
    hands = Hands(replace(lane_config(slots=3), rpm=10_000, rpm_binding=True))
    stated = hands.arrive(family="stated")
    hands.scheduler.headers(hands.now, stated, (WindowReading(WindowKind.REQUESTS, 100, 50, 60.0),))
    hands.succeed(stated)
    in_flight = hands.arrive(family="in_flight")
    for number in range(MANY):
        ticket = hands.arrive(family=f"made-up-{number}")
        hands.succeed(ticket, USAGE)
    lane = lane_of(hands)
    assert {"stated", "in_flight"} <= set(lane.allowances)
    assert len(lane.allowances) <= FAMILIES_KEPT
    hands.succeed(in_flight, USAGE)


def test_told_of_some() -> None:
    """That a model has no price is told of so many of them."""
    hands = Hands(lane_config(slots=1))
    hands.apply(SetBudget("a", dollars=5.0))
    hands.scheduler.ledger.price_by(lambda provider, model, usage: None)
    for number in range(MOST_UNPRICED + 20):
        hands.succeed(hands.arrive("a", family=f"made-up-{number}"), USAGE)
    assert len(hands.seen(PriceUnknown)) == MOST_UNPRICED
