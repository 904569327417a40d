"""The last part of a long recording: what a simulation takes of a journal of gigabytes.

What was open where the part begins is carried into it, with the lanes and with those commands that still held. Of a
trace that is in memory, parts between two times are drawn, or held out, by copying (:func:`sliced`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, structs

from hivemind.journal.read.merge import Numbered
from hivemind.journal.read.several import Journals
from hivemind.journal.records import JournalBegan
from hivemind.lab.trace.steps import CommandStep, RequestStep, TraceStep
from hivemind.lab.trace.trace import Trace
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.events import Event
from hivemind.world.lifecycle import OpenRequests
from hivemind.world.state import Carried, Counts, WorldState
from hivemind.world.tickets import TicketFold

MOST_REQUESTS = 20_000
"""Requests of the part. So many say more of a provider than its settings stay the same for, and are simulated in
seconds."""
LASTING: dict[str, tuple[str, ...]] = {
    "Tune": ("knob", "upstream"),
    "PinLevel": ("lane",),
    "SetCircuit": ("lane",),
    "SetPriority": ("agent",),
    "SetBudget": ("agent",),
    "PauseAgent": ("agent",),
    "StopAgent": ("agent",),
    "PauseAdmissions": (),
    "Drain": (),
}
"""Commands that hold until another one of the same name about the same thing, and what names the thing."""

_LaneChanged = ev.LevelChanged | ev.CircuitChanged | ev.LeaseChanged
"""Of each kind, a lane's last one holds."""


class TracePart(Struct, frozen=True):
    """Some of the events of journals."""

    began: JournalBegan
    """As if the journal had begun here."""
    events: Iterator[Numbered]
    requests: int
    """Of the whole recording; 0: the part is all of it."""


def last_part(journals: Journals, without: frozenset[type[Event]], most: int = MOST_REQUESTS) -> TracePart:
    """Return the events from the moment on after which no more than `most` requests come.

    Raises: UsageError: a journal can't be read.
    """
    requests = journals.requests()
    events = journals.events(without)
    if requests <= most:
        return TracePart(journals.began, events, 0)
    before = _Before(len(journals.each))
    left_out = requests - most
    for proxy, event in events:
        if type(event) is ev.Arrived and (left_out := left_out - 1) < 0:
            began = structs.replace(
                journals.began, at=event.at, wall=journals.began.wall + event.at - journals.began.at
            )
            return TracePart(began, _joined(before.carried(event.at), (proxy, event), events), requests)
        before.apply(proxy, event)
    return TracePart(journals.began, iter(()), requests)


def _joined(carried: Iterator[Numbered], first: Numbered, rest: Iterator[Numbered]) -> Iterator[Numbered]:
    yield from carried
    yield first
    yield from rest


class _Before:
    """What holds on from before the part."""

    def __init__(self, proxies: int) -> None:
        self._open = [OpenRequests(TicketFold) for _ in range(proxies)]
        self._lanes: dict[tuple[int, str], ev.LaneOpened] = {}
        self._recalled: dict[tuple[int, str], ev.AgentRecalled] = {}
        self._commands: dict[tuple[Any, ...], tuple[int, ev.Commanded]] = {}
        self._lane_states: dict[tuple[int, str, type[Event]], _LaneChanged] = {}
        self._kinds: dict[type[Event], Callable[[int, Any], object]] = {
            ev.LaneOpened: self._lane_opened,
            ev.AgentRecalled: lambda proxy, event: self._recalled.__setitem__((proxy, event.agent), event),
            ev.Commanded: self._commanded,
            Carried: lambda proxy, event: self._open[proxy].carried(event),
            **dict.fromkeys(_LaneChanged.__args__, self._lane_changed),
        }

    def apply(self, proxy: int, event: Event) -> None:
        """Take the next event."""
        take = self._kinds.get(type(event))
        if take is not None:
            take(proxy, event)
        else:
            self._open[proxy].apply(event)

    def carried(self, at: float) -> Iterator[Numbered]:
        """Yield what still holds at this moment, as events of this moment."""
        for (proxy, _), lane in self._lanes.items():
            yield proxy, structs.replace(lane, at=at)
        tickets = []
        for proxy, each in enumerate(self._open):
            each.requeue_due(at)
            tickets += [request.captured() for request in each.by_ticket.values()]
            yield proxy, Carried(at, _state(at, tuple(tickets), tuple(each.providers.items())))
        for (proxy, *_), changed in self._lane_states.items():
            yield proxy, structs.replace(changed, at=at)
        for (proxy, _), recalled in self._recalled.items():
            yield proxy, structs.replace(recalled, at=at)
        for proxy, command in self._commands.values():
            yield proxy, structs.replace(command, at=at)

    def _lane_opened(self, proxy: int, event: ev.LaneOpened) -> None:
        self._lanes[proxy, event.lane] = event
        self._open[proxy].lane_opened(event)

    def _lane_changed(self, proxy: int, event: _LaneChanged) -> None:
        self._lane_states[proxy, event.lane, type(event)] = event

    def _commanded(self, proxy: int, event: ev.Commanded) -> None:
        about = LASTING.get(event.name)
        if about is not None:
            key = (proxy, event.name, *(str(event.arguments.get(name)) for name in about))
            self._commands.pop(key, None)  # the order is that of the latest ones
            self._commands[key] = proxy, event


