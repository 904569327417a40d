"""One request of an agent, from arrival to its end, and the agent it belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from msgspec import Struct

from hivemind.scheduler.accounts import Account, Budget
from hivemind.scheduler.events import Arrived, AttemptFailed, BudgetState
from hivemind.scheduler.faults import Fault
from hivemind.scheduler.limits import Reservation
from hivemind.scheduler.types import Failure, Priority, Request, Usage

OVERDUE_S = 60.0
"""How long a request may be passed by others of its agent, and an agent by others of its class. What has waited for so
long is next."""
CHARS_PER_S = 4000.0
"""Characters of a prompt, about 1,000 tokens, that count as a second of waiting among one agent's requests."""


class TicketState(Enum):
    """How far a ticket has come."""

    QUEUED = "queued"
    BACKING_OFF = "backing_off"  # or set aside while another ticket writes its prefix
    IN_FLIGHT = "in_flight"
    DONE = "done"


FINAL_STATUS = 400
"""Of a refusal where trying again can't help. Nearly every client that was measured asks once and shows the message;
after a 403 Codex asks six times and aider nine (docs/results-failures.md)."""


class Refusal(Struct, frozen=True):
    """Why a ticket was refused, and when the client may try again."""

    reason: str
    """`circuit_open`, `queue_full`, `wait_too_long`, `deadline`, `draining`, `too_many_agents`, `agent_stopped`,
    `budget`, `price_unknown` or `task_blocked`."""
    retry_after_s: float | None
    status: int = 503
    """Of the reply: 503, or :data:`FINAL_STATUS`."""
    budget: BudgetState | None = None  # the budget that is used up, where that is the reason
    detail: str = ""  # the model without a price, or the task and what blocks it
    waited_s: float = 0.0
    bounds: tuple[str, ...] = ()
    """Of a wait that was too long: the settings that bound it, or `patience`, the client's own."""
    gate: str = ""
    """What kept it, one of :data:`~hivemind.scheduler.events.GATES`; empty: that isn't known."""
    turn_in_s: float | None = None
    """When its turn would have come, as far as that is known."""


