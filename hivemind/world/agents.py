"""Agents and tickets as they are folded up from events."""

from __future__ import annotations

from hivemind.scheduler.events import Arrived
from hivemind.scheduler.types import Priority, Usage
from hivemind.snapshot import AgentView, TicketView

_ORDER = ("streaming", "waiting", "retry", "queued")
"""An agent with several tickets is shown in the liveliest state of them."""


class TicketFold:
    """A request that isn't over yet."""

    __slots__ = ("arrived", "attempt", "last_error", "output_tokens", "priority", "retry_at", "since", "state")

    def __init__(self, arrived: Arrived) -> None:
        self.arrived = arrived
        self.priority = arrived.priority
        self.state = "queued"
        self.since = arrived.at
        self.attempt = 0
        self.output_tokens = 0
        self.retry_at: float | None = None
        self.last_error = ""

    def enter(self, state: str, at: float) -> None:
        """Another state, from now on."""
        self.state = state
        self.since = at
        self.retry_at = None

    def waiting_s(self, at: float) -> float:
        """The wait in the queue that no grant has ended yet."""
        return at - self.since if self.state == "queued" else 0.0

    def catch_up(self, at: float) -> None:
        """Once the time of the next try has come it stands in the queue again, of which no event tells."""
        if self.retry_at is not None and at >= self.retry_at:
            self.enter("queued", self.retry_at)

    def view(self, at: float) -> TicketView:
        """As it stands at this moment."""
        arrived = self.arrived
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
        )


class AgentFold:
    """An agent and what became of its requests."""

    __slots__ = (
        "client",
        "failed",
        "finished",
        "last_error",
        "last_seen",
        "name",
        "parent",
        "paused",
        "priority",
        "requests",
        "rescued",
        "retries",
        "saved_tokens",
        "tickets",
        "ttft_s",
        "usage",
        "waited_s",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.client = ""
        self.parent: str | None = None
        self.priority = Priority.NORMAL
        self.paused = False
        self.requests = self.finished = self.failed = self.retries = self.rescued = 0
        self.saved_tokens = 0
        """Tokens it had used when a fault would last have ended it."""
        self.usage = Usage()
        self.ttft_s: float | None = None
        self.waited_s = 0.0
        self.last_seen = 0.0
        self.last_error = ""
        self.tickets: set[int] = set()

    def arrived(self, event: Arrived) -> None:
        """It asked for something."""
        self.requests += 1
        self.priority = event.priority
        self.client = event.client or self.client
        self.parent = event.parent or self.parent
        self.tickets.add(event.ticket)

    def view(self, at: float, tickets: dict[int, TicketFold]) -> AgentView:
        """As it stands at this moment; `tickets` holds all that are open."""
        open_tickets = [tickets[number] for number in self.tickets]
        states = [ticket.state for ticket in open_tickets]
        state = next((each for each in _ORDER if each in states), "idle")
        return AgentView(
            name=self.name,
            client=self.client,
            parent=self.parent,
            priority=self.priority,
            state="paused" if self.paused and state in ("idle", "queued", "retry") else state,
            paused=self.paused,
            flying=sum(1 for each in states if each in ("streaming", "waiting")),
            queued=sum(1 for each in states if each in ("queued", "retry")),
            requests=self.requests,
            finished=self.finished,
            failed=self.failed,
            retries=self.retries,
            rescued=self.rescued,
            usage=self.usage,
            budget_tokens=None,
            ttft_s=self.ttft_s,
            waited_s=self.waited_s + sum(ticket.waiting_s(at) for ticket in open_tickets),
            last_seen_s=at - self.last_seen,
            last_error=self.last_error,
        )
