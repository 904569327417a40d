"""One request as it is folded up from its events: open first, then among those that are remembered."""

from __future__ import annotations

import math
from typing import Any

from hivemind.scheduler.events import Abandoned, Arrived, AttemptFailed, Finished, Granted, Refused
from hivemind.scheduler.gauges import Hold, LaneState
from hivemind.scheduler.types import Price, Usage
from hivemind.world.agents import AgentFold
from hivemind.world.request_view import ATTEMPTS_KEPT, DECISIONS_KEPT, AttemptView, RequestView
from hivemind.world.snapshot import TicketView
from hivemind.world.state import AttemptState, OpenTicket

End = Finished | AttemptFailed | Abandoned | Refused
"""The event that a request ends with."""
STOPPED = "agent_stopped"
"""Reason of a refusal: the operator stopped the agent."""
BY_OPERATOR = frozenset({STOPPED, "draining", "budget", "price_unknown", "task_blocked"})
"""Reasons of refusals that somebody decided on; they say nothing about what this proxy saves agents from."""

Held = tuple[str, float | None, int | None, float | None]
"""The gate that holds a ticket, when it opens, the ticket's place in the queue, and when it flies, about."""
Note = tuple[float, str, tuple[Any, ...]]
"""When, what (a gate, or :data:`BY_HAND`), and the numbers that its words will need: of a gate how many were ahead, the
lane's level, and in how many seconds it would open."""
BY_HAND = ("priority", "boost")


class Attempt:
    """One try upstream, as references to what was told of it."""

    __slots__ = ("ended_at", "failed", "first_content_at", "granted")

    def __init__(self, granted: Granted) -> None:
        self.granted = granted
        self.first_content_at: float | None = None
        self.ended_at: float | None = None
        self.failed: AttemptFailed | None = None

    @classmethod
    def restored(cls, state: AttemptState) -> Attempt:
        """One that stands so."""
        attempt = cls(state.granted)
        attempt.first_content_at, attempt.ended_at = state.first_content_at, state.ended_at
        attempt.failed = state.failed
        return attempt


