"""How many lanes are remembered."""

from __future__ import annotations

from scheduler.driving import Hands, lane_config

from hivemind.scheduler.commands import SetCircuit
from hivemind.scheduler.lanes import KEPT


def test_lanes_at_rest_make_room() -> None:
    """A credential that is renewed again and again doesn't fill the memory; what is in use or was set by hand stays."""
    hands = Hands()
    scheduler = hands.scheduler
    hands.arrive("a")
    held = next(iter(scheduler.lanes))
    scheduler.open_lane(0.0, "forced", lane_config())
    scheduler.apply(0.0, SetCircuit("closed", "forced"), "you")
    for number in range(3 * KEPT):
        scheduler.open_lane(float(number), f"key-{number}", lane_config())
    assert len(scheduler.lanes) <= KEPT
    assert {held, "forced", f"key-{3 * KEPT - 1}"} <= scheduler.lanes.keys()
