"""The fold from a journal's events to everything that a report shows, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hivemind.journal.records import Gap, JournalBegan
from hivemind.lab.report.agents import FIRST, PAUSE, QUEUED, STREAMING, AgentStats
from hivemind.lab.report.faults import FaultCounts
from hivemind.lab.report.lanes import Lane
from hivemind.lab.report.rows import Rows
from hivemind.lab.report.series import Thinned
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, Usage
from hivemind.world.sentences import TOLD_ALREADY, sentence, subject
from hivemind.world.tickets import BY_OPERATOR

AGENTS_KEPT = 20_000
ROWS_KEPT = 120
LANES_KEPT = 50
COMMANDS_KEPT = 300
GAPS_KEPT = 100


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator did. `at` is seconds since the run began."""

    at: float
    who: str
    about: str
    text: str


class _Open:
    __slots__ = ("agent", "faults", "known", "lane", "model", "state")

    def __init__(self, agent: AgentStats, lane: Lane, model: str, state: int, *, known: bool) -> None:
        self.agent, self.lane, self.model, self.state = agent, lane, model, state
        self.known = known
        """It was seen to come, so that it counts; the others are only drawn."""
        self.faults: list[str] = []


class RunFold:
    """Feed it every event in order; then :meth:`end`."""

    def __init__(self, began: JournalBegan, price: Price | None = None) -> None:
        self.agents: dict[str, AgentStats] = {}
        self.untracked_requests = 0
        """Requests of agents beyond those that are told apart."""
        self.lanes: dict[str, Lane] = {}
        self.faults = FaultCounts()
        self.rows = Rows()
        self.words: Thinned[OperatorAction] = Thinned(COMMANDS_KEPT)
        self.gaps: Thinned[tuple[float, float, int]] = Thinned(GAPS_KEPT)
        """From when to when, and how many events are missing."""
        self.turned_away: Counter[str] = Counter()
        """Requests refused before they had a ticket, by reason."""
        self.refusals: Counter[str] = Counter()
        self.ended_at = 0.0
        """The last event's moment, in seconds since the run began."""
        self._offset = began.at
        self._price = price
        self._providers: dict[str, str] = {}
        self._open: dict[int, _Open] = {}
        self._unsure = True
        """What flies isn't known from the events alone."""
        self._folds: dict[type[ev.Event], Callable[[Any, float], None]] = {
            ev.Arrived: self._arrived,
            ev.Granted: self._granted,
            ev.FirstContent: self._first_content,
            ev.AttemptFailed: self._attempt_failed,
            ev.Finished: self._finished,
            ev.Abandoned: self._abandoned,
            ev.Refused: self._refused,
            ev.LevelChanged: self._level_changed,
            ev.CircuitChanged: self._circuit_changed,
            ev.LaneParked: self._parked,
            ev.LaneReleased: self._released,
            ev.LaneOpened: self._opened,
            ev.Commanded: self._commanded,
            ev.AgentEnded: self._process_ended,
            ev.Sampled: self._sampled,
        }

    def apply(self, event: ev.Event) -> None:
        """Take in what happened next."""
        before = self.ended_at
        at = max(before, event.at - self._offset)
        self.ended_at = at
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event, at)
        elif type(event) is Gap:
            self._gap(event, before, at)

    def end(self) -> None:
        """There are no more events."""
        at = self.ended_at
        for ticket in self._open.values():
            if ticket.known:
                self.faults.became(ticket.faults, "open")
        for agent in self.agents.values():
            agent.ended = at if agent.open else agent.ended
            agent.last_end = "" if agent.open else agent.last_end
            agent.forget_open(at)
        self.rows.settle()
        for lane in self.lanes.values():
            lane.end(at)

    # --- Requests ------------------------------------------------------------------------------------------------

    def _agent(self, name: str) -> AgentStats:
        agent = self.agents.get(name)
        if agent is None:
            rows = self.rows if len(self.agents) < ROWS_KEPT else None
            agent = AgentStats(name, rows)
            if len(self.agents) < AGENTS_KEPT:
                self.agents[name] = agent
        return agent

    def _lane(self, key: str) -> Lane:
        lane = self.lanes.get(key)
        if lane is None:
            lane = Lane(key)
            if len(self.lanes) < LANES_KEPT:
                self.lanes[key] = lane
        return lane

    def _arrived(self, event: ev.Arrived, at: float) -> None:
        agent, lane = self._agent(event.agent), self._lane(event.lane)
        agent.catch_up(at)
        agent.requests += 1
        agent.began = at if agent.began is None else agent.began
        agent.client = event.client or agent.client
        agent.parent = event.parent or agent.parent
        lane.requests += 1
        if event.agent not in self.agents:
            self.untracked_requests += 1
        self._open[event.ticket] = _Open(agent, lane, event.model, QUEUED, known=True)
        agent.move(at, None, QUEUED)
        lane.moved(at, 0, 1)

    def _ticket(self, event: ev.Granted | ev.FirstContent | ev.AttemptFailed, at: float, state: int) -> _Open:
        """The request; where it wasn't seen to come, as one that was in that state until now. What its lane counts has
        it already, from the last sample."""
        ticket = self._open.get(event.ticket)
        if ticket is None:
            agent, lane = self._agent(event.agent), self._lane(event.lane)
            ticket = self._open[event.ticket] = _Open(agent, lane, "", state, known=False)
            agent.move(at, None, state)
        return ticket

    def _granted(self, event: ev.Granted, at: float) -> None:
        ticket = self._ticket(event, at, QUEUED)
        before = ticket.agent.resume(event.ticket, at)
        ticket.agent.move(at, before, FIRST)
        ticket.state = FIRST
        ticket.lane.moved(at, 1, -1)

    def _first_content(self, event: ev.FirstContent, at: float) -> None:
        ticket = self._ticket(event, at, FIRST)
        ticket.agent.catch_up(at)
        ticket.agent.move(at, ticket.state, STREAMING)
        ticket.state = STREAMING

    def _attempt_failed(self, event: ev.AttemptFailed, at: float) -> None:
        ticket = self._ticket(event, at, FIRST)
        agent, kind = ticket.agent, event.kind.value
        agent.catch_up(at)
        agent.fault(at, kind, event.retry_in_s is None)
        if ticket.known:
            self.faults.met(kind, event.status, event.retry_in_s)
            ticket.faults.append(kind)
            self._use(ticket, event.lane, event.usage, wasted=True)
        if event.retry_in_s is None:
            agent.failed += ticket.known
            agent.saw_error = True
            self._close(event.ticket, ticket, at, "failed")
            return
        agent.retries += ticket.known
        agent.move(at, ticket.state, PAUSE)
        agent.pause(event.ticket, at + event.retry_in_s)
        ticket.state = PAUSE
        ticket.lane.moved(at, -1, 1)

    def _finished(self, event: ev.Finished, at: float) -> None:
        ticket = self._open.get(event.ticket)
        if ticket is None:
            return
        if ticket.known:
            ticket.agent.answered += 1
            if event.attempts > 1:
                ticket.agent.recover()
            self._use(ticket, event.lane, event.usage, wasted=False, model=event.model)
        self._close(event.ticket, ticket, at, "answered")

    def _abandoned(self, event: ev.Abandoned, at: float) -> None:
        ticket = self._open.get(event.ticket)
        if ticket is None:
            return
        if ticket.known:
            ticket.agent.left += 1
            self._use(ticket, event.lane, event.usage, wasted=True)
        self._close(event.ticket, ticket, at, "left")

    def _refused(self, event: ev.Refused, at: float) -> None:
        ticket = None if event.ticket is None else self._open.get(event.ticket)
        agent = self._agent(event.agent) if ticket is None else ticket.agent
        agent.saw_error = agent.saw_error or event.reason not in BY_OPERATOR
        if ticket is None or event.ticket is None:
            self.turned_away[event.reason] += 1
            return
        self.refusals[event.reason] += 1
        agent.refused += ticket.known
        self._close(event.ticket, ticket, at, "refused")

    def _close(self, number: int, ticket: _Open, at: float, how: str) -> None:
        del self._open[number]
        agent = ticket.agent
        flying = ticket.state in (FIRST, STREAMING)
        if flying:
            agent.catch_up(at)
            agent.move(at, ticket.state, None)
        else:
            agent.move(at, agent.resume(number, at), None)
        ticket.lane.moved(at, -int(flying), -int(not flying))
        agent.ended, agent.last_end = at, how
        if ticket.known:
            self.faults.became(ticket.faults, how)

    def _use(self, ticket: _Open, lane: str, usage: Usage | None, *, wasted: bool, model: str = "") -> None:
        if usage is not None:
            named = ticket.model or model
            dollars = None if self._price is None else self._price(self._providers.get(lane, ""), named, usage)
            ticket.agent.use(named, usage, dollars, wasted)

    # --- Lanes, and whoever steers -------------------------------------------------------------------------------

    def _opened(self, event: ev.LaneOpened, at: float) -> None:
        self._providers[event.lane] = event.provider
        lane = self._lane(event.lane)
        lane.upstream, lane.config = event.upstream, event.config or lane.config

    def _level_changed(self, event: ev.LevelChanged, at: float) -> None:
        self._lane(event.lane).levelled(at, event.level, event.cause)

    def _circuit_changed(self, event: ev.CircuitChanged, at: float) -> None:
        self._lane(event.lane).circuit(at, event.state, event.cause)

    def _parked(self, event: ev.LaneParked, at: float) -> None:
        self._lane(event.lane).parked(at, event.for_s, event.cause)

    def _released(self, event: ev.LaneReleased, at: float) -> None:
        self._lane(event.lane).released(at)

    def _sampled(self, event: ev.Sampled, at: float) -> None:
        for state in event.lanes:
            self._providers.setdefault(state.lane, state.provider)
            self._lane(state.lane).sampled(at, state, known=not self._unsure)
        self._unsure = False

    def _commanded(self, event: ev.Commanded, at: float) -> None:
        if event.name not in TOLD_ALREADY:
            self.words.add(OperatorAction(at, event.who, subject(event.arguments), _said(event)))

    def _process_ended(self, event: ev.AgentEnded, at: float) -> None:
        self._agent(event.agent).exit_code = event.exit_code

    def _gap(self, event: Gap, before: float, at: float) -> None:
        since = max(before, min(at, event.since - self._offset))
        self.gaps.add((since, at, event.lost))
        for ticket in self._open.values():
            if ticket.known:
                self.faults.became(ticket.faults, "open")
        self._open.clear()
        for agent in self.agents.values():
            if agent.open:
                agent.ended, agent.last_end = since, ""
            agent.forget_open(since)
        for lane in self.lanes.values():
            lane.lost(since)
        self._unsure = True


def _said(event: ev.Commanded) -> str:
    """A command in words; one of a version that says other things of it, by its name alone."""
    try:
        return sentence(event)
    except (KeyError, TypeError, ValueError):
        return event.name
