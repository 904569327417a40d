"""Undo: for each command its inverse, computed before the command is carried out."""

from __future__ import annotations

import math
from typing import Literal, get_args

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Covers, Period
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.gauges import LaneState
from hivemind.world.snapshot import AgentView, Snapshot

DEPTH = 20
"""Changes remembered."""


def inverse(command: cmd.Command, before: Snapshot) -> list[cmd.Command]:
    """Return the commands that undo this one; none where nothing can."""
    match command:
        case cmd.SetPriority(agent):
            return [cmd.SetPriority(agent, each.priority) for each in _agents(before, agent)]
        case cmd.PauseAgent(agent):
            return [cmd.PauseAgent(agent, each.paused) for each in _agents(before, agent)]
        case cmd.BoostAgent(agent):
            return [cmd.BoostAgent(agent, each.boosted_for_s) for each in _agents(before, agent)]
        case cmd.SetBudget(None):
            return [_budget(None, before.pool)]
        case cmd.SetBudget(str(agent)):
            return [_budget(agent, each.budget) for each in _agents(before, agent)]
        case cmd.StopAgent(agent):
            # Allows it again; requests that were cancelled stay cancelled.
            return [cmd.StopAgent(agent, each.stopped) for each in _agents(before, agent)]
        case cmd.CancelTask(task):
            return [cmd.RetryTask(task)]
        case cmd.SetTaskPriority(task):
            return [cmd.SetTaskPriority(task, each.own_priority) for each in before.tasks if each.id == task]
        case cmd.Tune(knob, _, upstream):
            old = {lane.upstream: lane.knobs[knob] for lane in _lanes(before, upstream) if knob in lane.knobs}
            return [cmd.Tune(knob, value, name) for name, value in old.items()]
        case cmd.PinLevel(_, lane):
            states = [state for state in _lanes(before, None) if lane in (None, state.lane)]
            return [cmd.PinLevel(_pinned_level(state), state.lane) for state in states]
        case cmd.SetCircuit(_, lane):
            states = [state for state in _lanes(before, None) if lane in (None, state.lane)]
            return [cmd.SetCircuit(_circuit_mode(state), state.lane) for state in states]
        case cmd.PauseAdmissions(paused):
            return [cmd.PauseAdmissions(not paused)]
        case cmd.Drain(draining):
            return [cmd.Drain(not draining)]
    return []


def _agents(snapshot: Snapshot, name: str) -> list[AgentView]:
    return [agent for agent in snapshot.agents if agent.name == name]


def _budget(name: str | None, state: BudgetState | None) -> cmd.SetBudget:
    if state is None:
        return cmd.SetBudget(name)
    per = next((each for each in get_args(Period) if each == state.per), None)
    covers = next((each for each in get_args(Covers) if each == state.covers), None)
    return cmd.SetBudget(name, state.tokens, state.dollars, per, covers)


def _lanes(snapshot: Snapshot, upstream: str | None) -> list[LaneState]:
    return [lane.state for lane in snapshot.lanes if upstream in (None, lane.state.upstream)]


def _pinned_level(state: LaneState) -> float | None:
    return state.level if state.pinned and not math.isinf(state.level) else None


def _circuit_mode(state: LaneState) -> Literal["auto", "open", "closed"]:
    if not state.circuit_forced:
        return "auto"
    return "open" if state.circuit == "open" else "closed"
