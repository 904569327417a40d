"""What samples say of the lanes: their recent concurrency curves, and their queues."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from hivemind.records import replace
from hivemind.scheduler.events import GATES, NO_CUTS, Commanded, Hold, LaneState, LevelChanged, Sampled
from hivemind.world.lines import knob_value
from hivemind.world.snapshot import CurvePoint, TicketView
from hivemind.world.state import WorldState
from hivemind.world.tickets import Held, TicketFold

CURVE_KEPT = 600
"""Points of a lane's curve: ten minutes of them."""
_POINT_S = 1.0
"""Between two points."""


class Curves:
    """The concurrency curve of each lane, with the causes of its cuts; of lanes that the last sample lists."""

    def __init__(self) -> None:
        self.points: dict[str, deque[CurvePoint]] = {}
        """The points of each lane, oldest first."""
        self.marks: dict[str, str] = {}
        """The mark of the next point by lane."""
        self.levels: dict[str, float] = {}
        """The level now by lane, where it is limited."""
        self.cuts: dict[str, tuple[float, float]] = {}
        """By lane, from which level to which one those before the next point have cut it."""

    def restore(self, state: WorldState) -> None:
        """Take over the given state."""
        self.points = {lane: deque(points, maxlen=CURVE_KEPT) for lane, points in state.curves}
        self.marks = dict(state.marks)
        self.levels = dict(state.levels or ((lane.lane, lane.level) for lane in state.lanes))
        self.cuts = dict(state.cuts)

    def level_changed(self, event: LevelChanged) -> None:
        """Mark a cut; growth isn't marked, and an operator's change is marked by its command."""
        before = self.levels.get(event.lane)
        self._note_level(event.lane, event.level)
        if event.cause in NO_CUTS:
            return
        self.marks[event.lane] = event.cause
        if (cut := cut_of(self.cuts.get(event.lane), before, event.level)) is not None:
            self.cuts[event.lane] = cut

    def _note_level(self, lane: str, level: float) -> None:
        if math.isinf(level):
            self.levels.pop(lane, None)
        else:
            self.levels[lane] = level

    def commanded(self, event: Commanded, lanes: Mapping[str, LaneState]) -> None:
        """Mark an operator's change on the lanes that it affects."""
        self.marks.update(marks_of(event, {name: lane.upstream for name, lane in lanes.items()}))

    def hold(self, at: float) -> None:
        """Add the points up to this time that samples would have added which said nothing new."""
        for curve in self.points.values():
            while curve and at - curve[-1].at >= 1.5 * _POINT_S:
                last = curve[-1]
                # After hours without news only the last points stay.
                skipped = max(0, int((at - last.at) / _POINT_S) - CURVE_KEPT - 1) * _POINT_S
                curve.append(replace(last, at=last.at + skipped + _POINT_S, mark="", cut=None))

    def sampled(self, event: Sampled) -> None:
        """Add a point to each lane; within the same second it replaces the last one, unless it has a mark."""
        keys = {state.lane for state in event.lanes}
        for gone in self.points.keys() - keys:
            del self.points[gone]
        for state in event.lanes:
            self._add(event.at, state, self.marks.get(state.lane, ""), self.cuts.get(state.lane))
        self.marks.clear()
        self.cuts.clear()
        self.levels = {state.lane: state.level for state in event.lanes if not math.isinf(state.level)}

    def _add(self, at: float, state: LaneState, mark: str, cut: tuple[float, float] | None) -> None:
        curve = self.points.setdefault(state.lane, deque(maxlen=CURVE_KEPT))
        level = state.level if not math.isinf(state.level) else float(state.active)
        point = CurvePoint(at, level, state.active, state.waiting, state.mean_ttft_s, mark, cut if mark else None)
        if curve and at - curve[-1].at < 0.9 and not mark:
            curve[-1] = replace(point, at=curve[-1].at, mark=curve[-1].mark, cut=curve[-1].cut)
        else:
            curve.append(point)


def cut_of(so_far: tuple[float, float] | None, before: float | None, level: float) -> tuple[float, float] | None:
    """Return from which level to which one lane was cut between two points, with another cut to this level."""
    first = before if so_far is None else so_far[0]
    return so_far if first is None or math.isinf(level) else (first, level)


