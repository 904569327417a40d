"""Families of models that share one rate window, and such as have windows of their own."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, failure, lane_config
from scheduler.model import Bucket, FixedWindow, Play, Traffic

from hivemind.scheduler.admission.lockstep import PROOF
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import LaneRateLimited
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.types import FailureKind, WindowKind, WindowReading

pytestmark = pytest.mark.e2e
LANE = LaneConfig("up", "generic", max_concurrency=10, rpm=50, tpm=100_000)
TRAFFIC = {
    "steady": Traffic(12, 1000, think_s=2.0, models=3),
    "crowded": Traffic(30, 1000, models=3),
    "told late": Traffic(12, 1000, think_s=2.0, models=3, stamped_late=True),
    "seldom": Traffic(6, 1000, think_s=10.0, models=3),
}
EACH = [
    pytest.param(traffic, id=name, marks=pytest.mark.slow if name in ("crowded", "seldom") else ())
    for name, traffic in TRAFFIC.items()
]


@pytest.mark.parametrize("traffic", EACH)
@pytest.mark.parametrize("kind", [pytest.param(FixedWindow, marks=pytest.mark.slow), Bucket])
def test_requests_a_minute_that_all_models_share(kind: type[FixedWindow | Bucket], traffic: Traffic) -> None:
    """No more than two 429s in ten minutes of three models, and the window is used as if there were one."""
    result = Play(kind(50), LANE, traffic, 1).run(until_s=600.0)
    assert (len(result.refused_at) <= 2, result.dead) == (True, 0)
    assert len(result.finished_at) >= (350 if traffic is TRAFFIC["seldom"] else 500)


@pytest.mark.parametrize("traffic", EACH)
@pytest.mark.parametrize("kind", [FixedWindow, pytest.param(Bucket, marks=pytest.mark.slow)])
def test_models_with_windows_of_their_own_keep_them(kind: type[FixedWindow | Bucket], traffic: Traffic) -> None:
    """Though they have the same limit, and are used alike."""
    result = Play(kind(50), LANE, traffic, 1, kind(50), kind(50)).run(until_s=600.0)
    assert result.refused_at == []
    assert len(result.finished_at) >= (350 if traffic is TRAFFIC["seldom"] else 1480)


def said(hands: Hands, family: str, remaining: int, reset_in_s: float, kind: WindowKind = WindowKind.REQUESTS) -> None:
    """Have a request of a family answered with this statement, a second after the last one."""
    hands.wait(1.0)
    ticket = hands.arrive(family=family)
    hands.scheduler.headers(hands.now, ticket, (WindowReading(kind, 100, remaining, reset_in_s),))
    hands.succeed(ticket)


def names(hands: Hands) -> list[str]:
    return [window.family for window in lane_state(hands.lane, hands.now, paused=False).windows]


def together(hands: Hands) -> None:
    """Let two families prove that they share a window."""
    for number in range(2 * PROOF + 2):
        said(hands, "opus" if number % 2 else "haiku", 60 - number, 50.0 - number)


def test_a_shared_window_is_shown_once() -> None:
    """Under the name of one family, with the number of the others."""
    hands = Hands(lane_config(slots=9))
    together(hands)
    assert names(hands) == ["haiku +1"]


def test_families_that_turn_out_apart_are_parted() -> None:
    """A coincidence doesn't hold for ever."""
    hands = Hands(lane_config(slots=9))
    together(hands)
    for number in range(PROOF):
        said(hands, "haiku", 50 - number, 42.0 - 2 * number)
        said(hands, "opus", 90 - number, 41.0 - 2 * number)
    assert names(hands) == ["haiku", "opus"]
    said(hands, "haiku", 47, 40.0 - 2 * PROOF)
    assert [round(window.remaining) for window in lane_state(hands.lane, hands.now, paused=False).windows] == [47, 88]


def test_what_is_in_flight_counts_in_the_window_that_it_turned_out_to_be() -> None:
    """The books agree at each step (the driver checks the invariants), and nothing is sent beyond what is left."""
    hands = Hands(lane_config(slots=0))
    said(hands, "opus", 61, 51.0)
    said(hands, "haiku", 60, 50.0)
    in_flight = [hands.arrive(family=family) for family in ("opus", "haiku") * 4]
    together(hands)
    assert hands.lane.allowances["opus"].windows[WindowKind.REQUESTS].stated.pending == len(in_flight)
    said(hands, "haiku", 8, 42.0)  # which the eight in flight may take
    waits = hands.arrive(family="opus")
    assert waits.in_queue
    for ticket in in_flight:
        hands.succeed(ticket)


def test_a_used_up_window_that_is_shared_pauses_all() -> None:
    """A refusal is about the lane then."""
    hands = Hands(lane_config(slots=9))
    together(hands)
    ticket = hands.arrive(family="opus")
    hands.scheduler.headers(hands.now, ticket, (WindowReading(WindowKind.REQUESTS, 100, 0, 42.0),), ending=True)
    hands.fail(ticket, failure(FailureKind.RATE_LIMITED, delay_s=42.0))
    assert [event.family for event in hands.log if isinstance(event, LaneRateLimited)] == [None]