class TicketFold:
    """A request. Changing it is cheap, looking at it isn't: views are made for whoever asks."""

    __slots__ = (
        "agent",
        "arrived",
        "attempt",
        "attempts",
        "end",
        "gate",
        "last_error",
        "notes",
        "output_tokens",
        "priority",
        "provider",
        "retry_at",
        "revision",
        "since",
        "state",
        "usage",
        "view",
        "waited_s",
    )

    def __init__(self, arrived: Arrived, agent: AgentFold, provider: str) -> None:
        self.arrived = arrived
        self.agent = agent
        self.provider = provider
        # It came in with its agent's boost, which will be over before it, perhaps.
        self.priority = arrived.priority if arrived.at >= agent.boosted_until else agent.priority
        self.state = "queued"
        self.since = arrived.at
        self.attempt = 0
        """Attempts begun."""
        self.attempts: list[Attempt] = []
        self.waited_s = 0.0
        self.output_tokens = 0
        self.usage: Usage | None = None
        self.retry_at: float | None = None
        self.last_error = ""
        self.gate = ""
        """The gate that the last note is about."""
        self.notes: list[Note] | None = None
        self.end: End | None = None
        self.view: RequestView | None = None
        """As it was last shown; of no use once the request is among those that changed."""
        self.revision = 0

    @classmethod
    def restored(cls, kept: OpenTicket, agent: AgentFold) -> TicketFold:
        """One that stands so."""
        ticket = cls(kept.arrived, agent, kept.provider)
        ticket.priority = kept.priority
        ticket.state, ticket.since = kept.state, kept.since
        ticket.attempt = kept.attempt
        ticket.attempts = [Attempt.restored(each) for each in kept.attempts]
        ticket.waited_s, ticket.output_tokens, ticket.usage = kept.waited_s, kept.output_tokens, kept.usage
        ticket.retry_at, ticket.last_error, ticket.gate = kept.retry_at, kept.last_error, kept.gate
        ticket.notes = [_restored_note(note) for note in kept.notes] or None
        return ticket

    # --- What happened -------------------------------------------------------------------------------------------

    def granted(self, event: Granted) -> None:
        """It flies."""
        self.state, self.since, self.retry_at = "waiting", event.at, None
        self.gate = ""
        self.attempt = event.attempt
        self.waited_s += event.waited_s
        self.attempts.append(Attempt(event))
        if len(self.attempts) > ATTEMPTS_KEPT:
            del self.attempts[ATTEMPTS_KEPT // 2]

    def first_content(self, at: float) -> None:
        """Its answer comes."""
        self.state, self.since = "streaming", at
        if self.attempts:
            self.attempts[-1].first_content_at = at

    def failed(self, event: AttemptFailed) -> None:
        """The attempt is over; it waits for the next one, or this was the last."""
        self.last_error = event.message or event.kind.value.replace("_", " ")
        self.use(event.usage)
        if self.attempts:
            attempt = self.attempts[-1]
            attempt.failed, attempt.ended_at = event, event.at
        if event.retry_in_s is not None:
            self.state, self.since = "retry", event.at
            self.retry_at = event.at + event.retry_in_s

    def use(self, usage: Usage | None) -> None:
        """Tokens that the provider counted for an attempt."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
            self.output_tokens = self.usage.output_tokens

    def close(self, end: End) -> None:
        """It is over."""
        self.end = end
        self.retry_at = None
        if self.attempts and self.attempts[-1].ended_at is None:
            self.attempts[-1].ended_at = end.at
        if type(end) is Finished:
            self.state = "answered"
            self.use(end.usage)
        elif type(end) is AttemptFailed:
            self.state = "failed"
        elif type(end) is Abandoned:
            self.state = "stopped" if self.agent.stopped else "left"
            self.use(end.usage)
        elif type(end) is Refused:
            self.state = "stopped" if end.reason == STOPPED else "refused"
            self.last_error = end.reason.replace("_", " ")

    def catch_up(self, at: float) -> bool:
        """Once the time of the next try has come it stands in the queue again, of which no event tells.

        Returns whether that was news.
        """
        if self.retry_at is None or at < self.retry_at:
            return False
        self.state, self.since, self.retry_at = "queued", self.retry_at, None
        return True

    def note(self, at: float, what: str, *numbers: object) -> None:
        """Something to say of it, should somebody ask."""
        if self.notes is None:
            self.notes = []
        self.notes.append((at, what, numbers))
        if len(self.notes) > DECISIONS_KEPT:
            del self.notes[DECISIONS_KEPT // 2]

    def held(self, at: float, hold: Hold, ahead: int, lane: LaneState) -> None:
        """What keeps it, as a sample had it."""
        if self.state == "queued" and hold.gate != self.gate and hold.gate != "next":
            self.gate = hold.gate
            self.note(at, hold.gate, ahead, lane.level, hold.opens_in_s)

    # --- How it looks --------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """In the queue or between two attempts."""
        return self.state == "queued" or self.state == "retry"

    def waiting_s(self, at: float) -> float:
        """The wait in the queue that no grant has ended yet."""
        return at - self.since if self.state == "queued" else 0.0

    def ticket_view(self, at: float, held: Held | None = None) -> TicketView:
        """As it stands at this moment, and what holds it if it waits."""
        arrived = self.arrived
        gate, opens_in_s, position, estimate_s = held or ("", None, None, None)
        return TicketView(
            ticket=arrived.ticket,
            agent=arrived.agent,
            lane=arrived.lane,
            model=arrived.model,
            priority=self.priority,
            state=self.state,
            since_s=at - self.since,
            age_s=at - arrived.at,
            attempt=self.attempt,
            output_tokens=self.output_tokens,
            estimated_tokens=arrived.estimated_input + arrived.estimated_output,
            retry_in_s=None if self.retry_at is None else max(0.0, self.retry_at - at),
            last_error=self.last_error,
            stream=arrived.stream,
            gate=gate,
            gate_opens_in_s=opens_in_s,
            position=position,
            estimate_s=estimate_s,
        )

    def request_view(self, price: Price | None) -> RequestView:
        """As it stands, over or not; the same one until it changes again."""
        if self.view is None:
            self.view = self._request_view(price)
        return self.view

    def _request_view(self, price: Price | None) -> RequestView:
        arrived, end = self.arrived, self.end
        return RequestView(
            ticket=arrived.ticket,
            agent=arrived.agent,
            lane=arrived.lane,
            model=arrived.model,
            priority=self.priority,
            stream=arrived.stream,
            state=self.state,
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
        )

    def _dollars(self, price: Price) -> float | None:
        used = [attempt.failed.usage for attempt in self.attempts if attempt.failed is not None]
        used += [self.end.usage] if isinstance(self.end, Finished | Abandoned) else []
        costs = [price(self.provider, self.arrived.model, usage) for usage in used if usage is not None]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None

    def _attempt_view(self, attempt: Attempt) -> AttemptView:
        granted, failed, end = attempt.granted, attempt.failed, self.end
        outcome, status = "flying", None
        if failed is not None:
            outcome, status = failed.kind.value, failed.status
        elif attempt.ended_at is not None:
            outcome, status = ("answered", end.status) if type(end) is Finished else ("left", None)
        return AttemptView(
            number=granted.attempt,
            queued_at=granted.at - granted.waited_s,
            granted_at=granted.at,
            first_content_at=attempt.first_content_at,
            ended_at=attempt.ended_at,
            outcome=outcome,
            status=status,
            message="" if failed is None else failed.message,
            retry_in_s=None if failed is None else failed.retry_in_s,
        )


def kept_note(note: Note) -> Note:
    """As it is written down."""
    at, what, numbers = note
    if what in BY_HAND or not math.isinf(numbers[1]):
        return note
    return at, what, (numbers[0], None, numbers[2])


def _restored_note(note: Note) -> Note:
    at, what, numbers = note
    if what in BY_HAND or numbers[1] is not None:
        return note
    return at, what, (numbers[0], math.inf, numbers[2])
