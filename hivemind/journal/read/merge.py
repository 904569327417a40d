"""Several proxies' journals as one run: put on one clock by the time of day, lanes joined by upstream and credential.

Of each journal the order of events is kept. Tickets are renumbered, and tasks of all but the first proxy get names of
their own, because each proxy numbers and names its own. Agents keep their names: one that used two proxies is one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from msgspec import structs

from hivemind.journal.records import Gap, JournalBegan
from hivemind.records import names_of, replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.wire.fleet_lanes import place_on
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import AttemptState, Carried, OpenTicket, WorldState

_NAMED = 3
"""Journals named in the name of the whole."""
_TIME_DIGITS = 6
"""Times of day have no more decimals, as numbers of seconds since the epoch."""
_FOLLOWS = frozenset({"upstream", "provider", "rpm_binding", "tpm_binding"})
"""What follows from other settings of a lane."""
_TICKET_FIELDS = tuple(each.name for each in fields(OpenTicket))
_TASK_NAMES = ("task", "batch")
Numbered = tuple[int, ev.Event]
"""An event, and of which journal it is."""


class Merge:
    """Merges the events of journals that begin with these lines, each of another proxy."""

    def __init__(self, began: Sequence[JournalBegan]) -> None:
        first = min(range(len(began)), key=lambda index: began[index].wall)
        self._zero = _offset(began[first])
        upstreams = _merged_upstreams(began)
        self.shared = all(each.fleet for each in began)
        """The proxies shared their keys when this was recorded."""
        self._sources = [
            _Source(index, len(began), round(_offset(each) - self._zero, _TIME_DIGITS), names)
            for index, (each, (names, _)) in enumerate(zip(began, upstreams, strict=True))
        ]
        self.began = structs.replace(
            began[first],
            journal=_joined([each.journal for each in began]),
            part=1,
            upstreams=tuple(dict.fromkeys(pair for _, pairs in upstreams for pair in pairs)),
            bodies=any(each.bodies for each in began),
            source=next((each.source for each in began if each.foreign), began[first].source),
            fleet=any(each.fleet for each in began),
        )
        self.first = first
        """The journal that began first, whose clock and settings are taken."""
        self.ended: list[float | None] = [None] * len(began)
        """When the last event of each was, on the clock of the whole; None: none came."""
        self.lanes: list[dict[str, None]] = [{} for _ in began]
        """By journal, the lanes in which requests were, named as in the whole."""
        self.differing: dict[str, None] = {}
        """Settings in which the proxies differed."""
        for each in began:
            self.differing.update(dict.fromkeys(_differing(began[first].config, each.config)))
        self._configs: dict[str, LaneConfig] = {}
        self._gauges: dict[str, dict[int, ev.LaneState]] = {}
        """By lane, how it stands at each proxy."""
        self._levels: dict[str, dict[int, float]] = {}
        self._slots: dict[str, dict[int, float]] = {}
        """By lane, what each proxy is leased."""
        self._open = OpenRequests(Lifecycle)
        self._special: Mapping[type[ev.Event], Callable[[_Source, Any], ev.Event]] = {
            ev.LaneOpened: self._lane_opened,
            ev.LevelChanged: self._level_changed,
            ev.LeaseChanged: self._lease_changed,
            ev.Sampled: self._sampled,
            Carried: self._carried,
        }

    def began_at(self, index: int, began: JournalBegan) -> float:
        """Return when a journal began, on the clock of the whole."""
        return began.at + self._sources[index].shift_s

    def events(self, streams: Sequence[Iterable[ev.Event]]) -> Iterator[Numbered]:
        """Yield the events of all journals in order of time, each with the index of its journal.

        Holds one event of each, and the open requests.
        """
        moved = [self._moved(source, stream) for source, stream in zip(self._sources, streams, strict=True)]
        special, track = self._special, self._open
        for index, event in heapq.merge(*moved, key=lambda numbered: _at(numbered[1])):
            make = special.get(type(event))
            if make is not None:
                event = make(self._sources[index], event)
            track.apply(event)
            if type(event) is ev.Arrived:
                self.lanes[index][event.lane] = None
            yield index, event

    def unshared(self) -> list[int]:
        """Return the journals of whose lanes no other journal has one."""
        return [
            index
            for index, mine in enumerate(self.lanes)
            if not any(mine.keys() & other.keys() for at, other in enumerate(self.lanes) if at != index)
        ]

    def _moved(self, source: _Source, stream: Iterable[ev.Event]) -> Iterator[Numbered]:
        """Put the events of one journal on the common clock, and rename what is in them."""
        index, renamed = source.index, source.renamed
        for event in stream:
            event = renamed(event)
            self.ended[index] = event.at
            yield index, event
        for gauges in (self._gauges, self._levels, self._slots):
            for by_source in gauges.values():
                by_source.pop(index, None)

    # --- What is said of a lane by several proxies ------------------------------------------------------------------

    def _lane_opened(self, source: _Source, event: ev.LaneOpened) -> ev.Event:
        before, config = self._configs.get(event.lane), event.config
        if config is None:
            return event
        if before is not None:
            self.differing.update(dict.fromkeys(_differing(before, config)))
            config = strictest(before, config)
        self._configs[event.lane] = config
        return structs.replace(event, config=config)

    def _level_changed(self, source: _Source, event: ev.LevelChanged) -> ev.Event:
        levels = self._levels.setdefault(event.lane, {})
        levels[source.index] = event.level
        return structs.replace(event, level=self._together(levels.values()))

    def _lease_changed(self, source: _Source, event: ev.LeaseChanged) -> ev.Event:
        slots = self._slots.setdefault(event.lane, {})
        slots[source.index] = event.slots
        return structs.replace(event, slots=sum(slots.values()))

    def _sampled(self, source: _Source, event: ev.Sampled) -> ev.Event:
        if not event.partial:
            for gone in self._gauges.keys() - {state.lane for state in event.lanes}:
                self._gauges[gone].pop(source.index, None)
                self._levels.get(gone, {}).pop(source.index, None)
        for state in event.lanes:
            self._gauges.setdefault(state.lane, {})[source.index] = state
            self._levels.setdefault(state.lane, {})[source.index] = state.level
        # The others' lanes go on, which a sample of all lanes has to name.
        named = [state.lane for state in event.lanes] if event.partial else [*self._gauges]
        lanes = [self._sum(source.index, here) for lane in named if (here := self._gauges[lane])]
        return structs.replace(event, lanes=tuple(lanes))

    def _together(self, levels: Collection[float]) -> float:
        """Return the level of all proxies: one that they share, or what each may have in flight."""
        return max(levels) if self.shared else sum(levels)

    def _sum(self, index: int, by_source: Mapping[int, ev.LaneState]) -> ev.LaneState:
        """Return a lane's gauges of all proxies, the rest as at that one if it has the lane."""
        states = tuple(by_source.values())
        if len(states) == 1:
            return states[0]
        windows: dict[tuple[str, object], ev.WindowState] = {}
        for window in (window for each in states for window in each.windows):
            key = window.family, window.kind
            before = windows.get(key)
            if before is not None:
                known_of_all = before.used_here is not None and window.used_here is not None
                window = replace(
                    before,
                    used=max(before.used, window.used) if known_of_all else before.used + window.used,
                    reserved=before.reserved + window.reserved,
                    remaining=min(before.remaining, window.remaining),
                )
            windows[key] = window
        return replace(
            by_source.get(index, states[-1]),
            active=sum(each.active for each in states),
            waiting=sum(each.waiting for each in states),
            retrying=sum(each.retrying for each in states),
            level=self._together([each.level for each in states]),
            windows=tuple(windows.values()),
            lease=_sum_of_leases([each.lease for each in states]),
        )

    def _carried(self, source: _Source, event: Carried) -> ev.Event:
        """Add what is open at the others to one proxy's state, because folds take that for all that is open."""
        others = [
            _standing(request)
            for ticket, request in self._open.by_ticket.items()
            if ticket % source.count != source.index
        ]
        own = event.state
        for ticket in own.tickets:
            self.lanes[source.index][ticket.arrived.lane] = None
        merged = Carried(event.at, replace(own, tickets=(*own.tickets, *others)))
        self._open.carried(merged)
        return merged


