"""Queued requests: their order and what holds them, as of the last sample."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hivemind.scheduler.events import Sampled
from hivemind.scheduler.gauges import GATES, Hold
from hivemind.world.state import WorldState
from hivemind.world.tickets import Held, TicketFold

_IN_NO_LINE = ("held", "backoff")


class Queue:
    """The next tickets of all lanes."""

    def __init__(self) -> None:
        self.at = 0.0
        """When the last sample was taken."""
        self._holds: dict[int, tuple[int, Hold]] = {}
        """By ticket, its place in the lane, from 1, and what holds it."""

    def sampled(self, event: Sampled, tickets: Mapping[int, TicketFold]) -> None:
        """Take over what holds each ticket, and note with the ticket if that changed."""
        self.at = event.at
        self._holds = holds = {}
        for lane in event.lanes:
            for ahead, hold in enumerate(lane.upcoming):
                holds[hold.ticket] = (ahead + 1, hold)
                ticket = tickets.get(hold.ticket)
                if ticket is not None:
                    ticket.held(event.at, hold, ahead, lane)

    def restore(self, state: WorldState) -> None:
        """Take over the given state."""
        self.at = state.sampled_at
        self._holds = {}
        for lane in state.lanes:
            self._holds.update({hold.ticket: (place, hold) for place, hold in enumerate(lane.upcoming, 1)})

    def in_order(self, waiting: Collection[TicketFold], most: int) -> list[TicketFold]:
        """Return waiting tickets in the order of the last sample, lanes in turn; then newcomers and retries, by class
        and age."""
        by_number = {ticket.arrived.ticket: ticket for ticket in waiting}
        upcoming = sorted(self._holds, key=lambda number: self._holds[number][0])
        first = [by_number.pop(number) for number in upcoming if _queued(by_number.get(number))]
        if len(first) >= most:
            return first[:most]
        rest = sorted(by_number.values(), key=lambda each: (each.state, each.priority, each.arrived.at))
        return (first + rest)[:most]

    def holding(self, ticket: TicketFold, at: float, mode: str, *, paused: bool) -> Held:
        """Return what holds a waiting ticket; without a sample that says so, what follows from the ticket's state, and
        from whether its agent is paused."""
        position, hold = self._holds.get(ticket.arrived.ticket, (None, None))
        if hold is None or ticket.since > self.at:
            if ticket.retry_at is not None:
                return "backoff", max(0.0, ticket.retry_at - at), None, None
            return "held" if paused else "paused" if mode == "paused" else "slot", None, None, None
        passed_s = at - self.at
        return (
            hold.gate if hold.gate in GATES else "slot",
            None if hold.opens_in_s is None else max(0.0, hold.opens_in_s - passed_s),
            None if hold.gate in _IN_NO_LINE else position,
            None if hold.estimate_s is None else max(0.0, hold.estimate_s - passed_s),
        )


def _queued(ticket: TicketFold | None) -> bool:
    return ticket is not None and ticket.state == "queued"
