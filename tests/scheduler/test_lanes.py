"""How many lanes are remembered."""

from __future__ import annotations

from scheduler.driving import Hands, failure, lane_config

from hivemind.scheduler.commands import SetCircuit
from hivemind.scheduler.lane import KEPT, UNPROVEN_KEPT
from hivemind.scheduler.types import FailureKind


def test_lanes_at_rest_make_room() -> None:
    """A credential that is renewed again and again doesn't fill the memory; what is in use or was set by hand stays."""
    hands = Hands()
    scheduler = hands.scheduler
    hands.arrive("a")
    held = next(iter(scheduler.lanes))
    scheduler.open_lane(0.0, "forced", lane_config())
    scheduler.apply(0.0, SetCircuit("closed", "forced"), "you")
    for number in range(3 * KEPT):
        scheduler.open_lane(float(number), f"key-{number}", lane_config()).proven = True
    assert len(scheduler.lanes) <= KEPT
    assert {held, "forced", f"key-{3 * KEPT - 1}"} <= scheduler.lanes.keys()


def test_made_up_credentials_displace_no_real_ones() -> None:
    """A lane on which nothing was ever answered is forgotten before those that are known to be good."""
    hands = Hands()
    scheduler = hands.scheduler
    for number in range(40):
        scheduler.open_lane(0.0, f"real-{number}", lane_config())
        hands.succeed(hands.arrive(lane=f"real-{number}"))
    for number in range(3 * KEPT):
        scheduler.open_lane(1.0, f"made-up-{number}", lane_config())
        refused = hands.arrive(lane=f"made-up-{number}")
        hands.fail(refused, failure(FailureKind.CLIENT_ERROR, retryable=False))
    kept = [key.partition("-")[0] for key in scheduler.lanes]
    assert kept.count("real") == 40
    assert kept.count("made") <= UNPROVEN_KEPT