def _sum_of_leases(leases: Sequence[ev.LeaseGauges | None]) -> ev.LeaseGauges | None:
    """Return what several proxies are leased together; None: one of them is in no fleet."""
    found = [each for each in leases if each is not None]
    return replace(found[-1], slots=sum(each.slots for each in found)) if len(found) == len(leases) else None


class _Source:
    """How the names and times of one journal become those of the whole."""

    def __init__(self, index: int, count: int, shift_s: float, upstreams: Mapping[str, str]) -> None:
        self.index = index
        self.count = count
        """Of all journals."""
        self.shift_s = shift_s
        self._upstreams = upstreams
        """New names of upstreams, by those in the journal; others keep theirs."""
        self._lanes: dict[str, str] = {}
        self._special: Mapping[type[ev.Event], Callable[[Any], dict[str, Any]]] = {
            ev.LaneOpened: self._opened,
            ev.Sampled: lambda event: {"lanes": tuple(map(self._gauges, event.lanes))},
            ev.Commanded: lambda event: {"arguments": self._arguments(event.arguments)},
            ev.TaskAdded: lambda event: {
                "task": self._task(event.task),
                "batch": self._task(event.batch),
                "after": tuple(map(self._task, event.after)),
            },
            ev.TaskChanged: lambda event: {"task": self._task(event.task)},
            ev.TaskForgotten: lambda event: {"task": self._task(event.task)},
            ev.AgentBegan: lambda event: {"task": event.task and self._task(event.task)},
            Gap: lambda event: {"since": event.since + shift_s},
            Carried: lambda event: {"state": self._state(event.state)},
        }

    def renamed(self, event: ev.Event) -> Any:
        """Return an event with the times and names of the whole."""
        changes: dict[str, Any] = {"at": event.at + self.shift_s} if self.shift_s else {}
        ticket = getattr(event, "ticket", None)
        if ticket is not None:
            changes["ticket"] = ticket * self.count + self.index
        if self._upstreams and (lane := getattr(event, "lane", None)):
            changes["lane"] = self._lane(lane)
        special = self._special.get(type(event))
        if special is not None:
            changes.update(special(event))
        return structs.replace(event, **changes) if changes else event

    def _lane(self, lane: str) -> str:
        found = self._lanes.get(lane)
        if found is None:
            upstream, colon, credential = lane.rpartition(":")
            found = self._lanes[lane] = f"{self._upstreams.get(upstream, upstream)}{colon}{credential}"
        return found

    def _upstream(self, name: str) -> str:
        return self._upstreams.get(name, name)

    def _task(self, name: str) -> str:
        return f"{name}.{self.index + 1}" if self.index and name else name

    def _opened(self, event: ev.LaneOpened) -> dict[str, Any]:
        upstream = self._upstream(event.upstream)
        return {"upstream": upstream, "config": event.config and replace(event.config, upstream=upstream)}

    def _gauges(self, state: ev.LaneState) -> ev.LaneState:
        return replace(state, lane=self._lane(state.lane), upstream=self._upstream(state.upstream))

    def _arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        changed = dict(arguments)
        tasks, places = dict.fromkeys(_TASK_NAMES, self._task), {"lane": self._lane, "upstream": self._upstream}
        for name, rename in (tasks | places).items():
            if isinstance(value := changed.get(name), str):
                changed[name] = rename(value)
        if isinstance(named := changed.get("tasks"), list):
            changed["tasks"] = [self._task(each) if isinstance(each, str) else each for each in named]
        return changed

    def _state(self, state: WorldState) -> WorldState:
        """Return what folds over several proxies need of a state."""
        shift_s = self.shift_s
        return replace(
            state,
            at=state.at + shift_s,
            started_at=state.started_at + shift_s,
            sampled_at=state.sampled_at + shift_s,
            tickets=tuple(map(self._ticket, state.tickets)),
            lanes=tuple(map(self._gauges, state.lanes)),
            providers=tuple((self._lane(lane), provider) for lane, provider in state.providers),
            curves=(),
            marks=(),
            spent=(),
            tasks=(),
            lines=(),
            alarms=(),
            vitals=None,
            models=(),
        )

    def _ticket(self, ticket: OpenTicket) -> OpenTicket:
        shift_s = self.shift_s
        return replace(
            ticket,
            arrived=self.renamed(ticket.arrived),
            since=ticket.since + shift_s,
            retry_at=None if ticket.retry_at is None else ticket.retry_at + shift_s,
            attempts=[
                AttemptState(
                    self.renamed(each.granted),
                    None if each.first_content_at is None else each.first_content_at + shift_s,
                    None if each.ended_at is None else each.ended_at + shift_s,
                    None if each.failed is None else self.renamed(each.failed),
                )
                for each in ticket.attempts
            ],
            notes=[(at + shift_s, what, numbers) for at, what, numbers in ticket.notes],
        )


