"""Carrying out an operator's commands on the scheduler, whoever gave them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import commands as cmd
from . import task_agents
from .accounts import POOL
from .budget import hold
from .ceilings import begin_run, set_budget
from .events import AgentBegan, AgentEnded, BoostEnded, CircuitChanged, Commanded, LevelChanged
from .family import reclass_all, with_subs
from .knobs import KNOBS
from .lane import Lane
from .refuse import AGENT_STOPPED
from .ticket import Agent
from .timers import Timer
from .tune import tune
from .types import Priority

if TYPE_CHECKING:
    from .scheduler import Scheduler

LONGEST_BOOST_S = 3600.0
HIGHEST_LEVEL = KNOBS["max_concurrency"].highest


def carry_out(scheduler: Scheduler, command: cmd.Command, who: str, now: float) -> Commanded:
    """Check the command, change what it names, and return the event that says so.

    Raises: cmd.Rejected.
    """
    match command:
        case cmd.SetPriority(agent, priority):
            _set_priority(scheduler, agent, priority, now)
        case cmd.Tune():
            tune(scheduler, command, now)
        case cmd.PinLevel(level, lane):
            if level is not None and not 1 <= level <= HIGHEST_LEVEL:
                raise cmd.Rejected(f"level {level:g}: must be from 1 to {HIGHEST_LEVEL:,.0f}")
            for each in _lanes(scheduler, lane):
                each.aimd.pin(level)
                _follow(scheduler, each, now)
        case cmd.SetCircuit(mode, lane):
            for each in _lanes(scheduler, lane):
                each.circuit.force(mode)
                scheduler.events.append(CircuitChanged(now, each.key, each.circuit.state.value, f"by {who}"))
        case cmd.PauseAdmissions(paused):
            scheduler.paused = paused
        case cmd.PauseAgent(agent, paused):
            scheduler.agents[_known(scheduler, agent)].paused = paused
            for part in with_subs(scheduler, scheduler.agents[agent]):
                hold(scheduler, part)
        case cmd.BoostAgent(agent, for_s):
            _boost(scheduler, scheduler.agents[_known(scheduler, agent)], for_s, now)
        case cmd.StopAgent(agent, stopped):
            _stop(scheduler, scheduler.agents[_known(scheduler, agent)], stopped, now)
        case cmd.SetBudget():
            set_budget(scheduler, command, now)
        case cmd.BeginAgent():
            _begin(scheduler, command, now)
        case cmd.EndAgent(agent, exit_code):
            scheduler.agents[_known(scheduler, agent)].ended = True
            scheduler.events.append(AgentEnded(now, agent, exit_code))
        case cmd.Drain(draining):
            if draining:
                scheduler.drain(now)
            else:
                scheduler.draining = False
        case cmd.ReleaseLane(lane):
            for each in _lanes(scheduler, lane):
                each.release(now)
        case _:
            told = task_agents.carry_out(scheduler, command, now)
            return Commanded(now, who, type(command).__name__, _arguments(command) if told is None else told)
    if hasattr(command, "agent"):
        scheduler.unsaved.add(command.agent or POOL)
    return Commanded(now, who, type(command).__name__, _arguments(command))


def _set_priority(scheduler: Scheduler, name: str, priority: Priority, now: float) -> None:
    agent = scheduler.agents[_known(scheduler, name)]
    agent.priority = priority
    reclass_all(scheduler, agent, now)


def _boost(scheduler: Scheduler, agent: Agent, for_s: float, now: float) -> None:
    if not 0 <= for_s <= LONGEST_BOOST_S:
        raise cmd.Rejected(f"boost {for_s:g}: must be a number of seconds up to {LONGEST_BOOST_S:,.0f}, or 0 to end it")
    if for_s:
        agent.boosted_until = now + for_s
        scheduler.timers.set(agent.boosted_until, Timer.BOOST, agent)
        reclass_all(scheduler, agent, now)
    elif agent.boosted_until is not None:
        end_boost(scheduler, agent, now)


def end_boost(scheduler: Scheduler, agent: Agent, now: float) -> None:
    """The agent counts again as it would without."""
    agent.boosted_until = None
    reclass_all(scheduler, agent, now)
    scheduler.events.append(BoostEnded(now, agent.name))


def _stop(scheduler: Scheduler, agent: Agent, stopped: bool, now: float) -> None:
    agent.stopped = stopped
    if not stopped:
        return
    for each in with_subs(scheduler, agent):
        scheduler.turn_away(each, AGENT_STOPPED, now)
        for ticket in each.tickets.values():
            if ticket.refusal is None:
                ticket.refusal = AGENT_STOPPED
                scheduler.decisions.append(ticket)


def _begin(scheduler: Scheduler, command: cmd.BeginAgent, now: float) -> None:
    if not command.agent:
        raise cmd.Rejected("an agent needs a name")
    agent = scheduler.meet(command.agent, now, command.parent)
    agent.ended = agent.stopped = False
    agent.last_seen = now
    if not command.resumed:
        begin_run(scheduler, agent, now)
    scheduler.events.append(
        AgentBegan(now, agent.name, None if agent.parent is None else agent.parent.name, command.task, command.resumed)
    )


def _follow(scheduler: Scheduler, lane: Lane, now: float) -> None:
    lane.follow_level()
    scheduler.events.append(LevelChanged(now, lane.key, lane.aimd.level, "operator"))


def _known(scheduler: Scheduler, agent: str) -> str:
    if agent not in scheduler.agents:
        raise cmd.Rejected(f"no agent named {agent!r}; known: {_some(list(scheduler.agents))}")
    return agent


def _lanes(scheduler: Scheduler, key: str | None) -> list[Lane]:
    if key is None:
        return list(scheduler.lanes.values())
    if key not in scheduler.lanes:
        raise cmd.Rejected(f"no lane {key!r}; known: {_some(list(scheduler.lanes))}")
    return [scheduler.lanes[key]]


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "") if names else "none yet"


def _arguments(command: cmd.Command) -> dict[str, Any]:
    return {key: value.name.lower() if isinstance(value, Priority) else value for key, value in asdict(command).items()}
