"""How a world stands, as a value that can be written down and gone on from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from hivemind.scheduler.events import Arrived, AttemptFailed, BudgetState, Event, Granted, TaskAdded
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.types import Priority, Usage, record
from hivemind.world.snapshot import CurvePoint, Line


@dataclass(slots=True)
class AgentState:
    """An agent, without its open requests."""

    name: str
    client: str = ""
    parent: str | None = None
    priority: Priority = Priority.NORMAL
    boosted_until: float = 0.0
    nudge: int = 0
    paused: bool = False
    stopped: bool = False
    budget: BudgetState | None = None
    """As the last sample had it."""
    running: bool | None = None
    exit_code: int | None = None
    task: str | None = None
    """The task that its process was started for."""
    cut_at: float = 0.0
    """When the operator last stopped it."""
    cut: int = 0
    """Requests in flight that this stop ended."""
    turned_away: int = 0
    """Queued requests that it ended."""
    requests: int = 0
    finished: int = 0
    failed: int = 0
    retries: int = 0
    rescued: int = 0
    spoiled: bool = False
    """It saw an error that isn't the operator's doing, so nothing saved it."""
    saved_tokens: int = 0
    """Tokens it had used when a fault would last have ended it."""
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    priced: int = 0
    """Tokens that cost so much; those beyond have no known price, or not yet."""
    ttft_s: float | None = None
    waited_s: float = 0.0
    served_s: float = 0.0
    last_seen: float = 0.0
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class AttemptState:
    """As of :class:`~hivemind.world.tickets.Attempt`."""

    granted: Granted
    first_content_at: float | None
    ended_at: float | None
    failed: AttemptFailed | None


NoteState = tuple[float, str, tuple[int | float | str | None, ...]]
"""As of :data:`~hivemind.world.tickets.Note`; a level without a limit is None."""


@dataclass(frozen=True, slots=True)
class OpenTicket:
    """A request that isn't over, as of :class:`~hivemind.world.tickets.TicketFold`, whose names these are."""

    arrived: Arrived
    provider: str
    priority: Priority
    state: str
    since: float
    attempt: int
    attempts: tuple[AttemptState, ...]
    waited_s: float
    output_tokens: int
    usage: Usage | None
    retry_at: float | None
    last_error: str
    gate: str
    notes: tuple[NoteState, ...]


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """As of :class:`~hivemind.world.tasks.TaskFold`, whose names these are."""

    added: TaskAdded
    number: int
    own: Priority
    priority: Priority
    state: str
    since: float
    attempt: int
    note: str
    ran_s: float
    tokens: int
    dollars: float
    used_before: tuple[int, float] | None
    """Where it runs: what its agent had used, in tokens and dollars, when it began to."""


TASK_TAKEN = (*(each.name for each in fields(TaskRecord) if each.name != "used_before"), "moved")
"""Of a task, what is taken of it."""
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Over everything, as of :class:`~hivemind.world.fold.Fold`."""

    requests: int
    finished: int
    failed: int
    refused: int
    left: int
    retries: int
    rescued: int
    usage: Usage
    wasted: Usage
    dollars: float
    priced: int


@dataclass(frozen=True, slots=True)
class WorldState:
    """All of it but the requests that are over, and usage that isn't priced yet, which stays so."""

    at: float
    started_at: float
    paused: bool
    drained: bool
    ending: bool
    agents: tuple[AgentState, ...]
    """By first appearance."""
    tickets: tuple[OpenTicket, ...]
    """By arrival."""
    lanes: tuple[LaneState, ...]
    sampled_at: float
    """When the lanes were as told here."""
    providers: tuple[tuple[str, str], ...]
    """By lane."""
    curves: tuple[tuple[str, tuple[CurvePoint, ...]], ...]
    """By lane."""
    marks: tuple[tuple[str, str], ...]
    """By lane, for the curve's next point."""
    pool: BudgetState | None
    spent: tuple[tuple[str | None, str], ...]
    """Owners of budgets of which nothing is left, and what those cover."""
    tasks: tuple[TaskRecord, ...]
    """The one that moved last at the end."""
    numbered: int
    """Tasks that there ever were."""
    lines: tuple[Line, ...]
    counts: Counts


@record
class Carried(Event):
    """How the world stood at this moment, so that what follows can be read without what was before."""

    state: WorldState