def _standing(request: Lifecycle) -> OpenTicket:
    """Return how a request stands at this moment."""
    ticket = OpenTicket(*(getattr(request, name) for name in _TICKET_FIELDS))
    ticket.attempts = [
        AttemptState(each.granted, each.first_content_at, each.ended_at, each.failed) for each in request.attempts
    ]
    ticket.notes = list(request.notes)
    return ticket


def strictest(one: LaneConfig, other: LaneConfig) -> LaneConfig:
    """Return what holds for a lane that two proxies share: of each limit the smallest, one that was set before one that
    was assumed; of all else what the first proxy has."""
    rpm, rpm_binding = _smallest_limit((one.rpm, one.rpm_binding), (other.rpm, other.rpm_binding))
    tpm, tpm_binding = _smallest_limit((one.tpm, one.tpm_binding), (other.tpm, other.tpm_binding))
    return replace(
        one,
        max_concurrency=_smallest(one.max_concurrency, other.max_concurrency),
        max_concurrency_per_upstream=_smallest(one.max_concurrency_per_upstream, other.max_concurrency_per_upstream),
        rpm=rpm,
        rpm_binding=rpm_binding,
        tpm=tpm,
        tpm_binding=tpm_binding,
    )


def _smallest(*limits: int) -> int:
    """Return the smallest limit; 0 is none."""
    return min((each for each in limits if each), default=0)