def marks_of(event: Commanded, upstreams: Mapping[str, str]) -> Mapping[str, str]:
    """Return the mark of an operator's change by the lanes that it affects. `upstreams` has every lane's."""
    about = event.arguments
    if event.name == "Tune":
        of = about.get("upstream")
        touched = [lane for lane, upstream in upstreams.items() if of is None or upstream == of]
        return dict.fromkeys(touched, f"{about['knob']}={knob_value(about['knob'], about['value'])}")
    if event.name == "PinLevel":
        touched = [lane for lane in upstreams if about.get("lane") is None or lane == about["lane"]]
        return dict.fromkeys(touched, "level=auto" if about["level"] is None else f"level={about['level']:g}")
    return dict.fromkeys(upstreams, f"note={about['text']}") if event.name == "AddNote" else {}


_IN_NO_LINE = ("held", "backoff", "first_write")
_BEFORE_CIRCUIT = ("paused", "rate_limited")


def order_of(position: int | None, hold: Hold | TicketView) -> tuple[float, float]:
    """Return the sort key of a waiting ticket with that place in its lane: the ETA, which rises with the place."""
    return math.inf if hold.estimate_s is None else hold.estimate_s, math.inf if position is None else position


class Queue:
    """The next tickets of all lanes."""

    def __init__(self) -> None:
        self.at = 0.0
        """When the last sample was taken."""
        self._holds: dict[int, tuple[int, Hold]] = {}
        """By ticket, how many of its lane went first in the last sample, and what holds it."""

    def sampled(self, at: float, lanes: Iterable[LaneState], tickets: Mapping[int, TicketFold]) -> None:
        """Take over what holds each ticket, and note with these tickets if that changed."""
        self.at = at
        self._holds = holds = {}
        for lane in lanes:
            # Where the rate window of one family is used up, tickets of the others overtake.
            for ahead, hold in enumerate(sorted(lane.upcoming, key=lambda hold: order_of(None, hold))):
                holds[hold.ticket] = (ahead, hold)
                ticket = tickets.get(hold.ticket)
                if ticket is not None:
                    ticket.held(at, hold, ahead, lane)

    def in_order(self, waiting: Collection[TicketFold], most: int) -> list[TicketFold]:
        """Return waiting tickets by when they will be sent according to the last sample, those of which nothing is
        known after the others and lanes in turn. A newcomer comes after all of its class, and what waits for a retry
        that no sample has seen is last."""
        by_number = {ticket.arrived.ticket: ticket for ticket in waiting}
        upcoming = sorted(self._holds, key=lambda number: order_of(*self._holds[number]))
        queued = [number for number in upcoming if number in by_number and by_number[number].state == "queued"]
        first = [by_number.pop(number) for number in queued]
        rest = sorted(by_number.values(), key=lambda each: (each.state, each.priority, each.arrived.at))
        new = [each for each in rest if each.state == "queued" and each.since >= self.at] if first else []
        behind = {each.priority: 0 for each in new}
        for place, ticket in enumerate(first, 1):
            behind.update((priority, place) for priority in behind if ticket.priority <= priority)
        for newcomer in reversed(new):
            first.insert(behind[newcomer.priority], newcomer)
            del by_number[newcomer.arrived.ticket]
        rest = [each for each in rest if each.arrived.ticket in by_number]
        return (first + rest)[:most]

    def holding(
        self, ticket: TicketFold, at: float, mode: str, place: int, *, paused: bool, circuit: LaneState | None
    ) -> Held:
        """Return what holds a waiting ticket that has this place in its lane; without a sample that says so, what
        follows from the ticket's state, and from whether its agent is paused. `circuit` is its lane if that is open: it
        may have opened after the sample."""
        _, hold = self._holds.get(ticket.arrived.ticket, (None, None))
        if ticket.since > self.at:
            hold = None
        in_line = hold is not None and hold.gate not in _IN_NO_LINE
        gate = "" if hold is None else hold.gate
        if circuit is not None and mode != "paused" and gate not in (*_BEFORE_CIRCUIT, "circuit"):
            return "circuit", circuit.circuit_reopens_in_s, place if in_line else None, None
        if hold is None:
            if ticket.retry_at is not None:
                return "backoff", max(0.0, ticket.retry_at - at), None, None
            return "held" if paused else "paused" if mode == "paused" else "slot", None, None, None
        passed_s = at - self.at
        return (
            gate if gate in GATES else "slot",
            None if hold.opens_in_s is None else max(0.0, hold.opens_in_s - passed_s),
            place if in_line else None,
            None if hold.estimate_s is None else max(0.0, hold.estimate_s - passed_s),
        )
