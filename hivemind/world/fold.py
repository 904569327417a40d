"""The fold from events to the world: feed it every event in order, ask it for a snapshot at any moment.

Live, attached or replayed, the same fold makes the same picture. It holds a bounded past: agents long gone, old lines
and old points of the curve fall out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority, Usage
from hivemind.snapshot import QUEUE_SHOWN, CurvePoint, LaneView, Line, Snapshot, TicketView, Totals

from .agents import AgentFold, TicketFold
from .lines import line_of

LINES_KEPT = 200
CURVE_KEPT = 600
"""Points of a lane's curve: ten minutes of them."""
AGENTS_KEPT = 2000
"""The idle one seen longest ago makes room for a newcomer."""


class World:
    """Everything that was seen, folded up."""

    def __init__(self, *, at: float, wall: float, address: str, upstreams: tuple[tuple[str, str], ...]) -> None:
        self.address = address
        self.mode = "serving"
        self.tell: Callable[[Line], object] = _keep_quiet
        """Called with each line of the event log as it is made."""
        self._started_at = at
        self._wall_offset = wall - at
        self._upstreams = upstreams
        self._agents: dict[str, AgentFold] = {}
        self._tickets: dict[int, TicketFold] = {}
        self._lanes: dict[str, ev.LaneState] = {}
        self._curves: dict[str, deque[CurvePoint]] = {}
        self._marks: dict[str, str] = {}
        self._lines: deque[Line] = deque(maxlen=LINES_KEPT)
        self._counts = dict.fromkeys(
            ("requests", "finished", "failed", "refused", "abandoned", "retries", "rescued"), 0
        )
        self._usage = Usage()
        self._wasted = Usage()
        self._folds: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Arrived: self._arrived,
            ev.Granted: self._granted,
            ev.FirstContent: self._first_content,
            ev.Progress: self._progress,
            ev.AttemptFailed: self._attempt_failed,
            ev.Finished: self._finished,
            ev.Abandoned: self._abandoned,
            ev.Refused: self._refused,
            ev.LevelChanged: self._level_changed,
            ev.Commanded: self._commanded,
            ev.Sampled: self._sampled,
        }

    def apply(self, event: ev.Event) -> None:
        """Take in what happened next."""
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event)
        line = line_of(event, event.at + self._wall_offset)
        if line is not None:
            self._lines.append(line)
            self.tell(line)

    def snapshot(self, at: float) -> Snapshot:
        """The world at this moment, which is not before the last event's."""
        for ticket in self._tickets.values():
            ticket.catch_up(at)
        views = {number: fold.view(at) for number, fold in self._tickets.items()}
        waiting = [view for view in views.values() if view.state in ("queued", "retry")]
        return Snapshot(
            at=at,
            wall=at + self._wall_offset,
            uptime_s=at - self._started_at,
            mode=self.mode,
            address=self.address,
            upstreams=self._upstreams,
            lanes=tuple(LaneView(state, tuple(self._curves.get(key, ()))) for key, state in self._lanes.items()),
            slots=tuple(view for view in views.values() if view.state in ("waiting", "streaming")),
            queue=tuple(self._in_order(views, waiting)),
            queued=len(waiting),
            agents=tuple(agent.view(at, self._tickets) for agent in self._agents.values()),
            lines=tuple(self._lines),
            totals=self._totals(),
        )

    def _in_order(self, views: dict[int, TicketView], waiting: list[TicketView]) -> list[TicketView]:
        """As the last sample had it; whoever came since, and those between attempts, by class and age."""
        known = [number for lane in self._lanes.values() for number in lane.upcoming]
        first = [views[n] for n in known if n in views and views[n].state == "queued"]
        shown = {view.ticket for view in first}
        rest = sorted((v for v in waiting if v.ticket not in shown), key=lambda v: (v.state, v.priority, -v.age_s))
        return (first + rest)[:QUEUE_SHOWN]

    def _totals(self) -> Totals:
        agents = self._agents.values()
        return Totals(
            **self._counts,
            agents_saved=sum(1 for agent in agents if agent.rescued and not agent.failed),
            tokens_saved=sum(agent.saved_tokens for agent in agents if not agent.failed),
            usage=self._usage,
            wasted=self._wasted,
        )

    # --- The folds -----------------------------------------------------------------------------------------------

    def _agent(self, name: str, at: float) -> AgentFold:
        agent = self._agents.get(name)
        if agent is None:
            if len(self._agents) >= AGENTS_KEPT:
                self._forget_one()
            agent = self._agents[name] = AgentFold(name)
        agent.last_seen = at
        return agent

    def _forget_one(self) -> None:
        idle = [agent for agent in self._agents.values() if not agent.tickets]
        if idle:
            del self._agents[min(idle, key=lambda agent: agent.last_seen).name]

    def _arrived(self, event: ev.Arrived) -> None:
        self._counts["requests"] += 1
        agent = self._agent(event.agent, event.at)
        agent.arrived(event)
        self._tickets[event.ticket] = TicketFold(event)

    def _granted(self, event: ev.Granted) -> None:
        ticket = self._tickets[event.ticket]
        ticket.enter("waiting", event.at)
        ticket.attempt = event.attempt
        self._agent(event.agent, event.at).waited_s += event.waited_s

    def _first_content(self, event: ev.FirstContent) -> None:
        self._tickets[event.ticket].enter("streaming", event.at)
        self._agent(event.agent, event.at).ttft_s = event.ttft_s

    def _progress(self, event: ev.Progress) -> None:
        self._tickets[event.ticket].output_tokens = event.output_tokens

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        agent = self._agent(event.agent, event.at)
        ticket = self._tickets[event.ticket]
        ticket.last_error = agent.last_error = event.message or event.kind.value.replace("_", " ")
        if event.usage is not None:
            self._wasted = add(self._wasted, event.usage)
            agent.usage = add(agent.usage, event.usage)
        if event.retry_in_s is None:
            self._counts["failed"] += 1
            agent.failed += 1
            self._close(event.ticket)
            return
        self._counts["retries"] += 1
        agent.retries += 1
        ticket.enter("retry", event.at)
        ticket.retry_at = event.at + event.retry_in_s

    def _finished(self, event: ev.Finished) -> None:
        agent = self._agent(event.agent, event.at)
        self._counts["finished"] += 1
        agent.finished += 1
        if event.attempts > 1:
            self._counts["rescued"] += 1
            agent.rescued += 1
            agent.saved_tokens = agent.usage.total
        if event.usage is not None:
            agent.usage = add(agent.usage, event.usage)
            self._usage = add(self._usage, event.usage)
        self._close(event.ticket)

    def _abandoned(self, event: ev.Abandoned) -> None:
        self._counts["abandoned"] += 1
        if event.usage is not None:
            agent = self._agent(event.agent, event.at)
            agent.usage = add(agent.usage, event.usage)
            self._wasted = add(self._wasted, event.usage)
        self._close(event.ticket)

    def _refused(self, event: ev.Refused) -> None:
        self._counts["refused"] += 1
        agent = self._agent(event.agent, event.at)
        agent.failed += 1
        agent.last_error = event.reason.replace("_", " ")
        if event.ticket is not None:
            self._close(event.ticket)

    def _close(self, number: int) -> None:
        ticket = self._tickets.pop(number, None)
        if ticket is not None:
            agent = self._agents.get(ticket.arrived.agent)
            if agent is not None:
                agent.tickets.discard(number)

    def _level_changed(self, event: ev.LevelChanged) -> None:
        if event.cause not in ("grow", "operator"):
            self._marks[event.lane] = event.cause

    def _commanded(self, event: ev.Commanded) -> None:
        match event.name:
            case "SetPriority":
                agent = self._agent(event.arguments["agent"], event.at)
                agent.priority = Priority[event.arguments["priority"].upper()]
                for number in agent.tickets:
                    self._tickets[number].priority = agent.priority
            case "PauseAgent":
                self._agent(event.arguments["agent"], event.at).paused = event.arguments["paused"]
            case "PauseAdmissions" if self.mode != "draining":
                self.mode = "paused" if event.arguments["paused"] else "serving"

    def _sampled(self, event: ev.Sampled) -> None:
        self._lanes = {state.lane: state for state in event.lanes}
        for gone in self._curves.keys() - self._lanes.keys():
            del self._curves[gone]
        for state in event.lanes:
            curve = self._curves.setdefault(state.lane, deque(maxlen=CURVE_KEPT))
            mark = self._marks.pop(state.lane, "")
            level = state.level if not math.isinf(state.level) else float(state.active)
            point = CurvePoint(event.at, level, state.active, state.waiting, state.mean_ttft_s, mark)
            if curve and event.at - curve[-1].at < 0.9 and not mark:
                curve[-1] = replace(point, at=curve[-1].at, mark=curve[-1].mark)
            else:
                curve.append(point)


def _keep_quiet(line: Line) -> None:
    """For a world whose lines are only looked at."""


def add(one: Usage, other: Usage) -> Usage:
    """The sum of two usages, part by part."""
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        one.output_tokens + other.output_tokens,
    )
