"""Folds a journal's events into everything that a report shows, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from msgspec import Struct

from hivemind.journal.records import Gap, JournalBegan
from hivemind.lab.report.agents import AgentStats, Faults
from hivemind.lab.report.lanes import LaneSummary, Thinned
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, Usage
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.lines import SHOWN_BY_EVENTS, sentence, subject
from hivemind.world.state import Carried
from hivemind.world.tickets import BY_OPERATOR

AGENTS_KEPT = 20_000
LANES_KEPT = 50
COMMANDS_KEPT = 300
GAPS_KEPT = 100


class OperatorAction(Struct, frozen=True):
    """A command of an operator. `at` is in seconds since the run began."""

    at: float
    who: str
    about: str
    text: str


@dataclass(slots=True, eq=False)
class _Request(Lifecycle):
    """A request, and how its lane counts it."""

    agent: AgentStats = field(init=False)
    lane: LaneSummary = field(init=False)
    faults: list[str] = field(default_factory=list)
    lost: bool = False
    """Events of it may be missing, and none has come since."""
    counted_in_flight: bool | None = None
    """Whether its lane counts it as in flight or as queued; None: as neither."""


class RunFold:
    """Takes every event in order; :meth:`end` completes it."""

    def __init__(self, began: JournalBegan, price: Price | None = None) -> None:
        self.agents: dict[str, AgentStats] = {}
        self.untracked_requests = 0
        """Requests of agents beyond :data:`AGENTS_KEPT`."""
        self.lanes: dict[str, LaneSummary] = {}
        self.faults = Faults()
        self.commands: Thinned[OperatorAction] = Thinned(COMMANDS_KEPT)
        self.gaps: Thinned[tuple[float, float, int]] = Thinned(GAPS_KEPT)
        """Begin, end, and how many events are missing."""
        self.turned_away: Counter[str] = Counter()
        """Requests refused before they had a ticket, by reason."""
        self.ended_at = 0.0
        """The time of the last event, in seconds since the run began."""
        self._offset = began.at
        self._price = price
        self._requests = OpenRequests(_Request)
        self._unknown = True
        """Requests in flight aren't known from events alone."""

    def apply(self, event: ev.Event) -> None:
        """Take the next event."""
        before = self.ended_at
        at = event.at - self._offset
        self.ended_at = at = before if at < before else at
        if isinstance(event, Gap):
            self._gap(event, before, at)
            return
        self._requests.requeue_due(event.at)
        request = self._requests.apply(event)
        if request is not None:
            self._request_changed(request, event, at)
            return
        match event:
            case ev.Refused():
                self._agent(event.agent).saw_error |= event.reason not in BY_OPERATOR
                self.turned_away[event.reason] += 1
            case ev.PromptCached() if self._price is not None:
                provider = self._requests.providers.get(event.lane, "")
                self._agent(event.agent).caches[event.why] += event.dollars(provider, self._price)
            case ev.LevelChanged():
                self._lane(event.lane).change_level(at, event.level, event.cause)
            case ev.CircuitChanged():
                self._lane(event.lane).set_circuit(at, event.state, event.cause)
            case ev.LaneRateLimited():
                self._lane(event.lane).pause(at, event.for_s, event.cause)
            case ev.LaneReleased():
                self._lane(event.lane).resume(at)
            case ev.LaneOpened():
                self._lane(event.lane).upstream = event.upstream
            case ev.LimitsRead():
                self._lane(event.lane).read_limits(at, event.family, event.readings)
            case ev.Sampled():
                for state in event.lanes:
                    self._requests.providers.setdefault(state.lane, state.provider)
                    self._lane(state.lane).sample(at, state, known=not self._unknown)
                self._unknown = False
            case ev.Commanded():
                self._commanded(event, at)
            case ev.Finished(attempts=0):
                self._use(self._agent(event.agent), event.lane, event.model, event.usage, wasted=False)
            case ev.AgentBegan():
                agent = self._agent(event.agent)
                agent.stopped = agent.died = False
            case ev.AgentEnded():
                agent = self._agent(event.agent)
                agent.exit_code = event.exit_code
                agent.died = bool(event.exit_code) and not (event.asked or event.paused or agent.stopped)
            case Carried():
                self._carried(event, at)

    def end(self) -> None:
        """Complete the fold after the last event."""
        at = self.ended_at
        for request in self._requests.by_ticket.values():
            self.faults.end(request.faults, "open")
        self._lose_all()
        for lane in self.lanes.values():
            lane.end(at)

    # --- Requests ------------------------------------------------------------------------------------------------

    def _agent(self, name: str) -> AgentStats:
        agent = self.agents.get(name)
        if agent is None:
            agent = AgentStats(name)
            if len(self.agents) < AGENTS_KEPT:
                self.agents[name] = agent
        return agent

    def _lane(self, key: str) -> LaneSummary:
        lane = self.lanes.get(key)
        if lane is None:
            lane = LaneSummary(key)
            if len(self.lanes) < LANES_KEPT:
                self.lanes[key] = lane
        return lane

    def _begin(self, request: _Request, at: float) -> None:
        arrived = request.arrived
        agent = request.agent = self._agent(arrived.agent)
        lane = request.lane = self._lane(arrived.lane)
        agent.requests += 1
        agent.died = False
        agent.client = arrived.client or agent.client
        lane.requests += 1
        if arrived.agent not in self.agents:
            self.untracked_requests += 1
        self._show(request, at)

    def _show(self, request: _Request, at: float) -> None:
        """Update its lane to the request's state."""
        request.lost = False
        over = request.end is not None
        in_flight = None if over else request.in_flight
        before = request.counted_in_flight
        if in_flight is not before:
            request.lane.add(at, (in_flight is True) - (before is True), (in_flight is False) - (before is False))
            request.counted_in_flight = in_flight

    def _lose_all(self) -> None:
        """Note that the ends of open requests aren't known."""
        for request in self._requests.by_ticket.values():
            self._lose(request)

    def _lose(self, request: _Request) -> None:
        if not request.lost:
            request.lost, request.agent.last_end = True, ""

    def _request_changed(self, request: _Request, event: ev.Event, at: float) -> None:
        match event:
            case ev.Arrived():
                self._begin(request, at)
            case ev.Granted() | ev.FirstContent():
                self._show(request, at)
            case ev.AttemptFailed():
                self._attempt_failed(request, event, at)
            case ev.Finished():
                request.agent.answered += 1
                if event.attempts > 1:
                    request.agent.recover()
                self._use(request.agent, event.lane, request.arrived.model or event.model, event.usage, wasted=False)
                self._end(request, at)
            case ev.Abandoned():
                self._use(request.agent, event.lane, request.arrived.model, event.usage, wasted=True)
                self._end(request, at)
            case ev.Refused():
                request.agent.saw_error |= event.reason not in BY_OPERATOR
                request.agent.refused += 1
                self._end(request, at)

    def _attempt_failed(self, request: _Request, event: ev.AttemptFailed, at: float) -> None:
        agent, kind = request.agent, event.kind.value
        self.faults.add(kind, event.status, retried=event.retry_in_s is not None)
        request.faults.append(kind)
        self._use(agent, event.lane, request.arrived.model, event.usage, wasted=True)
        if event.retry_in_s is None:
            agent.failed += 1
            agent.saw_error = True
            self._end(request, at)
        else:
            agent.retries += 1
            self._show(request, at)

    def _end(self, request: _Request, at: float) -> None:
        self._show(request, at)
        request.agent.last_end = request.state
        self.faults.end(request.faults, request.state)

    def _use(self, agent: AgentStats, lane: str, model: str, usage: Usage | None, *, wasted: bool) -> None:
        if usage is not None:
            provider = self._requests.providers.get(lane, "")
            dollars = None if self._price is None else self._price(provider, model, usage)
            agent.use(model, usage, dollars, wasted)

    def _carried(self, event: Carried, at: float) -> None:
        """Count and show what is open where the journal begins in the middle, or after a gap."""
        new, lost = self._requests.carried(event)
        for request in lost:
            self.faults.end(request.faults, "open")
            self._lose(request)
        for request in new:
            self._begin(request, at)
        waiting: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for request in self._requests.by_ticket.values():
            self._show(request, at)
            (in_flight if request.in_flight else waiting)[request.arrived.lane] += 1
        for known in event.state.agents:
            if known.trouble == "died" or known.stopped:
                agent = self._agent(known.name)
                agent.exit_code, agent.stopped, agent.died = known.exit_code, known.stopped, known.trouble == "died"
        for state in event.state.lanes:
            lane = self._lane(state.lane)
            lane.upstream = state.upstream
            lane.set(at, in_flight[state.lane], waiting[state.lane])
        self._unknown = False

    # --- Commands and gaps --------------------------------------------------------------------------------------

    def _commanded(self, event: ev.Commanded, at: float) -> None:
        if event.name in SHOWN_BY_EVENTS:
            return
        if event.name == "StopAgent" and isinstance(name := event.arguments.get("agent"), str):
            self._agent(name).stopped = bool(event.arguments.get("stopped"))
        try:
            text = sentence(event)
        except (KeyError, TypeError, ValueError):
            text = event.name  # another version wrote it with other arguments
        self.commands.add(OperatorAction(at, event.who, subject(event.arguments), text))

    def _gap(self, event: Gap, before: float, at: float) -> None:
        since = max(before, min(at, event.since - self._offset))
        self.gaps.add((since, at, event.lost))
        self._lose_all()
        for lane in self.lanes.values():
            lane.lose_count(since)
        self._unknown = True