def _state(at: float, tickets: tuple[Any, ...], providers: tuple[tuple[str, str], ...]) -> WorldState:
    return WorldState(
        at=at,
        started_at=at,
        paused=False,
        drained=False,
        ending=False,
        agents=(),
        tickets=tickets,
        lanes=(),
        sampled_at=at,
        providers=providers,
        curves=(),
        marks=(),
        pool=None,
        spent=(),
        tasks=(),
        numbered=0,
        lines=(),
        counts=Counts(),
    )


_EARLIER_S = 600.0
"""Attempts so long before a part are known to it; rate windows are shorter, except those of hours and days."""


def sliced(trace: Trace, began_at: float, ended_at: float) -> Trace:
    """Return copies of the requests that came between two times, and of the commands that held then.

    What followed from something outside the part comes at its recorded time.
    """
    made = copy.copy(trace)
    made.began = trace.began_at(began_at)
    made.ends_at = min(trace.ends_at, ended_at)
    twins: dict[TraceStep, TraceStep] = {}
    for step in trace.steps():
        if began_at <= step.at < ended_at:
            twins[step] = _twin(step)
        elif step.at < began_at and isinstance(step, CommandStep) and step.name in LASTING:
            twins[step] = replace(step, at=began_at, after=[], awaits=0)
    for step, twin in twins.items():
        _link(step, twin, twins)
    made.requests = [part for each in trace.requests if isinstance(part := twins.get(each), RequestStep)]
    earlier = [
        (request, one)
        for request in trace.requests
        for one in request.attempts
        if began_at - _EARLIER_S <= one.granted_at < began_at
    ]
    made.earlier = sorted(earlier, key=lambda pair: pair[1].granted_at)
    made.start = []
    for first in twins.values():
        if first.awaits == 0:
            first.awaits = 1
            made.start.append((first.at - began_at, first))
    return made


def _twin(step: TraceStep) -> TraceStep:
    if isinstance(step, RequestStep):
        return replace(step, after=[], concurrent=[], repeats=None, awaits=0)
    assert isinstance(step, CommandStep)
    return replace(step, after=[], awaits=0)


def _link(step: TraceStep, twin: TraceStep, twins: dict[TraceStep, TraceStep]) -> None:
    """Let the twins of what followed from a step follow from its twin."""
    if step.at < twin.at:  # a command from before the part, which holds from its beginning
        return
    for delay_s, after in step.after:
        if after in twins:
            twin.after.append((delay_s, twins[after]))
            twins[after].awaits += 1
    if isinstance(step, RequestStep) and isinstance(twin, RequestStep):
        for delay_s, after in step.concurrent:
            if after in twins:
                twin.concurrent.append((delay_s, twins[after]))
                twins[after].awaits += 1
        again = None if step.repeats is None else twins.get(step.repeats)
        twin.repeats = again if isinstance(again, RequestStep) else None
