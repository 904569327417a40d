"""The state of a world as a value that can be written to a journal and restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.events import Arrived, AttemptFailed, BudgetState, Event, Granted, LaneState, TaskAdded
from hivemind.scheduler.types import Priority, Usage
from hivemind.world.health import Alert
from hivemind.world.slow import SlowState
from hivemind.world.snapshot import AgentState, Alarm, CurvePoint, Line, ModelView, Tally
from hivemind.world.vitals import VitalsState


class AttemptState(Struct):
    """One try upstream."""

    granted: Granted
    first_content_at: float | None = None
    ended_at: float | None = None
    """When it ended; None while it is in flight."""
    failed: AttemptFailed | None = None
    """Its failure, if it failed."""


Note = tuple[float, str, tuple[int | float | str | None, ...]]
"""A decision about a request: when, what (a gate, or `priority` or `boost`), and the numbers
for its sentence: of a gate how many were ahead, the lane's level (None: no limit), and in how many seconds it opens."""


@dataclass(slots=True)
class OpenTicket:
    """An open request."""

    arrived: Arrived
    provider: str
    priority: Priority = Priority.NORMAL
    state: str = "queued"
    """One of :data:`~hivemind.world.snapshot.TICKET_STATES`, or once it has ended of
    :data:`~hivemind.world.snapshot.ENDS`."""
    since: float = 0.0
    """When it entered that state."""
    attempt: int = 0
    """Attempts begun."""
    attempts: Sequence[AttemptState] = field(default_factory=list)
    waited_s: float = 0.0
    """In the queue and between attempts, over all waits that a grant has ended."""
    output_tokens: int = 0
    """Counted by the provider; a fold that shows streams may set it from `Progress` meanwhile."""
    usage: Usage | None = None
    retry_at: float | None = None
    """When it goes back to the queue, while it is in state `retry`."""
    last_error: str = ""
    gate: str = ""
    """The gate that the last note is about."""
    notes: list[Note] = field(default_factory=list)


class TaskRecord(Struct):
    """A task. Times are on the proxy's clock."""

    added: TaskAdded
    number: int
    """By arrival."""
    own: Priority
    priority: Priority
    state: str = "waiting"
    since: float = 0.0
    attempt: int = 0
    note: str = ""
    ran_s: float = 0.0
    """In attempts that are over, and what its agent used in them."""
    tokens: int = 0
    dollars: float = 0.0
    used_before: tuple[int, float] | None = None
    """While it runs: the tokens and dollars that its agent had used when it began."""
    runs: tuple[tuple[float, float], ...] = ()
    """When each attempt that is over began and ended, oldest first; the latest
    :data:`~hivemind.world.snapshot.RUNS_KEPT`."""
    paused_until: float = 0.0


class Counts(Tally):
    """Totals since the proxy started."""

    left: int = 0
    wasted: Usage = msgspec.field(default_factory=Usage)
    priced: int = 0
    """Tokens with that cost; the others have no known price, or not yet."""
    agents_recovered: int = 0
    """Agents of which a request was retried OK before they saw an error."""
    recovered_tokens: int = 0
    """What they had used by their last such request."""


class WorldState(Struct, frozen=True):
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
    alarms: tuple[Alarm, ...] = ()
    levels: tuple[tuple[str, float], ...] = ()
    """By lane, the level now, where it is limited."""
    cuts: tuple[tuple[str, tuple[float, float]], ...] = ()
    """By lane, :attr:`~hivemind.world.snapshot.CurvePoint.cut` of the curve's next point."""
    vitals: VitalsState | None = None
    """None: an older version wrote the journal, or it is several proxies'."""
    alerts: tuple[Alert, ...] = ()
    """That raised last first."""
    models: tuple[ModelView, ...] = ()
    """By first use."""
    slow: SlowState | None = None
    """None: an older version wrote the journal, or it is several proxies'."""
    notices: tuple[str, ...] = ()


def counted(state: WorldState) -> Counts:
    """Return a copy of a state's counts; what older versions didn't count is what its agents tell."""
    counts = replace(state.counts)
    if not counts.agents_recovered:
        found = [agent.saved_tokens for agent in state.agents if agent.retried_ok and not agent.spoiled]
        counts.agents_recovered, counts.recovered_tokens = len(found), sum(found)
    return counts


class Carried(Event, frozen=True):
    """The state at this moment, so that what follows can be read without what was before."""

    state: WorldState


_PER_AGENT, _PER_TASK = len(AgentState.__struct_fields__), len(TaskRecord.__struct_fields__)


class Capture(Struct, frozen=True):
    """The state of a world, captured at once and converted to a value later.

    Only capturing has to happen between two events; it takes a microsecond an agent, request or task. The rest may be
    done in another thread, and in pieces. Values of agents and tasks are flat lists, because the garbage collector
    would visit each of as many tuples.
    """

    rest: WorldState
    """Everything but agents and tasks."""
    agents: list[Any]
    """The values of all agents, one after the other; tasks likewise."""
    tasks: list[Any]

    def state(self) -> WorldState:
        """Return the whole state."""
        return replace(self.rest, agents=tuple(self.agent_states()), tasks=tuple(self.task_records()))

    def agent_states(self) -> Iterator[AgentState]:
        """Make the agents, one at a time."""
        return starmap(AgentState, zip(*[iter(self.agents)] * _PER_AGENT, strict=True))

    def task_records(self) -> Iterator[TaskRecord]:
        """Make the tasks, one at a time."""
        return starmap(TaskRecord, zip(*[iter(self.tasks)] * _PER_TASK, strict=True))
