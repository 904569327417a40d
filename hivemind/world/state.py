"""The state of a world as a value that can be written to a journal and restored."""

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
    """The state of an :class:`~hivemind.world.lifecycle.Attempt`."""

    granted: Granted
    first_content_at: float | None
    ended_at: float | None
    failed: AttemptFailed | None


NoteState = tuple[float, str, tuple[int | float | str | None, ...]]
"""A :data:`~hivemind.world.tickets.Note`, with None for an unlimited level."""


@dataclass(frozen=True, slots=True)
class OpenTicket:
    """The state of an open :class:`~hivemind.world.tickets.TicketFold`."""

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
    """The state of a :class:`~hivemind.world.tasks.TaskFold`."""

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
    """While it runs: the tokens and dollars that its agent had used when it began."""


TASK_TAKEN = (*(each.name for each in fields(TaskRecord) if each.name != "used_before"), "moved")
"""The fields of a task that are captured."""
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals since the proxy started."""

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
    """Everything but ended requests, and usage that isn't priced yet, which stays unpriced."""

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
    """When the lanes were sampled."""
    providers: tuple[tuple[str, str], ...]
    """By lane."""
    curves: tuple[tuple[str, tuple[CurvePoint, ...]], ...]
    """By lane."""
    marks: tuple[tuple[str, str], ...]
    """By lane, for the curve's next point."""
    pool: BudgetState | None
    spent: tuple[tuple[str | None, str], ...]
    """Owners of exhausted budgets, and what each budget covers."""
    tasks: tuple[TaskRecord, ...]
    """By last move."""
    numbered: int
    """Tasks ever added."""
    lines: tuple[Line, ...]
    counts: Counts


@record
class Carried(Event):
    """The state at this moment, so that what follows can be read without what was before."""

    state: WorldState
