"""What a key means at this moment: from what is on the screen to one command, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hivemind.scheduler.commands import (
    Command,
    PauseAdmissions,
    PauseAgent,
    PinLevel,
    Rejected,
    ReleaseLane,
    SetCeiling,
    SetPriority,
)
from hivemind.scheduler.events import LaneState
from hivemind.scheduler.types import Priority
from hivemind.snapshot import AgentView

from .view import View


def priority(view: View, step: int) -> SetPriority:
    """Another nice level for the selected agent; a negative step is more urgent. Raises: Rejected."""
    agent = _agent(view)
    wanted = agent.priority + step
    if not Priority.CRITICAL <= wanted <= Priority.LOW:
        raise Rejected(f"{agent.name} is {agent.priority.name} already")
    return SetPriority(agent.name, Priority(wanted))


def hold(view: View) -> PauseAgent:
    """Hold the selected agent's requests, or let them go. Raises: Rejected."""
    agent = _agent(view)
    return PauseAgent(agent.name, not agent.paused)


def ceiling(view: View, step: int) -> SetCeiling:
    """A higher or lower concurrency ceiling. Raises: Rejected."""
    state = _lane(view)
    if math.isinf(state.ceiling):
        if step > 0:
            raise Rejected("there is no ceiling to raise; [ sets one")
        return SetCeiling(max(1, state.active), state.lane)
    wanted = int(state.ceiling) + step
    if wanted < max(1, math.ceil(state.floor)):
        raise Rejected(f"the ceiling can't go below the floor of {state.floor:g}")
    return SetCeiling(wanted, state.lane)


def pin(view: View) -> PinLevel:
    """Pin the level where it is, or give it back to AIMD. Raises: Rejected."""
    state = _lane(view)
    if state.pinned:
        return PinLevel(None, state.lane)
    if math.isinf(state.level):
        raise Rejected("there is no level to pin; [ sets a ceiling first")
    return PinLevel(float(max(1, int(state.level))), state.lane)


def release(view: View) -> ReleaseLane:
    """End the pause that the provider asked for. Raises: Rejected."""
    state = _lane(view)
    if state.parked_for_s <= 0:
        raise Rejected("the provider asked for no pause")
    return ReleaseLane(state.lane)


def pause(view: View) -> PauseAdmissions:
    """Pause or resume admissions."""
    return PauseAdmissions(view.snapshot.mode != "paused")


def _agent(view: View) -> AgentView:
    if view.agent is None:
        raise Rejected("no agent yet: there is nobody to select")
    return view.agent


def _lane(view: View) -> LaneState:
    if view.lane is None:
        raise Rejected("no lane yet: it opens with the first request")
    return view.lane.state


INTENTS: Mapping[str, Callable[..., Command]] = {
    "priority": priority,
    "hold": hold,
    "ceiling": ceiling,
    "pin": pin,
    "release": release,
    "pause": pause,
}
"""By the name that the key table uses."""
