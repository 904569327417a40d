"""Carrying out an operator's commands, and turning knobs while everything runs."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import Any

from msgspec.structs import asdict

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import POOL
from hivemind.scheduler.commands import Conflict, NotKnown, Rejected, some
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.dispatcher import Dispatcher
from hivemind.scheduler.events import AgentBegan, AgentEnded, BoostEnded, Commanded
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.ledger import check_budget
from hivemind.scheduler.operator.knobs import KNOBS, Knob, check_range, parsed, plain, turned, wrong
from hivemind.scheduler.ticket import Agent, Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Priority

LONGEST_BOOST_S = 3600.0
HIGHEST_LEVEL = KNOBS["max_concurrency"].highest


class Operator:
    """Checks commands and has the dispatcher carry them out."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.tuning = Tuning()
        self._dispatcher = dispatcher
        self._agents = dispatcher.agents
        self._emit = dispatcher.events.append

    def apply(self, command: cmd.Command, who: str, now: float) -> Commanded:
        """Check the command, change what it names, and return the event that reports it.

        Raises: Rejected.
        """
        dispatcher = self._dispatcher
        match command:
            case cmd.Tune():
                self.tuning.turn(command, dispatcher, now)
            case cmd.PauseAdmissions(paused):
                dispatcher.paused = paused
            case cmd.Drain(draining):
                if draining:
                    dispatcher.drain(now)
                else:
                    dispatcher.draining = False
            case cmd.PinLevel(level, key):
                if level is not None and not 1 <= level <= HIGHEST_LEVEL:
                    raise Rejected(f"level {level:g}: must be from 1 to {HIGHEST_LEVEL:,.0f}")
                for lane in self._lanes(key):
                    lane.aimd.pin(level)
                    if lane.leasing is not None:
                        lane.leasing.pin, lane.leasing.urgent = level or 0.0, True
                    lane.push_level(now, "operator")
            case cmd.SetCircuit(mode, key):
                for lane in self._lanes(key):
                    lane.circuit.force(mode)
                    if lane.leasing is not None:
                        lane.leasing.forced, lane.leasing.urgent = mode, True
                    lane.report_circuit(now, f"by {who}")
            case cmd.ReleaseLane(key):
                for lane in self._lanes(key):
                    lane.reopen(now)
                    if lane.leasing is not None:
                        lane.leasing.own_pauses.clear()
                        lane.leasing.resumed = lane.leasing.urgent = True
            case cmd.SetBudget(name):
                check_budget(command)
                agent = None if name is None else dispatcher.meet(name, now)
                dispatcher.carry_out(dispatcher.ledger.set_budget(agent, command, now), now)
                dispatcher.ledger.unsaved.add(name or POOL)
            case cmd.BeginAgent():
                self._begin(command, now)
                dispatcher.ledger.unsaved.add(command.agent)
            case (
                cmd.SetPriority()
                | cmd.PauseAgent()
                | cmd.BoostAgent()
                | cmd.StopAgent()
                | cmd.CutRequest()
                | cmd.EndAgent()
            ):
                self._steer(self._known(command.agent), command, now)
                dispatcher.ledger.unsaved.add(command.agent)
            case cmd.Acknowledge():
                pass  # alerts are the world's, which folds the event
            case cmd.AddNote(text):
                if not text.strip() or len(text) > cmd.NOTE_MOST:
                    wanted = f"must be 1 to {cmd.NOTE_MOST} characters, not all of them spaces"
                    raise Conflict(f"text: {wanted}", bad_input=True)
            case _:
                dispatcher.tasks_moved(dispatcher.tasks.apply(command, now), now)
        return Commanded(now, who, type(command).__name__, _arguments(command))

    def end_boost(self, agent: Agent, now: float) -> None:
        """Give the agent its own priority again."""
        agent.boosted_until = None
        self._reclass(agent, now)
        self._emit(BoostEnded(now, agent.name))

    def _steer(self, agent: Agent, command: cmd.SteerCommand, now: float) -> None:
        match command:
            case cmd.SetPriority(_, priority):
                agent.priority = priority
                self._reclass(agent, now)
            case cmd.PauseAgent(_, paused):
                agent.paused = paused
                for part in self._agents.parts_of(agent):
                    self._dispatcher.update_hold(part)
            case cmd.BoostAgent(_, for_s):
                self._boost(agent, for_s, now)
            case cmd.StopAgent(_, stopped):
                agent.stopped = stopped
                for part in self._agents.parts_of(agent) if stopped else ():
                    self._dispatcher.stop(part, now)
            case cmd.CutRequest(_, number, retry):
                ticket = _in_flight(agent, number)
                if retry and ticket.content_started:
                    raise Conflict(f"the answer to request {ticket.id} has begun, so it can only be cut, not retried")
                ticket.cut = Failure(FailureKind.CUT, retry, message="the operator cut this request")
                self._dispatcher.decisions.append(ticket)
            case cmd.EndAgent(name, exit_code, asked):
                cmd.check_exit_code(exit_code)
                agent.ended = True
                kept = any(each.kept_until > now for each in self._agents.parts_of(agent))
                self._emit(AgentEnded(now, name, exit_code, asked, kept))

    def _boost(self, agent: Agent, for_s: float, now: float) -> None:
        if not 0 <= for_s <= LONGEST_BOOST_S:
            longest = f"{LONGEST_BOOST_S:,.0f}"
            raise Rejected(f"boost {for_s:g}: must be a number of seconds up to {longest}, or 0 to end it")
        if for_s:
            agent.boosted_until = now + for_s
            self._dispatcher.timers.set(agent.boosted_until, agent)
            self._reclass(agent, now)
        elif agent.boosted_until is not None:
            self.end_boost(agent, now)

    def _begin(self, command: cmd.BeginAgent, now: float) -> None:
        if not command.agent:
            raise Rejected("an agent needs a name")
        dispatcher = self._dispatcher
        agent = dispatcher.meet(command.agent, now, command.parent)
        if command.parent is not None and not (command.resumed or command.goes_on):
            dispatcher.move(agent, command.parent, now)
        agent.ended = False
        agent.stopped = agent.stopped and command.goes_on
        agent.last_seen = now
        agent.deadline_at = math.inf if command.deadline_s is None else now + command.deadline_s
        if not command.resumed:
            dispatcher.carry_out(dispatcher.ledger.begin("run", now, agent), now)
        parent = None if agent.parent is None else agent.parent.name
        self._emit(AgentBegan(now, agent.name, parent, command.task, command.resumed))

    def _reclass(self, agent: Agent, now: float) -> None:
        for part in self._agents.parts_of(agent):
            self._dispatcher.reclass(part, now)

    def _known(self, name: str) -> Agent:
        if name not in self._agents:
            raise NotKnown(f"no agent named {name!r}", self._agents)
        return self._agents[name]

    def _lanes(self, key: str | None) -> list[Lane]:
        lanes = self._dispatcher.lanes
        if key is None:
            return list(lanes.values())
        if key not in lanes:
            raise NotKnown(f"no lane {key!r}", lanes)
        return [lanes[key]]


