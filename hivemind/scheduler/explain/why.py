"""Why the waiting tickets of a lane wait, and for how long about: what people ask first.

Computed for a sample, several times a second, and so in one go: what shuts everybody out is found once, and the rate
windows are asked about once a family; whoever stands further back is counted rather than looked at.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hivemind.scheduler.explain.outlook import Outlook
from hivemind.scheduler.gauges import UPCOMING_SHOWN, Hold
from hivemind.scheduler.ticket import Ticket

if TYPE_CHECKING:
    from hivemind.scheduler.lane import Lane

_Shut = tuple[str, float | None]
"""A gate, and seconds until it opens by itself where that is known."""
_NEXT: _Shut = ("next", None)


def holds(lane: Lane, now: float, paused: bool) -> tuple[Hold, ...]:
    """The first :data:`UPCOMING_SHOWN` waiting tickets, those in line before those that aren't.

    `paused`: the operator holds all admissions. A ticket that stands in no line (its agent is held, or it is between
    two attempts) isn't kept by slots or rate windows: what is told is what keeps it from the line.
    """
    if not (lane.queue.waiting or lane.retries):
        return ()
    view = _View(lane, now, paused)
    found = [view.in_line(ticket) for ticket in lane.queue.upcoming(now, UPCOMING_SHOWN)]
    found += [view.left_out(ticket) for ticket in islice(lane.queue.left_out(), UPCOMING_SHOWN - len(found))]
    soon = sorted(islice(lane.retries.values(), UPCOMING_SHOWN - len(found)), key=lambda ticket: ticket.retry_at)
    found += [view.backing_off(ticket) for ticket in soon]
    return tuple(found)


class _View:
    """A lane at a moment, as whoever waits sees it."""

    __slots__ = (
        "_ahead",
        "_flowing",
        "_for_all",
        "_for_line",
        "_free",
        "_lane",
        "_lead_s",
        "_now",
        "_outlooks",
        "_pace_s",
        "_stagger_s",
        "_unknowable",
    )

    def __init__(self, lane: Lane, now: float, paused: bool) -> None:
        self._lane = lane
        self._now = now
        self._for_all, self._lead_s, self._stagger_s = _whole_lane(lane, now, paused)
        self._for_line = self._for_all or (None if lane.gate.free else ("slot", None))
        self._unknowable = paused or lane.circuit.forced == "open"
        if self._for_line is None and lane.total is not None and not lane.total.free:
            self._for_line = ("upstream", None)
            self._unknowable = True  # other lanes may come first
        slots, active, hold_s = lane.gate.slots, lane.gate.active, lane.hold_s
        self._pace_s = None if hold_s is None else hold_s / slots
        """Between two slots coming free."""
        self._free = slots - active
        if self._lead_s and hold_s:
            self._free += active * min(1.0, self._lead_s / hold_s)
        self._outlooks: dict[str, Outlook] = {}
        """By family."""
        self._flowing = self._ahead = 0
        """Tickets so far that no rate window keeps, and all."""

    def in_line(self, ticket: Ticket) -> Hold:
        """The next in the queue; they are asked for one after another."""
        held: _Shut | None = None
        window_s = 0.0
        if self._lane.settings.rate_windows:
            family = ticket.request.family
            outlook = self._outlooks.get(family)
            if outlook is None:
                outlook = self._outlooks[family] = Outlook(self._lane.allowance(family), ticket, self._now)
            held, window_s = outlook.held, outlook.after(ticket)
        ahead = self._ahead if window_s else self._flowing
        self._ahead += 1
        self._flowing += not window_s
        gate, opens_in_s = self._for_line or held or _NEXT
        return Hold(ticket.id, gate, opens_in_s, self._estimate(ahead, max(window_s, opens_in_s or 0.0)))

    def left_out(self, ticket: Ticket) -> Hold:
        """Of an agent that is held."""
        agent = ticket.agent
        own = "budget" if agent.out_of_budget else "held" if agent.on_hold else "dependency"
        gate, opens_in_s = self._for_all or (own, None)
        return Hold(ticket.id, gate, opens_in_s, None)

    def backing_off(self, ticket: Ticket) -> Hold:
        """Between two attempts. It comes back ahead of its agent's others, so not at the end of the line."""
        if ticket.agent.held:
            return self.left_out(ticket)
        retry_in_s = max(0.0, ticket.retry_at - self._now)
        gate, opens_in_s = self._for_all or ("backoff", retry_in_s)
        return Hold(ticket.id, gate, opens_in_s, self._estimate(0, retry_in_s))

    def _estimate(self, ahead: int, at_least_s: float) -> float | None:
        """Until so many others and then this one have got a slot."""
        if self._unknowable:
            return None
        wait_s = ahead * self._stagger_s
        behind = ahead + 1 - self._free
        if behind > 0:
            if self._pace_s is None:
                return None
            wait_s = max(wait_s, behind * self._pace_s)
        return max(self._lead_s + wait_s, at_least_s)


def _whole_lane(lane: Lane, now: float, paused: bool) -> tuple[_Shut | None, float, float]:
    """The first gate that is shut to everybody, seconds until no such gate is, and between two grants after that."""
    shut: _Shut | None = ("paused", None) if paused else None
    lead_s = stagger_s = 0.0
    if now < lane.parked_until:
        shut = shut or ("parked", lane.parked_until - now)
    if now < max(lane.parked_until, lane.next_grant_at):
        lead_s = max(lane.parked_until, lane.next_grant_at) - now
        stagger_s = lane.settings.retry.stagger_s
    if lane.settings.backpressure and not lane.circuit.admits():
        reopens_at = lane.circuit.reopens_at
        opens_in_s = None if reopens_at is None else max(0.0, reopens_at - now)
        shut = shut or ("circuit", opens_in_s)
        # Then a probe goes alone, and what it comes to decides about the others.
        lead_s = max(lead_s, (opens_in_s or 0.0) + (lane.hold_s or 0.0))
    return shut, lead_s, stagger_s
