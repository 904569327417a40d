"""How a world stands, as a value that can be written down and gone on from."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.scheduler.events import Arrived, AttemptFailed, BudgetState, Granted, TaskAdded
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.types import Priority, Usage
from hivemind.snapshot import CurvePoint, Line


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
class OpenTicket:
    """A request that isn't over, by what was told of it."""

    arrived: Arrived
    grants: tuple[Granted, ...]
    failures: tuple[AttemptFailed, ...]
    first_content_at: float | None
    """Of the attempt that goes on."""
    output_tokens: int
    priority: Priority


@dataclass(frozen=True, slots=True)
class TaskStands:
    """As of :class:`~hivemind.world.tasks.TaskFold`, whose names these are."""

    added: TaskAdded
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


@dataclass(frozen=True, slots=True)
class Counts:
    """As of :class:`~hivemind.world.fold.World`."""

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
    """All of it but the requests that are over."""

    at: float
    started_at: float
    paused: bool
    drained: bool
    ending: bool
    agents: tuple[AgentState, ...]
    tickets: tuple[OpenTicket, ...]
    lanes: tuple[LaneState, ...]
    curves: tuple[tuple[str, tuple[CurvePoint, ...]], ...]
    """By lane."""
    pool: BudgetState | None
    tasks: tuple[TaskStands, ...]
    lines: tuple[Line, ...]
    counts: Counts
