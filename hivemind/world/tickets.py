"""A request of the world: what the lifecycle says, and what is noted and shown of it besides."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from operator import attrgetter

from hivemind.scheduler.events import Abandoned, Arrived, Finished, Hold, LaneState, apart
from hivemind.scheduler.types import Price
from hivemind.world.lifecycle import Attempt, Lifecycle
from hivemind.world.snapshot import DECISIONS_KEPT, HUNG, AttemptView, RequestView, TicketView
from hivemind.world.state import AttemptState, OpenTicket

STOPPED = "agent_stopped"
"""Reason of a refusal: the operator stopped the agent."""
BY_OPERATOR = frozenset({STOPPED, "draining", "budget", "price_unknown", "task_blocked"})
"""Reasons of refusals that an operator decided on; they don't count as errors that the proxy let through."""

Held = tuple[str, float | None, int | None, float | None]
"""The gate that holds a ticket, when it opens, the ticket's place in the queue, and its ETA."""
_PER_ATTEMPT = attrgetter(*AttemptState.__struct_fields__)
_PER_TICKET = attrgetter(*(each.name for each in fields(OpenTicket)))


@dataclass(slots=True, eq=False)
class TicketFold(Lifecycle):
    """A request as the world shows it. Changing it is cheap; views are made on demand."""

    view: RequestView | None = None
    """The last view of it; out of date once the request is among those that changed."""
    revision: int = 0
    hung: bool = False
    """Nothing of its answer has come for too long; as of the last snapshot."""

    @property
    def shown(self) -> str:
        """Its state as it is shown."""
        return HUNG if self.hung and self.in_flight else self.state

    def captured(self) -> OpenTicket:
        """Return a copy of its state."""
        kept = OpenTicket(*_PER_TICKET(self))
        (kept.arrived,) = (each for each in apart(self.arrived) if isinstance(each, Arrived))
        kept.attempts = [AttemptState(*_PER_ATTEMPT(each)) for each in self.attempts]
        kept.notes = self.notes.copy()
        return kept

    def note(self, at: float, what: str, *numbers: float | str | None) -> None:
        """Note a decision about it."""
        self.notes.append((at, what, numbers))
        if len(self.notes) > DECISIONS_KEPT:
            del self.notes[DECISIONS_KEPT // 2]

    def held(self, at: float, hold: Hold, ahead: int, lane: LaneState) -> None:
        """Note what holds it according to a sample, if that is another gate than before."""
        if self.state == "queued" and hold.gate != self.gate and hold.gate != "next":
            self.gate = hold.gate
            self.note(at, hold.gate, ahead, None if math.isinf(lane.level) else lane.level, hold.opens_in_s)

    # --- How it looks --------------------------------------------------------------------------------------------

    def waiting_s(self, at: float) -> float:
        """Return the seconds of the current wait of a request that isn't in flight."""
        since = self.waits_since
        return max(0.0, at - (self.since if since is None else since))

    def sent_s(self, at: float) -> float:
        """Return the seconds since the present attempt of a request in flight was sent."""
        return at - self.attempts[-1].granted.at if self.attempts else 0.0

    def ticket_view(self, at: float, held: Held | None = None) -> TicketView:
        """Return the view of an open request at this moment; `held` is what holds it if it waits."""
        arrived, in_flight = self.arrived, self.in_flight
        gate, opens_in_s, position, estimate_s = held or ("", None, None, None)
        return TicketView(  # by place, which takes half the time
            arrived.ticket,
            arrived.agent,
            arrived.lane,
            arrived.model,
            self.priority,
            self.shown,
            at - self.since if in_flight else self.waiting_s(at),
            at - arrived.at,
            self.attempt,
            self.output_tokens,
            arrived.estimated_input + arrived.estimated_output,
            None if self.retry_at is None else max(0.0, self.retry_at - at),
            self.last_error,
            arrived.stream,
            gate,
            opens_in_s,
            position,
            estimate_s,
            at - self.heard_at if in_flight else 0.0,
            bool(self.attempts) and self.attempts[-1].first_content_at is not None,
        )

    def request_view(self, price: Price | None) -> RequestView:
        """Return the view of a request, open or ended; the same object until it changes."""
        if self.view is not None:
            return self.view
        arrived, end = self.arrived, self.end
        self.view = RequestView(
            ticket=arrived.ticket,
            agent=arrived.agent,
            lane=arrived.lane,
            model=arrived.model,
            priority=self.priority,
            stream=arrived.stream,
            state=self.shown,
            arrived_at=arrived.at,
            ended_at=None if end is None else end.at,
            waited_s=self.waited_s,
            attempts=tuple([self._attempt_view(attempt) for attempt in self.attempts]),
            status=None if end is None or isinstance(end, Abandoned) else end.status,
            usage=self.usage,
            output_tokens=self.output_tokens,
            estimated_tokens=arrived.estimated_input + arrived.estimated_output,
            dollars=None if end is None or price is None else self._dollars(price),
            last_error=self.last_error,
            timed=not isinstance(end, Finished) or end.duration_s is not None,
        )
        return self.view

    def _dollars(self, price: Price) -> float | None:
        used = [attempt.usage for attempt in self.attempts if attempt.failed is not None]
        used += [self.end.usage] if isinstance(self.end, Finished | Abandoned) else []
        costs = [price(self.provider, self.arrived.model, usage) for usage in used if usage is not None]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None

    def _attempt_view(self, attempt: Attempt) -> AttemptView:
        granted, failed = attempt.granted, attempt.failed
        outcome = "in_flight" if attempt.end is None else "left"
        if failed is not None:
            outcome = failed.kind.value
        elif isinstance(attempt.end, Finished):
            outcome = "answered"
        return AttemptView(
            number=granted.attempt,
            queued_at=attempt.queued_at,
            granted_at=granted.at,
            first_content_at=attempt.first_content_at,
            ended_at=attempt.ended_at,
            outcome=outcome,
            status=attempt.status,
            message="" if failed is None else failed.message,
            prefill=attempt.prefill,
            retry_in_s=None if failed is None else failed.retry_in_s,
        )
