"""The trace of a journal: each request with its attempts, and the steps that it followed from.

An agent sends a request because something has ended: its last answer, its sub-agent's, the start of its process. Only
the time between the two is the agent's own, so the trace keeps that: if answers arrive earlier in a simulation, so does
the next request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from hivemind.journal.records import JournalBegan
from hivemind.lab.trace.steps import AgentHistory, CommandStep, RequestAttempt, RequestStep, TracedAttempt, TraceStep
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import Failure, Priority, Request, WindowReading
from hivemind.world.lifecycle import End, Lifecycle, OpenRequests
from hivemind.world.state import Carried

_OF_A_PROXY = frozenset({"PauseAdmissions", "Drain"})
"""Commands that hold a proxy as a whole; among several they say nothing about what the others may do."""
SOON_S = 5.0
"""Within this time, one command of a runner follows from another."""


class LaneTrace(Struct):
    """The configuration of a lane and what headers said of its limits."""

    key: str
    upstream: str
    provider: str
    config: LaneConfig | None
    readings: list[tuple[float, str, tuple[WindowReading, ...]]] = field(default_factory=list)
    """Time, family of models, and windows."""
    knobs: Mapping[str, float] = field(default_factory=dict)
    """The values where the journal begins in the middle of a run, by their names in
    :data:`~hivemind.scheduler.operator.knobs.KNOBS`."""

    @property
    def reserves(self) -> bool:
        """The provider charges the longest possible answer in advance."""
        return self.config is not None and self.config.reserve_max_tokens


class _Traced(Lifecycle):
    __slots__ = ("step",)

    step: RequestStep


class Trace:
    """All steps of a run, and its lanes, built from the events of a journal."""

    def __init__(self, began: JournalBegan, proxies: int = 1) -> None:
        self.began = began
        self.proxies = proxies
        """Whose journals are merged."""
        self.left_out = 0
        """Commands that held one of several proxies as a whole."""
        self.ends_at = 0.0
        self.requests: list[RequestStep] = []
        self.start: list[tuple[float, TraceStep]] = []
        """Steps that follow from no known one, by their time since the beginning."""
        self.earlier: Sequence[RequestAttempt] = ()
        """Of a part, the attempts shortly before it, in order: the provider's windows still count them."""
        self.lanes: dict[str, LaneTrace] = {}
        self._steps = 0
        self._open = OpenRequests(_Traced)
        self._in_flight: dict[str, int] = {}
        self._proxy = 0
        """Where the event that is being taken was recorded."""
        self._begun: set[int] = set()
        """Proxies of which a lane or a request is known."""
        self._agents: dict[tuple[int, str], AgentHistory] = {}
        """By proxy and name: what an agent does follows from what it did at the same proxy."""
        self._last: dict[tuple[int, str], CommandStep] = {}
        """The latest command of each proxy and name."""

    @property
    def wall_offset(self) -> float:
        """Add it to a time of the journal for seconds since the epoch."""
        return self.began.wall - self.began.at

    def began_at(self, at: float) -> JournalBegan:
        """Return the beginning of a journal that begins at this time."""
        return structs.replace(self.began, at=at, wall=at + self.wall_offset)

    def steps(self) -> list[TraceStep]:
        """Return all steps, in order."""
        found: dict[TraceStep, None] = {}
        left: list[TraceStep] = [*(step for _, step in self.start), *self.requests]
        while left:
            step = left.pop()
            if step not in found:
                found[step] = None
                left += [after for _, after in step.after]
                if isinstance(step, RequestStep):
                    left += [after for _, after in step.concurrent]
        return sorted(found, key=lambda step: step.number)

    def apply(self, event: ev.Event, proxy: int = 0) -> None:
        """Take the next event, of one of several proxies whose journals are merged."""
        self.ends_at = max(event.at, 0.0)
        self._proxy = proxy
        traced = self._open.apply(event)
        match event:
            case ev.Arrived() if traced is not None:
                self._add(traced)
            case ev.Granted() if traced is not None:
                self._begin_attempt(traced, event.at)
            case ev.FirstContent() if traced is not None:
                self._first_content(traced.step, event)
            case ev.AttemptFailed() | ev.Finished() | ev.Abandoned() | ev.Refused() if traced is not None:
                self._ended(traced, event)
            case ev.LaneOpened():
                self._lane_opened(event)
            case ev.LimitsRead():
                if event.lane in self.lanes:
                    self.lanes[event.lane].readings.append((event.at, event.family, event.readings))
            case ev.Commanded():
                self._commanded(event)
            case ev.TaskAdded():
                self._task_added(event)
            case ev.AgentRecalled():
                self._decided_before(event.at, event.agent, event.priority, paused=event.paused, stopped=event.stopped)
            case Carried():
                self._carried(event)

    # --- Requests ------------------------------------------------------------------------------------------------

    def _carried(self, event: Carried) -> None:
        """Add at once what was open where the journal begins in the middle."""
        if self._proxy not in self._begun:
            self._begin_in_the_middle(event)
            self._begun.add(self._proxy)
        for lane in event.state.lanes:
            if lane.lane not in self.lanes:
                self.lanes[lane.lane] = LaneTrace(lane.lane, lane.upstream, lane.provider, None, knobs=lane.knobs)
        for request in self._open.carried(event)[0]:
            self._add(request)
            if request.in_flight:
                self._begin_attempt(request, event.at)

    def _lane_opened(self, event: ev.LaneOpened) -> None:
        lane = self.lanes.setdefault(event.lane, LaneTrace(event.lane, event.upstream, event.provider, event.config))
        self._begun.add(self._proxy)
        lane.config = event.config or lane.config  # of several proxies that open it, the last event holds for all

    def _begin_in_the_middle(self, event: Carried) -> None:
        for agent in event.state.agents:
            self._decided_before(event.at, agent.name, None, paused=agent.held, stopped=agent.stopped)
        if event.state.paused and self.proxies == 1:
            self._commanded_before(event.at, "PauseAdmissions", {"paused": True})

    def _decided_before(self, at: float, agent: str, priority: Priority | None, *, paused: bool, stopped: bool) -> None:
        """Add commands for decisions about an agent made before the journal."""
        if priority is not None:
            self._commanded_before(at, "SetPriority", {"agent": agent, "priority": priority.name.lower()})
        if paused:
            self._commanded_before(at, "PauseAgent", {"agent": agent, "paused": True})
        if stopped:
            self._commanded_before(at, "StopAgent", {"agent": agent, "stopped": True})

    def _commanded_before(self, at: float, name: str, arguments: dict[str, Any]) -> None:
        command = CommandStep(at, number=self._number(), who="recording", name=name, arguments=arguments)
        self._follow(None, command)

    def _add(self, traced: _Traced) -> None:
        at = traced.known_from
        arrived = traced.arrived if at == traced.arrived.at else structs.replace(traced.arrived, at=at)
        made, number = request_of(arrived), self._number()
        request = traced.step = RequestStep(at, number=number, arrived=arrived, request=made, proxy=self._proxy)
        self.requests.append(request)
        self._begun.add(self._proxy)
        parent = self._agents.get((self._proxy, arrived.parent)) if arrived.parent else None
        agent = self._agents.get((self._proxy, arrived.agent))
        if agent is None:
            agent = self._agents[self._proxy, arrived.agent] = AgentHistory(parent)
        if parent is not None:
            parent.children.setdefault(agent, at)
        anchors, at_end = agent.anchors(request)
        if not anchors:
            self._follow(None, request)
        elif at_end:
            over_at = max(each.ended_at if isinstance(each, RequestStep) else each.at for each in anchors)
            delay_s = max(0.0, at - over_at)
            request.awaits = len(anchors)
            for anchor in anchors:
                anchor.after.append((delay_s, request))
        else:
            (first,) = anchors
            assert isinstance(first, RequestStep)
            first.concurrent.append((max(0.0, at - first.at), request))
        agent.arrived(request)

    def _number(self) -> int:
        self._steps += 1
        return self._steps

    def _follow(self, anchor: CommandStep | None, step: TraceStep) -> None:
        """Let a step follow from a command, or (None) from the beginning."""
        if anchor is None:
            self.start.append((max(0.0, step.at - self.began.at), step))
        else:
            anchor.after.append((max(0.0, step.at - anchor.at), step))

    def _begin_attempt(self, traced: _Traced, at: float) -> None:
        lane = traced.arrived.lane
        in_flight = self._in_flight[lane] = self._in_flight.get(lane, 0) + 1
        traced.step.attempts.append(TracedAttempt(at, in_flight))

    def _first_content(self, step: RequestStep, event: ev.FirstContent) -> None:
        if step.attempts:
            last = step.attempts[-1]
            last.first_s, last.headed_s = event.at - last.granted_at, event.headed_s
            last.first_number = self._number()

    def _ended(self, traced: _Traced, event: End) -> None:
        """End an attempt, and the request unless it is retried."""
        step = traced.step
        if step.attempts and not isinstance(event, ev.Refused):
            self._end_attempt(step, event)
        if traced.end is not None:
            step.end, step.ended_at = traced.state, event.at
            self._agents[step.proxy, step.arrived.agent].ended(step)

    def _end_attempt(self, step: RequestStep, event: ev.AttemptFailed | ev.Finished | ev.Abandoned) -> None:
        last = step.attempts[-1]
        duration_s = event.at - last.granted_at
        if isinstance(event, ev.Abandoned):
            if not event.in_flight:
                return
            step.left_in_flight_s = duration_s
        else:
            last.complete, last.status = True, event.status or 0
        if isinstance(event, ev.AttemptFailed):
            last.failure = Failure(event.kind, event.retryable, event.status, event.delay_s, event.message)
            last.retry_in_s = event.retry_in_s
        last.usage, last.duration_s, last.end_number = event.usage, duration_s, self._number()
        # Never below 0: the attempt may have begun in another lane where lines are lost.
        self._in_flight[event.lane] = max(0, self._in_flight.get(event.lane, 0) - 1)

    # --- Commands ------------------------------------------------------------------------------------------------

    def _commanded(self, event: ev.Commanded) -> None:
        if self.proxies > 1 and event.name in _OF_A_PROXY:
            self.left_out += 1
            return
        command = CommandStep(
            event.at, number=self._number(), who=event.who, name=event.name, arguments=event.arguments
        )
        about = event.arguments.get("agent")
        agent = self._agents.get((self._proxy, about)) if isinstance(about, str) else None
        ended = None if agent is None else agent.last_ended
        if command.name == "EndAgent" and ended is not None and ended.ended_at:
            ended.after.append((max(0.0, command.at - ended.ended_at), command))
        else:
            self._follow(None if ended is not None and command.name == "EndAgent" else self._cause(command), command)
        if command.name == "BeginAgent" and isinstance(about, str):
            self._agents.setdefault((self._proxy, about), AgentHistory(None)).started_by = command
        self._last[self._proxy, command.name] = command

    def _cause(self, command: CommandStep) -> CommandStep | None:
        """Return the command that one of a runner follows from: the end of a task or an agent, or a claim."""
        causes = {
            "BeginAgent": ("ClaimTask", "EndAgent", "BeginAgent"),
            "ClaimTask": ("FinishTask", "SubmitTasks", "ClaimTask"),
            "FinishTask": ("EndAgent",),
        }.get(command.name, ())
        found = [self._last[self._proxy, name] for name in causes if (self._proxy, name) in self._last]
        latest = max(found, key=lambda each: each.at, default=None)
        return latest if latest is not None and command.at - latest.at <= SOON_S else None

    def _task_added(self, event: ev.TaskAdded) -> None:
        command = self._last.get((self._proxy, "SubmitTasks"))
        if command is not None and event.at == command.at:
            command.tasks.append(event)
            return
        # Submitted before a restart, by a command that isn't in this journal.
        known = CommandStep(event.at, number=self._number(), who="recording", name="SubmitTasks", tasks=[event])
        self._follow(None, known)


def request_of(arrived: ev.Arrived) -> Request:
    """Return a recorded request as the scheduler takes it."""
    return Request(
        agent=arrived.agent,
        lane=arrived.lane,
        model=arrived.model,
        family=arrived.family,
        size_chars=arrived.size_chars or arrived.estimated_input * 4,
        max_output_tokens=arrived.max_output_tokens,
        stream=arrived.stream,
        priority=arrived.asked,
        patience_s=arrived.patience_s,
        client=arrived.client,
        parent=arrived.parent,
        path=arrived.path,
        tier=arrived.tier,
        waited_s=arrived.waited_s,
    )
