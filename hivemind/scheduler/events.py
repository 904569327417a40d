"""Everything that happens, as one typed event each.

The screen, the metrics, the journal and whatever is worked out from it are folds over this one stream, so whatever they
show must be here. `at` is seconds from the proxy's monotonic clock. No event carries a credential or request content.
"""

from __future__ import annotations

from typing import Any

from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading, record


@record
class Event:
    """Root of all events."""

    at: float


@record
class Arrived(Event):
    """A request came in and holds a ticket now."""

    ticket: int
    agent: str
    lane: str
    model: str
    family: str
    priority: Priority
    stream: bool
    estimated_input: int
    estimated_output: int
    client: str = ""
    parent: str | None = None
    asked: Priority | None = None
    """The priority that the request itself asked for."""
    size_chars: int = 0
    max_output_tokens: int | None = None
    patience_s: float | None = None
    path: str = ""
    """What was asked for: the path, without its query; see :attr:`Request.path`."""


@record
class Granted(Event):
    """The ticket got a slot; attempt number `attempt` (from 1) starts."""

    ticket: int
    agent: str
    lane: str
    attempt: int
    waited_s: float
    """Since the ticket last joined the queue."""


@record
class FirstContent(Event):
    """The first content of the answer is here; from now on the request can't be retried unseen."""

    ticket: int
    agent: str
    lane: str
    ttft_s: float
    """Since the attempt began."""
    headed_s: float | None = None
    """Likewise, when the reply's head told of rate limits; None: it didn't."""


@record
class Progress(Event):
    """A stream goes on: output tokens so far (an estimate until the provider says)."""

    ticket: int
    agent: str
    lane: str
    output_tokens: int


@record
class AttemptFailed(Event):
    """An attempt failed. `retry_in_s` says when the next one may start; None: the failure went to the client."""

    ticket: int
    agent: str
    lane: str
    attempt: int
    kind: FailureKind
    status: int | None
    message: str
    retry_in_s: float | None
    usage: Usage | None = None
    """Tokens that the failed attempt is known to have used."""
    retryable: bool = True
    """As of :class:`~hivemind.scheduler.types.Failure`."""
    delay_s: float | None = None
    """The provider's own word on when to come back."""


@record
class Finished(Event):
    """The request was answered; the slot is back."""

    ticket: int
    agent: str
    lane: str
    model: str
    status: int
    attempts: int
    usage: Usage | None
    duration_s: float
    """From arrival to the last byte."""


@record
class Abandoned(Event):
    """The client left before the end; everything it held is free again."""

    ticket: int
    agent: str
    lane: str
    flying: bool
    usage: Usage | None = None


@record
class Refused(Event):
    """HiveMind answered the request itself, with an error."""

    ticket: int | None
    agent: str
    lane: str
    reason: str
    status: int


@record
class LevelChanged(Event):
    """AIMD (or the operator) set another concurrency level."""

    lane: str
    level: float
    cause: str
    """`grow`, `latency`, `circuit`, `operator`, or the failure kind that cut it."""


@record
class CircuitChanged(Event):
    """The circuit breaker moved."""

    lane: str
    state: str
    """`closed`, `open` or `half_open`."""
    cause: str
    reopens_in_s: float | None = None


@record
class LaneParked(Event):
    """The provider asked for a pause; nothing of the lane flies until it is over."""

    lane: str
    for_s: float
    cause: str


@record
class LaneReleased(Event):
    """The pause is over (or the operator ended it)."""

    lane: str


@record
class Commanded(Event):
    """A command was carried out."""

    who: str
    name: str
    arguments: dict[str, Any]


@record
class BoostEnded(Event):
    """The agent has its own priority again."""

    agent: str


@record
class Nudged(Event):
    """Dynamic priority moved an agent."""

    agent: str
    classes: int
    """It counts so many classes less urgent (or, negative, more) than it otherwise would; 0: as it otherwise would."""


