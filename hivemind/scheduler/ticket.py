"""One request of an agent, from arrival to its end, and the agent it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

from hivemind.scheduler.events import Arrived, AttemptFailed, BudgetState, Finished, Granted, Refused
from hivemind.scheduler.ledger.accounts import Account, Budget
from hivemind.scheduler.limits.allowance import Reservation
from hivemind.scheduler.types import Failure, Priority, Request, Usage

if TYPE_CHECKING:
    from hivemind.scheduler.lane import Lane


class TicketState(Enum):
    """Where a ticket is on its way."""

    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    IN_FLIGHT = "in_flight"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a ticket was turned away, and when it may try again."""

    reason: str
    """`circuit_open`, `queue_full`, `wait_too_long`, `draining`, `too_many_agents`, `agent_stopped`, `budget`,
    `price_unknown` or `task_blocked`."""
    retry_after_s: float | None
    status: int = 503
    """Of the answer that says so. 403 where trying again can't help: official SDKs take it for final."""
    budget: BudgetState | None = None
    """What is used up, where that is why."""
    detail: str = ""
    """What else there is to say: the model without a price, the task and what blocks it."""


class Agent:
    """Who asks; shared by all its tickets."""

    __slots__ = (
        "accounts",
        "boosted_until",
        "budgeted",
        "ended",
        "flying",
        "has_children",
        "held",
        "last_seen",
        "lead",
        "limits",
        "name",
        "nudge",
        "own",
        "parent",
        "paused",
        "priority",
        "stopped",
        "task_gate",
        "task_priority",
        "tickets",
        "tree",
        "unpriced_models",
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
        self.parent: Agent | None = None
        """Who started it."""
        self.lead: Agent | None = None
        """Its parent, where it works within that one's process and so is a part of it."""
        self.has_children = False
        self.own = Account(name)
        """What it uses itself, with its sub-agents."""
        self.tree = Account(name)
        """What it and those that it started use."""
        self.accounts: tuple[Account, ...] = (self.own, self.tree)
        """All that its requests are charged to."""
        self.limits: tuple[Account, ...] = ()
        """Of these the ones with a budget."""
        self.budgeted = False
        """Somebody decided about its budget, and be it that it has none; else the settings hold."""
        self.unpriced_models: set[str] = set()
        """Told already to have no known price."""
        self.task_priority: Priority | None = None
        """Of the task it works on."""
        self.task_gate: Literal["open", "waits", "blocked"] = "open"
        """Whether its task lets it ask; while it waits requests are held, while it is blocked they are refused."""
        self.nudge = 0
        """Classes that dynamic priority has moved it down (or, negative, up)."""
        self.ended = False
        """Its process has ended, so it isn't live until it asks again."""
        self.held = False
        """Its tickets are left out of the order: it is paused, waits for what flies on a budget, or for its task."""
        self.flying = 0
        self.last_seen = now
        self.tickets: dict[int, Ticket] = {}
        """All that aren't done."""

    @property
    def ordinary(self) -> bool:
        """Nobody decided anything about it that would be lost with it."""
        undecided = self.priority is None and self.boosted_until is None and self.task_priority is None
        return undecided and not (self.paused or self.stopped or self.budgeted)

    @property
    def budget(self) -> Budget:
        """The agent's own, whatever it covers."""
        return self.own.budget or self.tree.budget

    @property
    def out_of_budget(self) -> bool:
        """Nothing more of its flies for the time being, for the sake of a budget."""
        return any(account.shut or self.name in account.short for account in self.limits)

    @property
    def line(self) -> Iterator[Agent]:
        """Itself, and those that it is a part of: whose decisions hold for it, the nearest first."""
        each: Agent | None = self
        while each is not None:
            yield each
            each = each.lead

    @property
    def on_hold(self) -> bool:
        """The operator holds it, or what it is a part of."""
        return any(each.paused for each in self.line)

    @property
    def cut_off(self) -> bool:
        """The operator stopped it, or what it is a part of."""
        if self.lead is None:
            return self.stopped  # asked at each arrival
        return any(each.stopped for each in self.line)

    @property
    def gate(self) -> str:
        """Of its task's, or of that of what it is a part of, the first that isn't open."""
        if self.lead is None:
            return self.task_gate
        return next((each.task_gate for each in self.line if each.task_gate != "open"), "open")

    def priority_of(self, request: Request) -> Priority:
        """What a request of this agent counts as now."""
        asked, nudge = request.priority, self.nudge
        each: Agent | None = self
        while each is not None:
            if each.boosted_until is not None:
                return Priority.CRITICAL
            if each.priority is not None:
                return each.priority
            if each.task_priority is not None:
                asked = each.task_priority
            each = each.lead
        base = Priority.NORMAL if asked is None else asked
        if not nudge or base is Priority.CRITICAL:
            return base
        return Priority(min(max(base + nudge, Priority.HIGH), Priority.LOW))


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
        "headed_at",
        "id",
        "lane",
        "priority",
        "queued_at",
        "refusal",
        "request",
        "reservation",
        "reserved_dollars",
        "reserved_tokens",
        "retry_at",
        "served_as",
        "shared",
        "so_far",
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
        self.headed_at: float | None = None
        """When the present attempt's head told of rate limits."""
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
        self.reserved_tokens = 0
        self.reserved_dollars = 0.0
        """Set aside in its agent's accounts while it flies."""
        self.so_far: Usage | None = None
        """Of the present attempt, as far as it is known; should the proxy die now, so much was used."""
        self.epoch = 0
        """The circuit's when it was granted."""
        self.reservation: Reservation | None = None
        self.refusal: Refusal | None = None
        """Set when the scheduler turned the ticket away, or wants its attempt ended."""
        self.shared = 0.0
        """Weighted tokens charged to the agent's share for the present attempt."""
        self.served_as = self.priority
        """The class in which they are."""
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
            request.priority,
            request.size_chars,
            request.max_output_tokens,
            request.patience_s,
            request.path,
        )

    def granted(self, now: float) -> Granted:
        """The event that tells that it flies."""
        waited_s = now - self.queued_at
        return Granted(now, self.id, self.agent.name, self.lane.key, self.attempts, waited_s)

    def finished(self, now: float, status: int, usage: Usage | None) -> Finished:
        """The event that tells of its good end."""
        return Finished(
            now,
            self.id,
            self.agent.name,
            self.lane.key,
            self.request.model,
            status,
            self.attempts,
            usage,
            now - self.arrived_at,
        )

    def failed(self, now: float, failure: Failure, retry_in_s: float | None, usage: Usage | None) -> AttemptFailed:
        """The event that tells of an attempt's bad end."""
        return AttemptFailed(
            now,
            self.id,
            self.agent.name,
            self.lane.key,
            self.attempts,
            failure.kind,
            failure.status,
            failure.message,
            retry_in_s,
            usage,
            failure.retryable,
            failure.delay_s,
        )

    def refused(self, now: float, refusal: Refusal) -> Refused:
        """The event that tells that it was turned away."""
        return Refused(now, self.id, self.agent.name, self.lane.key, refusal.reason, refusal.status)

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
