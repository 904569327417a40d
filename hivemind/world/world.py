"""The world: the fold from events, live, attached or played back, and views of it at any moment.

Of requests whose beginning is missing, totals and agents still count retries, ends and usage; the requests themselves
aren't shown (:mod:`.lifecycle`). Work for people is done on demand: events change small records, those that come with
every request are applied together, and views and texts are made when they are asked for. The past that is held is
bounded: agents last seen long ago, requests that ended long ago, old lines and old points of the curve are dropped.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec import structs

from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.warmth import CACHING
from hivemind.scheduler.events import LaneState, WorkState
from hivemind.scheduler.types import Price, Priority, Usage
from hivemind.world.agents import AgentFold, Budgets, Costs, agent_values, ceiling_before, over
from hivemind.world.alerts import LOWER, AlertFold
from hivemind.world.forecast import foreseen
from hivemind.world.gauges import aged
from hivemind.world.health import Alert, AlertLimits
from hivemind.world.hung import LEAST_S, Usual
from hivemind.world.lanes import Curves, Queue
from hivemind.world.lifecycle import OpenRequests
from hivemind.world.lines import SHOWN_BY_EVENTS, knob_value, line_of
from hivemind.world.request_log import RequestLog
from hivemind.world.slow import SlowFold
from hivemind.world.snapshot import (
    ATTEMPTS_KEPT,
    QUEUE_SHOWN,
    AgentView,
    Alarm,
    LaneView,
    Line,
    RequestDetail,
    Requests,
    Snapshot,
    Tally,
    TicketView,
    Totals,
)
from hivemind.world.state import Capture, Carried, Counts, WorldState, counted
from hivemind.world.tasks import TaskBook
from hivemind.world.tickets import STOPPED, TicketFold
from hivemind.world.verdict import judged
from hivemind.world.vitals import VitalsFold, copied, tokens_limit

LINES_KEPT = 200
AGENTS_KEPT = 2000
"""At this number the idle ones seen longest ago are forgotten."""
FORGOTTEN_AT_ONCE = AGENTS_KEPT // 20
_ALERT_LIMITS = AlertLimits()
_CURRENT_S = 0.5
"""Gauges sampled so recently are shown as they are."""
PENDING_MOST = 64
"""Events that wait to be applied together, which takes a quarter of a millisecond."""
ELSEWHERE_MOST = 5
"""Names that are told of agents whose requests may be a run's."""
_DEEPEST = 16
"""Ancestors looked at, as requests name their parents themselves and may name any number."""
_PAUSE_S = 3.0
"""Shorter pauses in streams are no matter."""
_UNTOLD = frozenset(
    {ev.Arrived, ev.GrantedOnArrival, ev.Granted, ev.Prefill, ev.FirstContent}
    | {ev.WorkLeft, ev.PromptCached, ev.Progress, ev.LimitsRead}
)
"""Frequent events that have no line in the log."""
_OF_TWO = frozenset({ev.GrantedOnArrival, ev.AnsweredWhole})
"""Events of requests that have no others."""
_tally = attrgetter(*Tally.__struct_fields__)