def _smallest_limit(*limits: tuple[int, bool]) -> tuple[int, bool]:
    set_by_user = [limit for limit, binding in limits if binding]
    return _smallest(*(set_by_user or [limit for limit, _ in limits])), bool(set_by_user)


def _differing(one: Any, other: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of what differs between two configurations."""
    for name in names_of(type(one)) or ():
        value, different = getattr(one, name), getattr(other, name)
        if value == different or name in _FOLLOWS:
            continue
        if names_of(type(value)) is None:
            yield f"{prefix}{name}"
        else:
            yield from _differing(value, different, f"{prefix}{name}.")


def _merged_upstreams(began: Sequence[JournalBegan]) -> list[tuple[dict[str, str], list[tuple[str, str]]]]:
    """Return by journal the new names of upstreams whose names change, and all upstreams by their new names.

    Upstreams are one where a fleet takes them for one: at the same place, whatever they are called.
    """
    urls: dict[str, str] = {}
    found = []
    for number, each in enumerate(began, 1):
        own = dict(each.upstreams)
        names: dict[str, str] = {}
        for name, url in own.items():
            place = _place(url, each.machine)
            known = urls.get(name)
            alias = next((at for at, other in urls.items() if other == place and at not in own), None)
            if known == place or (known is None and alias is None):
                urls[name] = place
            elif alias is not None and alias not in names.values():
                names[name] = alias
            else:
                names[name] = f"{name}@{number}"
                urls[names[name]] = place
        found.append((names, [(names.get(name, name), url) for name, url in own.items()]))
    return found


def _place(url: str, machine: str) -> str:
    try:
        return place_on(url, machine)
    except ValueError:
        return url  # no URL: the journal is damaged


def _joined(names: Sequence[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return " + ".join([*names[:_NAMED], *more])


def _offset(began: JournalBegan) -> float:
    """Return what added to a time of a journal is the time of day."""
    return began.wall - began.at


_at: Callable[[ev.Event], float] = attrgetter("at")