def _in_flight(agent: Agent, number: int | None) -> Ticket:
    """Return the agent's request in flight of that number, or its only one. Raises: Rejected."""
    found = [each for each in agent.tickets.values() if each.state is TicketState.IN_FLIGHT and not each.work]
    chosen = [each for each in found if number in (None, each.id) and each.cut is None and each.refusal is None]
    if len(chosen) == 1:
        return chosen[0]
    there_is = f"in flight: {some(str(each.id) for each in found)}"
    if chosen:
        raise Rejected(f"{agent.name} has {len(chosen)} requests in flight; say which ({there_is})")
    which = "no request" if number is None else f"no request {number}"
    raise Conflict(f"{agent.name} has {which} in flight to be cut ({there_is})")


class Tuning:
    """Turns knobs, and remembers by upstream what was tuned, so that a lane opened for a renewed credential begins with
    it."""

    def __init__(self) -> None:
        self._everywhere: dict[str, float] = {}
        self._shared: dict[str, float] = {}  # knobs of the scheduler itself
        self._upstreams: dict[str, dict[str, float]] = {}  # every upstream that had a lane included

    def begin(self, config: LaneConfig) -> LaneConfig:
        """Return what a new lane of this upstream begins with."""
        for values in (self._everywhere, self._upstreams.setdefault(config.upstream, {})):
            for name, value in values.items():
                config = turned(config, name, value)
        return config

    def turn(self, command: cmd.Tune, dispatcher: Dispatcher, now: float) -> None:
        """Turn the knob on every lane in its scope. Raises: Rejected: nothing was changed."""
        knob, value, upstream = _knob(command.knob), command.value, command.upstream
        check_range(knob, value)
        if upstream is not None and upstream not in self._upstreams:
            raise NotKnown(f"no upstream named {upstream!r}", self._upstreams)
        lanes = dispatcher.lanes.values()
        if knob.shared:
            dispatcher.config = _turned_retry(dispatcher.config, knob, value)
            self._shared[knob.name] = value
            for lane in lanes:
                lane.configure(now, lane.config, dispatcher.config)
            return
        chosen = [lane for lane in lanes if upstream in (None, lane.config.upstream)]
        configs = [turned(lane.config, knob.name, value) for lane in chosen]
        for config in configs:
            _check_floor(knob, value, config)
        if upstream is None:  # replaces what was tuned for one upstream earlier
            for values in self._upstreams.values():
                values.pop(knob.name, None)
        (self._everywhere if upstream is None else self._upstreams[upstream])[knob.name] = value
        for lane, config in zip(chosen, configs, strict=True):
            lane.configure(now, config, lane.settings)


def _knob(name: str) -> Knob:
    if name in KNOBS:
        return KNOBS[name]
    close = get_close_matches(name.lower(), KNOBS, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(KNOBS)}"
    raise Rejected(f"no knob named {name!r}; {hint}")


def _check_floor(knob: Knob, value: float, config: LaneConfig) -> None:
    floor, ceiling = config.aimd.floor, config.max_concurrency
    if not ceiling or floor <= ceiling:
        return
    if knob.name == "aimd.floor":
        most = f"at most max_concurrency, which is {ceiling:,} ({config.upstream})"
        raise Conflict(wrong(knob, value, most), bad_input=True)
    if knob.name == "max_concurrency":
        least = f"at least aimd.floor, which is {plain(floor)} ({config.upstream})"
        raise Conflict(wrong(knob, value, least), bad_input=True)


def _turned_retry(settings: SchedulerConfig, knob: Knob, value: float) -> SchedulerConfig:
    _, key, number = parsed(knob.name, value)
    retry = replace(settings.retry, **{key: number})
    if retry.max_s < retry.base_s:
        bound = f"at most retry.max_s, which is {plain(retry.max_s)}"
        if key == "max_s":
            bound = f"at least retry.base_s, which is {plain(retry.base_s)}"
        raise Conflict(wrong(knob, value, bound), bad_input=True)
    return replace(settings, retry=retry)


def _arguments(command: cmd.Command) -> dict[str, Any]:
    if isinstance(command, cmd.SubmitTasks):  # its own are long, and their commands may hold secrets
        return {"tasks": [spec.id for spec in command.tasks]}
    return {key: value.name.lower() if isinstance(value, Priority) else value for key, value in asdict(command).items()}