@dataclass(slots=True, eq=False)
class Agent:
    """The sender of requests, shared by all its tickets."""

    name: str
    last_seen: float
    priority: Priority | None = None
    """As the operator decided, which overrules what requests ask for. None: undecided."""
    asked: Priority = Priority.NORMAL
    """The most urgent class that one of its requests asked for: those of its sub-agents get no more urgent one by
    asking."""
    boosted_until: float | None = None
    """It counts as CRITICAL, whatever else was decided, until the boost is ended."""
    paused: bool = False  # the operator holds its requests in the queue
    stopped: bool = False  # the operator stopped it: its requests are refused
    parent: Agent | None = None  # the agent that started it
    lead: Agent | None = None
    """Its parent, if it works within that one's process and so is a part of it."""
    since: float = -math.inf
    """When it came to its parent, if it was another's before."""
    has_children: bool = False
    own: Account = field(init=False)  # what it uses itself, with its sub-agents
    tree: Account = field(init=False)  # what it and all agents that it started use
    accounts: tuple[Account, ...] = field(init=False)  # all accounts that its requests are charged to
    limits: tuple[Account, ...] = ()  # of these the ones with a budget
    in_dollars: bool = False  # whether one of them is
    budgeted: bool = False  # its budget, or that it has none, was decided; else the settings hold
    unpriced_models: frozenset[str] = frozenset()
    """Models for which it was reported already that no price is known."""
    task_priority: Priority | None = None  # of the task it works on
    task_gate: Literal["open", "waits", "blocked"] = "open"
    """What its task means for its requests: they are held while it waits, and refused while it is blocked."""
    deadline_at: float = math.inf
    """By when the turns of its requests have to come, if its runner says so."""
    kept_until: float = 0.0
    """When the long windows are whole again because of which its last request was refused."""
    cache: Any = None
    """The last prompt of it that a provider keeps, a :class:`.warmth.Cached`."""
    ended: bool = False  # its process has ended, so it isn't live until its next request
    held: bool = False
    """Its tickets are left out of the queue's order: it is paused, short of budget, or its task waits."""
    in_flight: int = 0
    tickets: dict[int, Ticket] = field(default_factory=dict)  # all that aren't done

    def __post_init__(self) -> None:
        self.own, self.tree = Account(self.name), Account(self.name)
        self.accounts = (self.own, self.tree)

    @property
    def ordinary(self) -> bool:
        """Whether forgetting it would lose no decision about it."""
        undecided = self.priority is None and self.boosted_until is None and self.task_priority is None
        return undecided and not (self.paused or self.stopped or self.budgeted)

    @property
    def budget(self) -> Budget:
        """The agent's own budget, whatever it covers."""
        return self.own.budget or self.tree.budget

    @property
    def out_of_budget(self) -> bool:
        """Whether one of its budgets keeps its next request from being granted."""
        return any(account.shut or self.name in account.short for account in self.limits)

    @property
    def line(self) -> Iterator[Agent]:
        """The agent and those that it is a part of, nearest first: decisions about each hold for it."""
        each: Agent | None = self
        while each is not None:
            yield each
            each = each.lead

    @property
    def due_at(self) -> float:
        """Its deadline, or that of an agent that it is a part of, if that is earlier."""
        return self.deadline_at if self.lead is None else min(each.deadline_at for each in self.line)

    @property
    def on_hold(self) -> bool:
        """Whether the operator paused it, or an agent that it is a part of."""
        return any(each.paused for each in self.line)

    @property
    def cut_off(self) -> bool:
        """Whether the operator stopped it, or an agent that it is a part of."""
        if self.lead is None:
            return self.stopped  # read on each arrival
        return any(each.stopped for each in self.line)

    @property
    def gate(self) -> str:
        """The gate of its task, or the first in its line that isn't open."""
        if self.lead is None:
            return self.task_gate
        return next((each.task_gate for each in self.line if each.task_gate != "open"), "open")

    @property
    def waiting(self) -> list[Ticket]:
        """Its tickets that are queued or between two attempts."""
        return [ticket for ticket in self.tickets.values() if ticket.waiting]

    def priority_of(self, request: Request) -> Priority:
        """Return the class in which a request of this agent counts now."""
        base: Priority | None = None
        asked = request.priority
        each: Agent | None = self
        while each is not None:
            if each.boosted_until is not None:
                return Priority.CRITICAL
            if each.priority is not None:
                return each.priority
            if each.task_priority is not None:
                base = each.task_priority
            if asked is not None and asked < each.asked:
                asked = each.asked
            each = each.lead
        base = asked if base is None else base
        return Priority.NORMAL if base is None else base


