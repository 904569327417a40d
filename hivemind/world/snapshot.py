"""The world now: frozen views that the screen and `/_stats` read.

Built by :mod:`hivemind.world` as a fold over the events, so a live proxy, a proxy elsewhere and a recording all look
the same. Times are seconds; `at` and the `*_at` fields are on the proxy's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.types import Priority, Usage, record

TICKET_STATES = ("queued", "retry", "waiting", "streaming")
"""In the queue; between two attempts; flying before the first content; flying after it."""


@record
class TicketView:
    """A request that isn't over yet."""

    ticket: int
    agent: str
    lane: str
    model: str
    priority: Priority
    state: str
    """One of :data:`TICKET_STATES`."""
    since_s: float
    """In this state."""
    age_s: float
    """Since arrival."""
    attempt: int
    """Attempts begun."""
    output_tokens: int
    """So far; an estimate while it streams."""
    estimated_tokens: int
    retry_in_s: float | None
    last_error: str
    stream: bool
    gate: str = ""
    """What keeps it waiting, one of :data:`~hivemind.scheduler.gauges.GATES`; empty while it flies."""
    gate_opens_in_s: float | None = None
    """Until that gate opens by itself, where that is known."""
    position: int | None = None
    """Its place in the lane's queue, from 1; None where it stands in none or too far back to say."""
    estimate_s: float | None = None
    """Until it flies, about; None: nobody can tell."""


@record
class AgentView:
    """An agent and what became of its requests."""

    name: str
    client: str
    parent: str | None
    priority: Priority
    state: str
    """A ticket state, or `idle`, `paused`, `stopped`, `spent` (a budget of its is used up), `pending` (its task waits
    for others)."""
    paused: bool
    flying: int
    queued: int
    requests: int
    """Requests seen."""
    finished: int
    failed: int
    """Requests that ended in an error for the agent."""
    retries: int
    """Attempts that failed and were made good unseen."""
    rescued: int
    """Requests that succeeded after at least one failed attempt."""
    usage: Usage
    ttft_s: float | None
    """Of the last answer."""
    waited_s: float
    """In the queue, over all its requests, those that wait there now included."""
    last_seen_s: float
    """Ago."""
    last_error: str
    dollars: float = 0.0
    """Cost of what it used, by public prices, as far as those are known."""
    unpriced: int = 0
    """Tokens it used of models whose price isn't known."""
    served_s: float = 0.0
    """From arrival to the last byte, over its finished requests."""
    boosted_for_s: float = 0.0
    """It counts as CRITICAL for so much longer."""
    stopped: bool = False
    budget: BudgetState | None = None
    """Its own, or its subtree's."""
    task: str | None = None
    """The one it works on, or waits to."""
    running: bool | None = None
    """Whether its process runs, where the runner started it; None: somebody else did."""
    nudge: int = 0
    """Dynamic priority counts it so many classes less urgent than `priority`, or (negative) more."""
    exit_code: int | None = None
    """Of its process, where that has ended; negative: the signal that ended it."""


@record
class TaskView:
    """A task of the graph."""

    id: str
    batch: str
    agent: str
    state: str
    """One of :data:`~hivemind.scheduler.tasks.graph.TASK_STATES`."""
    priority: Priority
    """What it counts as: its own, or that of whoever waits for it."""
    own_priority: Priority
    estimated_tokens: int
    after: tuple[str, ...]
    attempt: int
    """Times it was started."""
    note: str
    """Why it stands where it does."""
    since_s: float
    """In this state."""
    ran_s: float
    """While it was running, all attempts together."""
    tokens: int
    """Used by its agent while it was running."""
    dollars: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One moment of a lane's concurrency curve."""

    at: float
    level: float
    active: int
    waiting: int
    ttft_s: float | None
    mark: str
    """Cause of a cut at this moment, or the knob that was turned (as `aimd.beta=0.7`), else empty."""


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane's gauges and its recent past."""

    state: LaneState
    curve: tuple[CurvePoint, ...]
    """Oldest first, about one point a second, ten minutes at most."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the event log, ready for people."""

    at: float
    wall: float
    """Seconds since the epoch."""
    level: str
    """`info`, `good`, `warn` or `bad`."""
    tag: str
    """Short word: `429`, `retry`, `aimd`, `circuit`, `you`, `lane` …"""
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals since the proxy started."""

    requests: int
    finished: int
    failed: int
    refused: int
    abandoned: int
    retries: int
    rescued: int
    """Requests that succeeded after at least one failed attempt, unseen by their agents."""
    agents_saved: int
    """Agents with at least one rescued request and no failed one."""
    tokens_saved: int
    """Tokens those agents had used when a fault would have ended them."""
    usage: Usage
    wasted: Usage
    """Used by attempts that failed or that a client left."""
    dollars: float = 0.0
    """Cost of all of that, wasted or not, as far as prices are known."""
    unpriced: int = 0
    """Tokens of models whose price isn't known."""


@dataclass(frozen=True, slots=True)
class RecordingView:
    """The journal that the proxy writes."""

    path: str
    """Of the part that is being written."""
    bytes: int
    """Written so far, all parts together."""
    lost: int
    """Events that are missing in it."""
    failing: str
    """Why it can't be written now; empty: it can."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the control room shows at one moment."""

    at: float
    wall: float
    uptime_s: float
    mode: str
    """`serving`, `paused` or `draining`."""
    address: str
    """Base URL of the proxy."""
    upstreams: tuple[tuple[str, str], ...]
    """Name and URL (without credentials) of each."""
    lanes: tuple[LaneView, ...]
    slots: tuple[TicketView, ...]
    """Flying tickets, oldest first."""
    queue: tuple[TicketView, ...]
    """Waiting tickets in the order in which they would fly, as far as that is known; at most :data:`QUEUE_SHOWN`."""
    queued: int
    """All waiting tickets, shown or not."""
    agents: tuple[AgentView, ...]
    """By first appearance."""
    lines: tuple[Line, ...]
    """Newest last, 200 at most."""
    totals: Totals
    pool: BudgetState | None = None
    """The budget of all agents together."""
    tasks: tuple[TaskView, ...] = ()
    """By arrival; of those that have ended only the latest, :data:`TASKS_SHOWN` in all."""
    task_counts: Mapping[str, int] = field(default_factory=dict)
    """By state, how many tasks there are, shown or not."""
    recording: RecordingView | None = None
    """None: nothing is recorded."""


QUEUE_SHOWN = 100
TASKS_SHOWN = 500
