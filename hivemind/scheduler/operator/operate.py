"""Carrying out an operator's commands on the scheduler, whoever gave them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.admission.refuse import AGENT_STOPPED
from hivemind.scheduler.events import AgentBegan, AgentEnded, BoostEnded, CircuitChanged, Commanded, LevelChanged
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.ledger.accounts import POOL
from hivemind.scheduler.ledger.budget import hold
from hivemind.scheduler.ledger.ceilings import begin_run, set_budget
from hivemind.scheduler.ledger.family import reclass_all, with_subs
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.operator.tune import tune
from hivemind.scheduler.tasks import task_agents
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.timers import Timer
from hivemind.scheduler.types import Priority

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler

LONGEST_BOOST_S = 3600.0
HIGHEST_LEVEL = KNOBS["max_concurrency"].highest


def carry_out(scheduler: Scheduler, command: cmd.Command, who: str, now: float) -> Commanded:
    """Check the command, change what it names, and return the event that says so.

    Raises: cmd.Rejected.
    """
    told = None
    match command:
        case cmd.Tune():
            tune(scheduler, command, now)
        case cmd.PauseAdmissions(paused):
            scheduler.paused = paused
        case cmd.Drain(draining):
            if draining:
                scheduler.drain(now)
            else:
                scheduler.draining = False
        case cmd.PinLevel() | cmd.SetCircuit() | cmd.ReleaseLane():
            _steer_lanes(scheduler, command, who, now)
        case (
            cmd.SetPriority()
            | cmd.PauseAgent()
            | cmd.BoostAgent()
            | cmd.StopAgent()
            | cmd.SetBudget()
            | cmd.BeginAgent()
            | cmd.EndAgent()
        ):
            _steer_agent(scheduler, command, now)
            scheduler.unsaved.add(command.agent or POOL)
        case _:
            told = task_agents.carry_out(scheduler, command, now)
    return Commanded(now, who, type(command).__name__, _arguments(command) if told is None else told)


def _steer_lanes(
    scheduler: Scheduler, command: cmd.PinLevel | cmd.SetCircuit | cmd.ReleaseLane, who: str, now: float
) -> None:
    if isinstance(command, cmd.PinLevel) and command.level is not None and not 1 <= command.level <= HIGHEST_LEVEL:
        raise cmd.Rejected(f"level {command.level:g}: must be from 1 to {HIGHEST_LEVEL:,.0f}")
    for lane in _lanes(scheduler, command.lane):
        match command:
            case cmd.PinLevel(level):
                lane.aimd.pin(level)
                _follow(scheduler, lane, now)
            case cmd.SetCircuit(mode):
                lane.circuit.force(mode)
                scheduler.events.append(CircuitChanged(now, lane.key, lane.circuit.state.value, f"by {who}"))
            case cmd.ReleaseLane():
                lane.reopen(now)


def _steer_agent(scheduler: Scheduler, command: cmd.AgentCommand, now: float) -> None:
    if isinstance(command, cmd.SetBudget):
        set_budget(scheduler, command, now)
        return
    if isinstance(command, cmd.BeginAgent):
        _begin(scheduler, command, now)
        return
    agent = scheduler.agents[_known(scheduler, command.agent)]
    match command:
        case cmd.SetPriority(_, priority):
            agent.priority = priority
            reclass_all(scheduler, agent, now)
        case cmd.PauseAgent(_, paused):
            agent.paused = paused
            for part in with_subs(scheduler, agent):
                hold(scheduler, part)
        case cmd.BoostAgent(_, for_s):
            _boost(scheduler, agent, for_s, now)
        case cmd.StopAgent(_, stopped):
            _stop(scheduler, agent, stopped, now)
        case cmd.EndAgent(name, exit_code):
            cmd.check_exit_code(exit_code)
            agent.ended = True
            scheduler.events.append(AgentEnded(now, name, exit_code))


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
    agent.ended = False
    agent.stopped = agent.stopped and command.goes_on
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