class World:
    """The fold with its views: feed it every event in order, ask it for a snapshot at any moment."""

    def __init__(
        self,
        *,
        at: float,
        wall: float,
        address: str,
        upstreams: tuple[tuple[str, str], ...],
        price: Price | None = None,
        alert_limits: AlertLimits = _ALERT_LIMITS,
    ) -> None:
        self.address = address
        self.on_line: Callable[[Line], object] = _noop
        """Called with each line of the event log as it is made."""
        self._started_at = at
        self.wall_offset = wall - at
        """What to add for the time of day, which may be set, and goes on while the machine sleeps."""
        self._upstreams = upstreams
        self._price = price
        self._alert_limits = alert_limits
        self._ending = self._drained = self._paused = False
        self._agents: dict[str, AgentFold] = {}
        self._views_by = -math.inf, set[str](), set[str](), set[tuple[str, object]]()
        """The moment of the last views, and the agents that had ended then, whose budget was spent, and their tasks."""
        self._open = OpenRequests(TicketFold)
        self._tickets = self._open.by_ticket
        self._begun: dict[int, ev.GrantedOnArrival] = {}
        """Open requests of which only this one event came since the last view."""
        self._counts = Counts()
        self._vitals = VitalsFold(at)
        self._slow = SlowFold()
        self._costs = Costs(self._counts, self._vitals.priced)
        self._usual = Usual()
        self._log = RequestLog()
        self._changed = self._log.changed
        self._lanes: dict[str, LaneState] = {}
        self._gauge_changes: dict[str, dict[str, Any]] = {}
        """By lane and gauge, what events have set since the last sample; a countdown is the moment of its end."""
        self._work: tuple[WorkState, ...] = ()
        self._curves = Curves()
        self._queue = Queue()
        self._tasks = TaskBook(self._agent, lambda: self._costs.settle(self._price))
        self._budgets = Budgets()
        self._alarms: dict[tuple[str, str, str], Alarm] = {}
        self._notices: dict[str, None] = {}
        self._alerts = AlertFold()
        self._lines: deque[Line] = deque(maxlen=LINES_KEPT)
        self._pending: list[ev.Event] = []
        """Events that are still to be applied."""
        self._changes: dict[type[ev.Event], Callable[[Any], str | bool | None]] = {
            ev.Arrived: self._arrived,
            ev.GrantedOnArrival: self._granted_on_arrival,
            ev.Granted: self._granted,
            ev.Prefill: self._prefill,
            ev.FirstContent: self._first_content,
            ev.WorkLeft: self._work_left,
            ev.PromptCached: self._prompt_cached,
            ev.Progress: self._progress,
            ev.Finished: self._finished,
            ev.AnsweredWhole: self._answered_whole,
            ev.AttemptFailed: self._attempt_failed,
            ev.Abandoned: self._abandoned,
            ev.Refused: self._refused,
            ev.Commanded: self._commanded,
            ev.AgentRecalled: self._agent_changed,
            ev.AgentBegan: self._agent_changed,
            ev.AgentEnded: self._agent_changed,
            ev.BoostEnded: self._agent_changed,
            ev.TaskAdded: self._tasks.added,
            ev.TaskChanged: self._task_changed,
            ev.TaskForgotten: self._task_forgotten,
            ev.Sampled: self._sampled,
            ev.LevelChanged: self._level_changed,
            ev.CircuitChanged: self._circuit_changed,
            ev.LaneRateLimited: self._rate_limited,
            ev.LaneReleased: self._rate_limited,
            ev.LaneOpened: self._open.lane_opened,
            ev.InvariantBroken: self._alarm,
            ev.Noticed: lambda event: self._notices.setdefault(event.text),
            ev.AlertRaised: lambda event: self._alerts.raised(event),
            ev.AlertOver: lambda event: self._alerts.over(event),
            Carried: lambda event: self.restore(event.state),
        }
        """What an event changes, by its kind. A change may return the value before it, for the line in the log; False:
        it has no line."""

    def apply(self, event: ev.Event) -> None:
        """Apply the next event."""
        self._pending.append(event)
        self._apply_pending()

    def follow(self, events: Sequence[ev.Event]) -> None:
        """Apply the next events, but not before a view is asked for, an event of the log comes, or many have gathered:
        at once they cost a fraction of what they would between the steps of requests."""
        pending = self._pending
        pending += events
        for event in events:
            if type(event) not in _UNTOLD and (not isinstance(event, ev.Finished) or event.attempts > 1):
                self._apply_pending()
                return
        if len(pending) >= PENDING_MOST:
            self._fold_pending()

    def _apply_pending(self) -> None:
        """Apply what waits, before a view."""
        if self._pending:
            self._fold_pending()
        if self._begun:
            self._look_up_begun()

    def _fold_pending(self) -> None:
        pending, self._pending = self._pending, []
        changes = self._changes
        for event in pending:
            kind = type(event)
            if self._begun and kind not in _OF_TWO:
                self._look_up_begun()
            change = changes.get(kind)
            before = None if change is None else change(event)
            if kind not in _UNTOLD and before is not False:
                self._log_line(event, before or "")

    def _log_line(self, event: ev.Event, before: str | bool) -> None:
        line = line_of(event, event.at + self.wall_offset, before if isinstance(before, str) else "")
        if line is None:
            return
        self._lines.append(line)
        self.on_line(line)

    def release(self) -> None:
        """Break reference cycles once the world is no longer used, so that its memory is free without a collection."""
        self.__dict__.clear()

    def restore(self, state: WorldState) -> None:
        """Take over the given state. Requests that have ended stay remembered."""
        self._apply_pending()
        self._started_at = state.started_at
        self._paused, self._drained, self._ending = state.paused, state.drained, state.ending
        self._agents = {each.name: AgentFold(*agent_values(each)) for each in state.agents}
        self._open.carried(Carried(state.at, state))
        self._open.providers = dict(state.providers)
        for number, ticket in self._tickets.items():
            name = ticket.arrived.agent
            self._agents.setdefault(name, AgentFold(name=name)).tickets[number] = ticket
        self._log.reopen(self._tickets)
        self._lanes = {each.lane: each for each in state.lanes}
        self._curves.restore(state)
        self._queue.sampled(state.sampled_at, state.lanes, {})
        self._tasks.restore(state, self._agents)
        self._budgets.restore(state, self._agents)
        self._lines = deque(state.lines, maxlen=LINES_KEPT)
        self._alarms = {(each.rule, each.lane, each.agent): each for each in state.alarms}
        self._notices = dict.fromkeys(state.notices)
        self._alerts = AlertFold(state.alerts)
        self._counts = counted(state)
        if state.vitals is not None:
            self._vitals.restore(state.vitals)
        if state.slow is not None:
            self._slow.restore(state.slow, state.sampled_at, state.lanes)
        self._costs = Costs(self._counts, self._vitals.priced)
        self._costs.restore(state.models)

    # --- The folds -----------------------------------------------------------------------------------------------

    def _agent(self, name: str, at: float) -> AgentFold:
        agent = self._agents.get(name)
        if agent is None:
            if len(self._agents) >= AGENTS_KEPT:
                self._look_up_begun()
                idle = [each for each in self._agents.values() if not each.tickets]
                for forgotten in heapq.nsmallest(FORGOTTEN_AT_ONCE, idle, key=AgentFold.retention):
                    del self._agents[forgotten.name]
            agent = self._agents[name] = AgentFold(name=name)
            self._budgets.agent_came(agent)
        agent.last_seen, agent.kept = at, None
        return agent

    def _arrived(self, event: ev.Arrived) -> None:
        self._open_request(event, self._arrives(event))

    def _arrives(self, event: ev.Arrived) -> AgentFold:
        """Count a request that arrives. Return its agent."""
        self._counts.requests += 1
        at = event.at
        agent = self._agents.get(event.agent)
        if agent is None:
            agent = self._agent(event.agent, at)
        agent.last_seen, agent.kept = at, None
        agent.requests += 1
        if agent.trouble:
            agent.trouble = ""
        agent.client = event.client or agent.client
        agent.parent = event.parent or agent.parent
        agent.made_up = event.made_up
        if at >= agent.boosted_until:
            agent.priority = event.priority
        return agent

    def _open_request(self, event: ev.Arrived, agent: AgentFold) -> TicketFold:
        ticket = self._open.arrived(event)
        if event.at < agent.boosted_until:
            ticket.priority = agent.priority  # the boost may end before the request does
        agent.tickets[event.ticket] = self._changed[event.ticket] = ticket
        return ticket

    def _granted_on_arrival(self, event: ev.GrantedOnArrival) -> None:
        agent = self._arrives(event)
        self._vitals.waited(event.at, 0.0)
        self._begun[event.ticket] = event
        if event.at < agent.boosted_until:
            self._look_up_begun()

    def _look_up_begun(self) -> None:
        """Make the open requests of which only one event is known so far."""
        begun, self._begun = self._begun, {}
        for event in begun.values():
            self._open_request(event, self._agents[event.agent]).sent_at_once(event)
            self._open.in_flight += 1

    def _granted(self, event: ev.Granted) -> None:
        ticket = self._tickets.get(event.ticket)
        if ticket is None:
            return
        waited_before_s = ticket.waited_s
        self._open.granted(event)
        if len(ticket.attempts) > ATTEMPTS_KEPT:
            del ticket.attempts[ATTEMPTS_KEPT // 2]
        agent = self._agents[ticket.arrived.agent]
        agent.last_seen, agent.kept = event.at, None
        waited_s = ticket.waited_s - waited_before_s
        agent.waited_s += waited_s
        self._vitals.waited(event.at, waited_s)
        self._changed[event.ticket] = ticket

    def _prefill(self, event: ev.Prefill) -> None:
        ticket = self._tickets.get(event.ticket)
        if ticket is not None and ticket.attempts:
            ticket.attempts[-1].prefill = event.read, event.total
            ticket.heard_at = event.at
            self._changed[event.ticket] = ticket

    def _first_content(self, event: ev.FirstContent | ev.AnsweredWhole) -> None:
        ticket = self._open.first_content(event)
        if ticket is not None:
            agent = self._agents[ticket.arrived.agent]
            agent.last_seen, agent.kept = event.at, None
            agent.ttft_s = event.ttft_s
            if ticket.arrived.stream:
                self._usual.began(ticket.arrived, event.ttft_s)
            self._vitals.first_content(event.at, event.ttft_s)
            self._changed[event.ticket] = ticket

    def _work_left(self, event: ev.WorkLeft) -> None:
        ticket = self._open.work_left(event)
        if ticket is not None:
            self._agents[ticket.arrived.agent].kept = None
            self._changed[event.ticket] = ticket

    def _prompt_cached(self, event: ev.PromptCached) -> None:
        provider = self._open.providers.get(event.lane, "")
        self._costs.note_cached(self._agent(event.agent, event.at), provider, event)

    def _progress(self, event: ev.Progress) -> None:
        ticket = self._tickets.get(event.ticket)  # the most frequent event, so no further call
        if ticket is not None:
            ticket.output_tokens = event.output_tokens
            if (pause_s := event.at - ticket.heard_at) > _PAUSE_S:
                self._usual.paused(ticket, pause_s)
            ticket.heard_at = event.at
            self._changed[event.ticket] = ticket

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        agent = self._agent(event.agent, event.at)
        ticket = self._open.attempt_failed(event)
        agent.changed(event)
        self._vitals.attempt_failed(event.at, retried=event.retry_in_s is not None)
        if event.usage is not None:
            self._counts.wasted += event.usage
            self._used(event, agent, "" if ticket is None else ticket.arrived.model, event.usage)
        if event.retry_in_s is None:
            self._counts.failed += 1
            self._over(ticket)
            return
        self._counts.retries += 1
        if ticket is not None:
            self._changed[event.ticket] = ticket

    def _finished(self, event: ev.Finished) -> bool:
        """Return whether it is worth a line, as few are."""
        provider, usage = self._open.providers.get(event.lane, ""), event.usage
        agent = self._agents.get(event.agent)
        if agent is None:
            agent = self._agent(event.agent, event.at)
        if not event.attempts:
            if usage is not None:
                self._counts.usage += usage
                self._used(event, agent, event.model, usage)
            return False
        if event.attempts > 1:
            counts = self._counts
            agent.retried_ok += 1
            if not agent.spoiled:
                tokens = agent.usage.total
                if agent.retried_ok == 1:
                    counts.agents_recovered += 1
                    agent.recovered = True
                counts.recovered_tokens += tokens - agent.saved_tokens
                agent.saved_tokens = tokens
            counts.retried_ok += 1
        self._answers(event, agent, provider)
        ticket = self._open.ended(event)
        if ticket is not None and ticket.attempts:  # which a damaged journal may have lost
            last = ticket.attempts[-1]
            if usage is not None and (caching := CACHING.get(provider)) is not None:
                agent.cached(caching, usage, last.first_content_at or last.granted.at)
            if not ticket.arrived.stream:
                self._usual.began(ticket.arrived, event.at - last.granted.at)
        self._over(ticket)
        return event.attempts > 1

    def _answers(self, event: ev.Finished, agent: AgentFold, provider: str) -> None:
        """Count a request that was answered, and what it used."""
        counts, vitals, usage, at = self._counts, self._vitals, event.usage, event.at
        agent.last_seen, agent.answered_at, agent.kept = at, at, None
        agent.finished += 1
        agent.served_s += event.duration_s or 0.0
        counts.finished += 1
        if usage is None:
            vitals.finished(at, 0)
        else:  # as `_used` does, without its calls, as this is the frequent case
            tokens = usage.total
            vitals.finished(at, tokens)
            counts.usage += usage
            agent.used(usage, tokens, vitals.number)
            self._costs.note(at, agent, provider, event.model, usage)

    def _answered_whole(self, event: ev.AnsweredWhole) -> bool:
        arrived = self._begun.pop(event.ticket, None)
        if arrived is None:
            self._first_content(event)
            return self._finished(event)
        at, ttft_s, usage = event.at, event.ttft_s, event.usage
        agent, provider = self._agents[arrived.agent], self._open.providers.get(event.lane, "")
        agent.ttft_s = ttft_s
        self._usual.began(arrived, ttft_s if arrived.stream else at - arrived.at)
        self._vitals.first_content(at, ttft_s)
        self._answers(event, agent, provider)
        if usage is not None and (caching := CACHING.get(provider)) is not None:
            agent.cached(caching, usage, at)
        self._log.answered(arrived, event, provider)
        return False

    def _abandoned(self, event: ev.Abandoned) -> bool:
        """Return whether it is worth a line: that of a command says how many connections a stop cut."""
        self._counts.left += 1
        self._vitals.ended(event.at, failed=False)
        ticket = self._open.ended(event)
        if event.usage is not None:
            self._counts.wasted += event.usage
            model = "" if ticket is None else ticket.arrived.model
            self._used(event, self._agent(event.agent, event.at), model, event.usage)
        if ticket is not None:
            if self._agents[ticket.arrived.agent].stopped:
                ticket.state = "stopped"
            self._over(ticket)
        return event.agent not in self._agents or not self._agents[event.agent].stopped

    def _refused(self, event: ev.Refused) -> None:
        self._counts.refused += 1
        self._vitals.ended(event.at, failed=True)
        agent = self._agent(event.agent, event.at)
        agent.changed(event)
        before = self._open.in_flight
        ticket = self._open.ended(event)
        if ticket is not None and event.reason == STOPPED:
            ticket.state = "stopped"
            agent.cut_off(event.at, in_flight=self._open.in_flight < before)
        self._over(ticket)

    def _used(self, event: ev.TicketEvent, agent: AgentFold, model: str, usage: Usage) -> None:
        tokens = usage.total
        self._vitals.used(event.at, tokens)
        agent.used(usage, tokens, self._vitals.number)
        self._costs.note(event.at, agent, self._open.providers.get(event.lane, ""), model, usage)

    def _over(self, ticket: TicketFold | None) -> None:
        if ticket is not None:
            agent = self._agents[ticket.arrived.agent]
            agent.tickets.pop(ticket.arrived.ticket, None)
            agent.kept = None
            self._log.over(ticket)

    def _agent_changed(self, event: ev.AgentBegan | ev.AgentEnded | ev.AgentRecalled | ev.BoostEnded) -> None:
        self._agent(event.agent, event.at).changed(event)

    def _sampled(self, event: ev.Sampled) -> None:
        self._curves.hold(event.at)
        if event.partial:
            news, passed_s = {state.lane: state for state in event.lanes}, event.at - self._queue.at
            known = {name: news.get(name) or aged(state, passed_s) for name, state in self._lanes.items()} | news
            event = structs.replace(event, lanes=tuple(known.values()))
        self._lanes = {state.lane: state for state in event.lanes}
        self._gauge_changes.clear()
        self._open.providers = {state.lane: state.provider for state in event.lanes}
        self._curves.sampled(event)
        self._budgets.sampled(event.budgets, self._agents, partial=event.partial)
        self._catch_up(event.at)
        self._queue.sampled(event.at, event.lanes, self._tickets)
        self._costs.settle(self._price)
        self._work = event.work
        self._slow.sampled(event.at, event.lanes)

    def _level_changed(self, event: ev.LevelChanged) -> None:
        self._curves.level_changed(event)
        self._slow.level_changed(event.lane, event.cause)
        self._gauge_changes.setdefault(event.lane, {})["level"] = event.level

    def _circuit_changed(self, event: ev.CircuitChanged) -> None:
        if event.family is None:
            reopens_at = None if event.reopens_in_s is None else event.at + event.reopens_in_s
            self._gauge_changes.setdefault(event.lane, {}).update(circuit=event.state, circuit_reopens_in_s=reopens_at)

    def _rate_limited(self, event: ev.LaneRateLimited | ev.LaneReleased) -> None:
        if event.family is None:
            for_s = event.for_s if isinstance(event, ev.LaneRateLimited) else 0.0
            self._gauge_changes.setdefault(event.lane, {})["rate_limited_for_s"] = event.at + for_s

    def _lane_at(self, state: LaneState, at: float) -> LaneState:
        """Return a lane as last sampled, with what events have changed since: a recording is looked at right after
        them."""
        passed_s = at - self._queue.at
        if passed_s >= _CURRENT_S:
            state = aged(state, passed_s)
        changes = dict(self._gauge_changes.get(state.lane, ()))
        for countdown in ("circuit_reopens_in_s", "rate_limited_for_s"):
            if changes.get(countdown) is not None:
                changes[countdown] = max(0.0, changes[countdown] - at)
        return replace(state, **changes) if changes else state

    def _task_changed(self, event: ev.TaskChanged) -> bool:
        changed = self._tasks.changed(event)
        self._vitals.tasks(event.at, self._tasks.done)
        return changed

    def _task_forgotten(self, event: ev.TaskForgotten) -> None:
        self._tasks.forgotten(event)
        self._vitals.tasks(event.at, self._tasks.done)

    def _alarm(self, event: ev.InvariantBroken) -> None:
        about = event.rule, event.lane, event.agent
        if event.over:
            self._alarms.pop(about, None)
        else:
            self._alarms[about] = Alarm(*about, event.text, event.at)

    def traffic(self, name: str, client: str = "") -> tuple[int, tuple[str, ...]]:
        """Return the requests since an agent's process began, of it and the agents below it, and the names of agents
        without a process of which that client (empty: any known one) sent requests meanwhile, the latest first."""
        self._apply_pending()
        run = self._agents.get(name)
        if run is None:
            return 0, ()
        sent, elsewhere = 0, list[AgentFold]()
        for agent in self._agents.values():
            if not agent.requests or agent.last_seen < run.began_at:
                continue
            line = self._line(agent)
            if run in line:
                sent += agent.requests - agent.requests_before
            elif len(line) == 1 and agent.client and client in ("", agent.client):
                ran = agent.ran or agent.running or agent.exit_code is not None
                elsewhere += [] if ran or agent.last_seen == run.began_at else [agent]  # uvloop counts milliseconds
        elsewhere.sort(key=lambda agent: -agent.last_seen)
        return sent, tuple(agent.name for agent in elsewhere[:ELSEWHERE_MOST])

    def _line(self, agent: AgentFold) -> list[AgentFold]:
        """Return the agent, the one that started it, and so on."""
        line = [agent]
        while len(line) < _DEEPEST and (above := self._agents.get(line[-1].parent or "")) is not None:
            line.append(above)
        return line

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What is broken now, that found first first."""
        return tuple(self._alarms.values())

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Those that hold or aren't acknowledged, that raised last first."""
        return self._alerts.alerts

    def _catch_up(self, at: float) -> None:
        self._apply_pending()
        for ticket in self._open.requeue_due(at):
            self._agents[ticket.arrived.agent].kept = None
            self._changed[ticket.arrived.ticket] = ticket

    def _commanded(self, event: ev.Commanded) -> str:
        """Carry out a command. Return the value before, for its line in the log."""
        about = event.arguments
        self._curves.commanded(event, self._lanes)
        if event.name == "SetBudget" and about["agent"] is None:
            return ceiling_before(self._budgets.pool, about)
        if event.name in SHOWN_BY_EVENTS:
            return ""
        if isinstance(about.get("agent"), str):  # of an unknown command it may be anything
            agent = self._agent(about["agent"], event.at)
            before = agent.commanded(event)
            self._changed.update(agent.tickets)
            return before
        if event.name == "PauseAdmissions":
            self._paused = about["paused"]
        elif event.name == "Acknowledge":
            self._alerts.acknowledged(event.who, about.get("about"), about.get("rule"))
        elif event.name == "Drain":
            self._drained = about["draining"]
        elif event.name == "Tune":
            return self._knob(about["knob"], about.get("upstream"))
        elif event.name == "SetTaskPriority":
            return self._tasks.reprioritised(about["task"], Priority[about["priority"].upper()])
        return ""

    def _knob(self, knob: str, upstream: str | None) -> str:
        """Return the knob's value before, if all lanes agreed on it."""
        lanes = [state for state in self._lanes.values() if upstream is None or state.upstream == upstream]
        values = {state.knobs.get(knob) for state in lanes}
        value = values.pop() if len(values) == 1 else None
        return "" if value is None else knob_value(knob, value)

    # --- The views -----------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Show from now on that the proxy shuts down."""
        self._ending = True

    def price_by(self, price: Price) -> None:
        """Use these prices from now on, also for earlier usage."""
        self._apply_pending()
        self._price = price
        self._log.reconsider_all()

    @property
    def mode(self) -> str:
        """`serving`, `paused` or `draining`."""
        if self._ending or self._drained:
            return "draining"
        return "paused" if self._paused else "serving"

    def uptime_s(self, at: float) -> float:
        """Return how long the proxy has been up at this moment."""
        return at - self._started_at

    def gauges(self) -> tuple[int, int, float]:
        """Return the requests in flight, those that wait, and the level of all lanes together; a lane without a limit
        counts with its requests in flight."""
        self._apply_pending()
        levels = [lane.active if math.isinf(lane.level) else lane.level for lane in self._lanes.values()]
        return self._open.in_flight, self._open.waiting, float(sum(levels))

    def keep(self, at: float) -> WorldState:
        """Return the state at this moment, which is not before the last event's."""
        return self.take(at).state()

    def take(self, at: float) -> Capture:
        """Capture the state at this moment, in little time."""
        self._apply_pending()
        self._curves.hold(at)
        self._costs.settle(self._price)
        rest = WorldState(
            at=at,
            started_at=self._started_at,
            paused=self._paused,
            drained=self._drained,
            ending=self._ending,
            agents=(),
            tickets=tuple([ticket.captured() for ticket in self._tickets.values()]),
            lanes=tuple(self._lanes.values()),
            sampled_at=self._queue.at,
            providers=tuple(self._open.providers.items()),
            curves=tuple([(lane, tuple(points)) for lane, points in self._curves.points.items()]),
            marks=tuple(self._curves.marks.items()),
            levels=tuple(self._curves.levels.items()),
            cuts=tuple(self._curves.cuts.items()),
            pool=self._budgets.pool,
            spent=tuple(self._budgets.exhausted.items()),
            tasks=(),
            numbered=self._tasks.numbered,
            lines=tuple(self._lines),
            counts=replace(self._counts),
            alarms=tuple(self._alarms.values()),
            notices=tuple(self._notices),
            vitals=copied(self._vitals),
            slow=self._slow.state(),
            alerts=self.alerts,
            models=self._costs.models,
        )
        return Capture(
            rest, list(chain.from_iterable(map(agent_values, self._agents.values()))), self._tasks.take(self._agents)
        )

    def snapshot(self, at: float, *, newest: int | None = None) -> Snapshot:
        """Return the view at this moment, which is not before the last event's. `newest`: only with such slots and
        agents that an alert or the verdict may be about, so many agents that were seen last, and so many of those with
        a budget. With 0, which takes a tenth of the time, nothing is judged, foreseen, or counted as left out."""
        self._catch_up(at)
        self._curves.hold(at)
        self._costs.settle(self._price)
        mode = self.mode
        tickets = self._tickets.values()
        waiting = [ticket for ticket in tickets if not ticket.in_flight]
        slow_s = list(self._note_hung(at))
        shown = self._queue.in_order(waiting, QUEUE_SHOWN)
        lanes = tuple(self._lane_views(at))
        counts = self._tasks.counts()
        limit = tokens_limit(lane.state for lane in lanes)
        waits_s = [ticket.waiting_s(at) for ticket in waiting]
        queue = tuple(self._waiting_views(shown, at, mode, lanes))
        paced_s = {each.agent: each.gate_opens_in_s or 0.0 for each in queue if each.gate == "pace"}
        named = self._agents.keys() if newest is None else self._notable(waiting, newest)
        agents = self._notable_views(at, paced_s, named) if newest == 0 else self._agent_views(at, paced_s, named)
        left_out = [view for name, view in agents.items() if name not in named]
        snapshot = Snapshot(
            at=at,
            wall=at + self.wall_offset,
            uptime_s=self.uptime_s(at),
            mode=mode,
            address=self.address,
            upstreams=self._upstreams,
            lanes=lanes,
            slots=tuple([each.ticket_view(at) for each in tickets if each.hung or (newest is None and each.in_flight)]),
            queue=queue,
            queued=len(waiting),
            agents=tuple([view for name, view in agents.items() if name in named]),
            left_out=Counter([view.state for view in left_out]),
            left_out_running=[view.running for view in left_out].count(True),
            lines=tuple(self._lines),
            totals=self._totals(),
            pool=self._budgets.pool,
            tasks=self._tasks.views(at),
            task_counts=counts,
            alarms=self.alarms,
            notices=tuple(self._notices),
            vitals=self._vitals.view(at, self._started_at, counts, limit, waits_s, slow_s),
            alerts=self.alerts,
            models=self._costs.models,
            alert_limits=self._alert_limits,
            work=tuple([replace(each, oldest_s=each.oldest_s + at - self._queue.at) for each in self._work]),
            waits=self._slow.view(),
        )
        return snapshot if newest == 0 else judged(foreseen(snapshot))

    def _notable(self, waiting: Sequence[TicketFold], newest: int) -> set[str]:
        """Return the agents that an alert or the verdict may be about (they died, wait, were refused, or used much of a
        budget of theirs), and so many of all, and of those with a budget, that were seen last."""
        share, agents = LOWER * self._alert_limits.budget_share, self._agents.values()
        names = {each.name for each in agents if each.trouble or each.refused_at > each.answered_at}
        names |= {ticket.arrived.agent for ticket in waiting}
        names |= {name for name, used in self._budgets.shares.items() if name in self._agents and used >= share}
        for those in (agents, self._budgets.limited):
            by_age = sorted(those, key=attrgetter("last_seen"), reverse=True)
            names |= {each.name for each in by_age[:newest]}
        return names

    def _notable_views(self, at: float, paced_s: Mapping[str, float], names: Container[str]) -> dict[str, AgentView]:
        """Return the views of these agents; none counts as ended."""
        views = {}
        for name, agent in self._agents.items():
            if name in names:
                spent = self._budgets.spent(agent, self._agents)
                views[name] = agent.view(at, self._tasks.of(name), spent=spent, paced_s=paced_s.get(name, 0.0))
        return views

    def _note_hung(self, at: float) -> Iterator[float]:
        """Note which requests are hung. Yield how long those of them that have no content were sent ago."""
        for ticket in self._tickets.values():
            if at - ticket.heard_at <= LEAST_S and not ticket.hung:
                continue  # as nearly all
            # Work in the background is silent between two polls.
            silent_s = at - ticket.heard_at if ticket.in_flight and ticket.state != "background" else 0.0
            hung = silent_s > LEAST_S and silent_s > self._usual.hung_after_s(
                ticket, unlimited=not self._has_limits(ticket.arrived.lane)
            )
            if hung != ticket.hung:
                ticket.hung, self._agents[ticket.arrived.agent].kept = hung, None
                self._changed[ticket.arrived.ticket] = ticket
            if ticket.hung and ticket.state == "waiting":
                yield at - ticket.since

    def _has_limits(self, lane: str) -> bool:
        state = self._lanes.get(lane)
        return state is None or bool(state.windows)

    def _lane_views(self, at: float) -> Iterator[LaneView]:
        """Yield the lanes with their open requests as of now; the tickets show these too."""
        tickets = self._open.by_ticket.values()
        count = Counter([(ticket.arrived.lane, ticket.in_flight or ticket.state) for ticket in tickets])
        for key, state in self._lanes.items():
            state = self._lane_at(state, at)
            counts = count[key, True], count[key, "queued"], count[key, "retry"]
            if counts != (state.active, state.waiting, state.retrying):
                state = replace(state, active=counts[0], waiting=counts[1], retrying=counts[2])
            yield LaneView(state, tuple(self._curves.points.get(key, ())))

    def _waiting_views(
        self, shown: Iterable[TicketFold], at: float, mode: str, lanes: Iterable[LaneView]
    ) -> Iterator[TicketView]:
        """Yield the tickets of the queue with what holds them, and their places among those of their lanes."""
        open_circuits = {lane.state.lane: lane.state for lane in lanes if lane.state.circuit == "open"}
        places = Counter[str]()
        for ticket in shown:
            lane, paused = ticket.arrived.lane, self._agents[ticket.arrived.agent].held
            circuit, place = open_circuits.get(lane), places[lane] + 1
            held = self._queue.holding(ticket, at, mode, place, paused=paused, circuit=circuit)
            places[lane] += held[2] is not None
            yield ticket.ticket_view(at, held)

    def _agent_views(self, at: float, paced_s: Mapping[str, float], shown: Container[str]) -> dict[str, AgentView]:
        """Return the views of all agents, made anew of those in which more than times may have changed. Of those that
        aren't shown the times may be earlier ones."""
        agents, task_of = self._agents, self._tasks.of
        ended, spent, tasks = over(agents, at), self._budgets.all_spent(agents), self._tasks.by_agent()
        viewed_at, ended_before, spent_before, tasks_before = self._views_by
        self._views_by = at, ended, spent, tasks
        changed = (ended ^ ended_before) | (spent ^ spent_before) | {name for name, _ in tasks ^ tasks_before}
        for name in (changed | paced_s.keys()) & agents.keys() if at >= viewed_at else agents:
            agents[name].kept = None
        views = {}
        for name, agent in agents.items():
            if (view := agent.kept) is None:
                paced = paced_s.get(name, 0.0)
                view = agent.view(at, task_of(name), spent=name in spent, over=name in ended, paced_s=paced)
                agent.keep(view, at)
            elif name in shown:
                view = agent.aged(view, at)
            views[name] = view
        return views

    def requests(self, since: int, at: float) -> Requests:
        """Return the requests that changed after that revision; see :meth:`.request_log.RequestLog.since`."""
        self._catch_up(at)
        return self._log.since(since, self._price)

    def detail(self, ticket: int, at: float) -> RequestDetail | None:
        """Return everything known about one request; None if it is forgotten."""
        self._catch_up(at)
        return self._log.detail(ticket, self._price)

    def _totals(self) -> Totals:
        counts = self._counts
        return Totals(
            *_tally(counts),
            abandoned=counts.left,
            wasted=counts.wasted,
            agents_recovered=counts.agents_recovered,
            tokens_saved=counts.recovered_tokens,
            unpriced=counts.usage.total + counts.wasted.total - counts.priced,
        )


def _noop(_: object) -> None:
    pass