@dataclass(slots=True, eq=False)
class Ticket:
    """A request's place in the scheduler, which owns it; others only read."""

    id: int
    request: Request
    agent: Agent
    provider: str  # profile of the lane's provider, by which its usage is priced
    priority: Priority
    arrived_at: float
    queued_at: float  # when it last joined the queue
    expires_at: float  # when its wait becomes too long
    deadline_at: float = math.inf  # when it is of no use any more; those with the earliest go first in their class
    state: TicketState = TicketState.QUEUED
    granted_at: float = 0.0
    load: float = 0.0  # its lane's Lane.load then
    at_once: int = 0  # its lane's requests in flight then, itself among them
    ttft_s: float | None = None  # of the present attempt, if it is answered by a stream
    in_flight: float = math.inf  # requests in flight on average until its first content; inf: that isn't known
    retry_at: float = 0.0  # when the next attempt may begin, while it is between two
    headed_at: float | None = None  # when the present attempt's response head stated rate limits
    ending: bool = False  # the present attempt's response head came, and its end is reported next
    attempts: int = 0
    faults: int = 0  # failed attempts, without those after which the provider asked for a pause
    fault: Fault | None = None  # its last 500s, if they came in the same words
    front: bool = False  # it was tried before and goes ahead of its agent's other requests
    content_started: bool = False
    entry: int = 0  # number of its one valid entry in the queue
    estimated_input: int = 0
    estimated_output: int = 0
    cached: int = 0
    """Of its input tokens, those that it likely reads from the provider's cache, if it is sent in time."""
    warm_until: float = -math.inf  # when they expire there
    fair_at: float = 0.0
    """When it would be sent after all that waited when it came; 0: there is no other order."""
    ahead: bool = False
    """It is sent ahead of its turn, or after another one, so that it reads what it would have written."""
    follows_until: float = 0.0  # it may wait until then for another one that writes its prefix; 0: it hasn't
    kept: bool = False  # what its own answer leaves in that cache is known
    reserved_tokens: int = 0  # set aside in its agent's accounts while it is in flight
    reserved_dollars: float = 0.0
    so_far: Usage | None = None
    """Known usage of the present attempt: what was used should the proxy die now."""
    epoch: int = 0  # the circuit's epoch when it was granted
    reservation: Reservation | None = None  # what it takes from the rate windows
    refusal: Refusal | None = None
    """Set when the scheduler refused the ticket, or wants its attempt ended."""
    shared: float = 0.0  # weighted tokens charged to the agent's share for the present attempt
    served_as: Priority = Priority.NORMAL  # the class in which they are charged
    charged: Any = None
    """What the queue charges for the present attempt: an agent's share, and its tally in that class."""
    cut: Failure | None = None
    """Set when an operator wants its attempt ended: the failure that it is to be reported as."""
    work: str = ""
    """Id of what it began, which goes on in the background (:mod:`.work`): it is in flight until that ends."""
    tag: Any = None  # the driver's own; the scheduler ignores it

    def arrived(self, now: float, kind: type[Arrived] = Arrived, *more: int) -> Arrived:
        request = self.request
        return kind(
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
            request.made_up,
            request.tier,
            request.waited_s,
            *more,
        )

    @property
    def headed_s(self) -> float | None:
        """Seconds from the present attempt's beginning to the head of its response, if that stated rate limits."""
        return None if self.headed_at is None else self.headed_at - self.granted_at

    def failed(self, now: float, failure: Failure, retry_in_s: float | None, usage: Usage | None) -> AttemptFailed:
        return AttemptFailed(
            now,
            self.id,
            self.agent.name,
            self.request.lane,
            self.attempts,
            failure.kind,
            failure.status,
            failure.message,
            retry_in_s,
            usage,
            failure.retryable,
            failure.delay_s,
        )

    @property
    def at_fault(self) -> bool:
        """Whether its failure is its own, so that no further attempt helps."""
        return self.fault is not None and self.fault.own

    @property
    def waiting(self) -> bool:
        """Whether it is queued or between two attempts."""
        return self.state is TicketState.QUEUED or self.state is TicketState.BACKING_OFF

    @property
    def in_queue(self) -> bool:
        """Whether it is queued, ready to be sent."""
        return self.state is TicketState.QUEUED

    @property
    def overdue_at(self) -> float:
        """When it goes before its agent's other requests: after a minute, or after half the time that it may wait."""
        return self.times[1]

    @property
    def turn_at(self) -> float:
        """From when on no request of its agent that comes later passes it: the longer its prompt, the later, up to half
        of what makes it overdue. The prompt's length counts, since estimates change with what is learned, and the
        agent's next requests would pass its first ones."""
        return self.times[0]

    @property
    def times(self) -> tuple[float, float]:
        """Its `turn_at` and `overdue_at`."""
        request = self.request
        bound_s = 0.5 * (self.expires_at - self.arrived_at)
        if bound_s > OVERDUE_S:
            bound_s = OVERDUE_S
        came_at, later_s = self.arrived_at - request.waited_s, request.size_chars / CHARS_PER_S
        return came_at + (later_s if later_s < 0.5 * bound_s else 0.5 * bound_s), came_at + bound_s

    @property
    def weight(self) -> float:
        """Estimated cost in weighted tokens (see :attr:`Usage.weighted`)."""
        return self.estimated_input + 5.0 * self.estimated_output