@record
class BudgetState:
    """A budget and how it stands; part of :class:`BudgetWarned` and :class:`Sampled`."""

    owner: str | None
    """The agent whose it is; None: the pool, which all agents share."""
    tokens: int | None
    dollars: float | None
    """The ceilings; None: none of that kind."""
    per: str
    """What it counts: `run`, `day` or `ever` (:class:`~hivemind.scheduler.ledger.accounts.Budget`)."""
    covers: str
    """`agent`, `subtree` (it and all agents that it started) or `all`."""
    used_tokens: int
    used_dollars: float
    unpriced: int
    """Of the used tokens those whose price isn't known, so that they aren't in the dollars."""
    reserved_tokens: int = 0
    """Estimated, of what flies."""

    @property
    def share(self) -> float:
        """How much of it is used, 1 being all; the larger where it has two ceilings."""
        tokens = 0.0 if self.tokens is None else self.used_tokens / self.tokens
        return max(tokens, 0.0 if self.dollars is None else self.used_dollars / self.dollars)


@record
class BudgetWarned(Event):
    """A budget crossed a mark."""

    agent: str
    """Whose request crossed it, which is its owner unless the budget covers several."""
    state: BudgetState
    exhausted: bool
    """Nothing is left; else 85 % are used."""


@record
class PriceUnknown(Event):
    """A model was used whose price isn't known, so it can't be counted against a budget in dollars; told once a model
    and agent."""

    agent: str
    model: str


@record
class AgentBegan(Event):
    """An agent's process was started by the runner."""

    agent: str
    parent: str | None
    task: str | None
    resumed: bool
    """It goes on where it was stopped, so its run does too."""


@record
class AgentRecalled(Event):
    """What was decided about an agent before a restart holds again."""

    agent: str
    parent: str | None
    priority: Priority | None
    """None: nobody decided."""
    paused: bool
    stopped: bool


@record
class AgentEnded(Event):
    """An agent's process has ended."""

    agent: str
    exit_code: int | None
    """Negative: the number of the signal that ended it; None: nobody knows, its runner is gone."""


@record
class TaskAdded(Event):
    """A task is known from now on."""

    task: str
    batch: str
    agent: str
    priority: Priority
    estimated_tokens: int
    after: tuple[str, ...]


@record
class TaskChanged(Event):
    """A task moved, or counts as another priority."""

    task: str
    state: str
    """One of :data:`~hivemind.scheduler.tasks.graph.TASK_STATES`."""
    priority: Priority
    """What it counts as: its own, or that of whoever waits for it."""
    attempt: int
    """Times it was started."""
    note: str
    """Why, for people: `exit code 1`, `lint failed` …"""


@record
class TaskForgotten(Event):
    """A task isn't known any more."""

    task: str


@record
class LaneOpened(Event):
    """A lane was seen for the first time."""

    lane: str
    upstream: str
    provider: str
    config: LaneConfig | None = None
    """What it begins with."""


@record
class LimitsRead(Event):
    """What a reply said of the rate windows, told when that is news: once a second and family at most."""

    lane: str
    family: str
    readings: tuple[WindowReading, ...]


@record
class ResetDoubted(Event):
    """A reply stated a reset that its rate window can't have, or said that nothing is left until such a reset.

    One request at a time goes through to check (:mod:`~hivemind.scheduler.limits.window`). Emitted once per lane, kind
    and cause.
    """

    lane: str
    family: str
    kind: WindowKind
    reset_in_s: float
    """As stated, cut to a number that can be written down."""
    absurd: bool
    """No rate window lasts so long, so the reset counts as not stated."""


@record
class Sampled(Event):
    """Gauges of every lane, taken about once a second while anything changes, so that a replay can show them."""

    lanes: tuple[LaneState, ...]
    budgets: tuple[BudgetState, ...] = ()
    """Every budget there is, the pool's first."""


@record
class RecordingChanged(Event):
    """The journal can't be written, or is written again."""

    why: str
    """Why it can't; empty: it is written again."""
    lost: int
    """Events that are missing in it since it couldn't be."""
