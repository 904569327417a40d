"""How a world stands, as a value that can be written down and gone on from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hivemind.scheduler.events import Arrived, AttemptFailed, BudgetState, Event, Granted, TaskAdded
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.types import Priority, Usage, record
from hivemind.world.snapshot import CurvePoint, Line


@dataclass(frozen=True, slots=True)
class AgentState:
    """As of :class:`~hivemind.world.agents.AgentFold`, whose names these are."""

    name: str
    client: str
    parent: str | None
    priority: Priority
    boosted_until: float
    nudge: int
    paused: bool
    stopped: bool
    budget: BudgetState | None
    running: bool | None
    exit_code: int | None
    task: str | None
    cut_at: float
    cut: int
    turned_away: int
    requests: int
    finished: int
    failed: int
    retries: int
    rescued: int
    spoiled: bool
    saved_tokens: int
    usage: Usage
    dollars: float
    priced: int
    ttft_s: float | None
    waited_s: float
    served_s: float
    last_seen: float
    last_error: str


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


TASK_TAKEN = (*(field.name for field in fields(TaskRecord) if field.name != "used_before"), "moved")
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
