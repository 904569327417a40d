"""One request of an agent, from arrival to its end, and the agent it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from .allowance import Reservation
from .events import Arrived
from .types import Priority, Request

if TYPE_CHECKING:
    from .lane import Lane


class TicketState(Enum):
    """Where a ticket is on its way."""

    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    FLYING = "flying"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a ticket was turned away, and when it may try again."""

    reason: str
    """`circuit_open`, `queue_full`, `wait_too_long`, `draining`, `too_many_agents`, `agent_stopped` or `budget`."""
    retry_after_s: float | None
    status: int = 503
    """Of the answer that says so. 403 where trying again can't help: official SDKs take it for final."""
    budget: int | None = None
    """Tokens that the agent may use, where that is why."""
    used: int = 0
    """Tokens that it has used, likewise."""


class Agent:
    """Who asks; shared by all its tickets."""

    __slots__ = (
        "boosted_until",
        "budget",
        "flying",
        "held",
        "last_seen",
        "name",
        "paused",
        "priority",
        "reserved_tokens",
        "stopped",
        "tickets",
        "used_tokens",
        "warned",
    )

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.priority: Priority | None = None
        """As the operator decided; it overrules what requests ask for. None: nobody decided."""
        self.boosted_until: float | None = None
        """It counts as CRITICAL, whatever anybody else decided, until it is told that this is over."""
        self.paused = False
        self.stopped = False
        """The operator cut it off."""
        self.budget: int | None = None
        """Tokens that it may use in all; None: as many as it likes."""
        self.used_tokens = 0
        """By everything that has ended, attempts that failed included."""
        self.reserved_tokens = 0
        """Estimated, of what flies."""
        self.warned = 0
        """The highest mark of its budget that was told."""
        self.held = False
        """Its tickets are left out of the order: it is paused, or might use up its budget with what flies."""
        self.flying = 0
        self.last_seen = now
        self.tickets: dict[int, Ticket] = {}
        """All that aren't done."""

    @property
    def ordinary(self) -> bool:
        """Nobody decided anything about it that would be lost with it."""
        undecided = self.priority is None and self.boosted_until is None and self.budget is None
        return undecided and not (self.paused or self.stopped)

    @property
    def out_of_budget(self) -> bool:
        """With what flies it has used as much as it may."""
        return self.budget is not None and self.used_tokens + self.reserved_tokens >= self.budget

    def priority_of(self, request: Request) -> Priority:
        """What a request of this agent counts as now."""
        if self.boosted_until is not None:
            return Priority.CRITICAL
        if self.priority is not None:
            return self.priority
        return Priority.NORMAL if request.priority is None else request.priority


class Ticket:
    """A request's place in the scheduler. Owned by it; others read."""

    __slots__ = (
        "agent",
        "arrived_at",
        "attempts",
        "content_started",
        "entry",
        "epoch",
        "estimated_input",
        "estimated_output",
        "expires_at",
        "faults",
        "front",
        "granted_at",
        "id",
        "lane",
        "priority",
        "queued_at",
        "refusal",
        "request",
        "reservation",
        "retry_at",
        "shared",
        "state",
        "tag",
    )

    def __init__(self, number: int, request: Request, agent: Agent, lane: Lane, now: float) -> None:
        self.id = number
        self.request = request
        self.agent = agent
        self.lane = lane
        self.priority = agent.priority_of(request)
        self.state = TicketState.QUEUED
        self.arrived_at = self.queued_at = self.granted_at = now
        self.expires_at = now
        self.retry_at = now
        """When the next attempt may begin, while it is between two."""
        self.attempts = 0
        self.faults = 0
        """Failed attempts that weren't the provider's asking for a pause."""
        self.front = False
        """It was tried before and goes ahead of its agent's other requests."""
        self.content_started = False
        self.entry = 0
        """Number of its one valid entry in the queue."""
        self.estimated_input = 0
        self.estimated_output = 0
        self.epoch = 0
        """The circuit's when it was granted."""
        self.reservation: Reservation | None = None
        self.refusal: Refusal | None = None
        """Set when the scheduler turned the ticket away, or wants its attempt ended."""
        self.shared = 0.0
        """Weighted tokens charged to the agent's share for the present attempt."""
        self.tag: object = None
        """The driver's own; the scheduler never looks at it."""

    def arrived(self, now: float) -> Arrived:
        """The event that tells of it."""
        request = self.request
        return Arrived(
            now,
            self.id,
            request.agent,
            request.lane,
            request.model,
            request.family,
            self.priority,
            request.stream,
            self.estimated_input,
            self.estimated_output,
            request.client,
            request.parent,
        )

    @property
    def waiting(self) -> bool:
        """In the queue or between two attempts."""
        return self.state is TicketState.QUEUED or self.state is TicketState.BACKING_OFF

    @property
    def in_queue(self) -> bool:
        """In the queue, ready to fly."""
        return self.state is TicketState.QUEUED

    @property
    def weight(self) -> float:
        """Estimated cost in weighted tokens (see :attr:`Usage.weighted`)."""
        return self.estimated_input + 5.0 * self.estimated_output
