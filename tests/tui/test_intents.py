"""What a key means: one command, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from tui.worlds import LANE, empty_world, world

from hivemind.scheduler.commands import PinLevel, Rejected, SetCeiling, SetPriority
from hivemind.scheduler.types import Priority
from hivemind_tui import intents
from hivemind_tui.view import View


def view(**lane: Any) -> View:
    snapshot = world()
    first = snapshot.lanes[0]
    return View(replace(snapshot, lanes=(replace(first, state=replace(first.state, **lane)),)))


def test_priority_moves_one_step_and_stops_at_the_ends() -> None:
    """Up is more urgent; beyond the ends there is no command but a reason."""
    assert intents.priority(view(), -1) == SetPriority("alice", Priority.HIGH)
    critical = replace(view(), selected="dave")
    with pytest.raises(Rejected, match="dave is CRITICAL already"):
        intents.priority(critical, -1)


def test_ceiling_stops_at_the_floor() -> None:
    """The ceiling can't go below the floor."""
    assert intents.ceiling(view(ceiling=2.0), -1) == SetCeiling(1, LANE)
    with pytest.raises(Rejected, match="floor of 3"):
        intents.ceiling(view(ceiling=3.0, floor=3.0), -1)


def test_ceiling_of_a_lane_without_one() -> None:
    """Where there is no ceiling, lowering sets one at what is in flight, and raising makes no sense."""
    assert intents.ceiling(view(ceiling=math.inf, active=6), -1) == SetCeiling(6, LANE)
    assert intents.ceiling(view(ceiling=math.inf, active=0), -1) == SetCeiling(1, LANE)
    with pytest.raises(Rejected, match="no ceiling to raise"):
        intents.ceiling(view(ceiling=math.inf), 1)


def test_pin_takes_the_slots_there_are() -> None:
    """Pinning holds the whole slots of the level, which are in force; without a limit there is nothing to hold."""
    assert intents.pin(view(level=8.7)) == PinLevel(8.0, LANE)
    assert intents.pin(view(level=0.4)) == PinLevel(1.0, LANE)
    assert intents.pin(view(pinned=True)) == PinLevel(None, LANE)
    with pytest.raises(Rejected, match="no level to pin"):
        intents.pin(view(level=math.inf))


def test_release_needs_a_pause() -> None:
    """Ending a pause that nobody asked for is refused with the reason."""
    with pytest.raises(Rejected, match="asked for no pause"):
        intents.release(view(parked_for_s=0.0))


@pytest.mark.parametrize("name", ["priority", "hold", "ceiling", "pin", "release"])
def test_nothing_to_steer_yet(name: str) -> None:
    """Before the first request each key says what it is waiting for."""
    arguments = (1,) if name in ("priority", "ceiling") else ()
    with pytest.raises(Rejected, match="yet"):
        intents.INTENTS[name](View(empty_world()), *arguments)
