"""What goes over the wire of the control API, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.ledger.accounts import Spent
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.store.checkpoints import Checkpoint
from hivemind.world.request_view import RequestView
from hivemind.world.snapshot import Snapshot

PREFIX = "/_control"
ANONYMOUS = "api"
"""Who signs an order that nobody signed."""


@dataclass(frozen=True, slots=True)
class NoInput:
    """No query, no body."""


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """What is known already."""

    run: str = ""
    """The run it was heard from; of another one than this, the whole is answered."""
    after: float | None = None
    """`at` of the snapshot that is known."""


@dataclass(frozen=True, slots=True)
class RequestsQuery:
    """Likewise."""

    run: str = ""
    since: int = 0
    """The last answer's revision."""


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command by name, as it stands in the event that tells of it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    who: str = ANONYMOUS
    """Signs the line in the log."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The command that was carried out, every argument told."""

    name: str
    arguments: Mapping[str, Any]
    who: str


@dataclass(frozen=True, slots=True)
class KnobValues:
    """Knobs to write down."""

    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SettingsDraft:
    """The proxy's settings file as it is and as it would be."""

    path: str
    before: str = field(repr=False)
    after: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DraftApproval:
    """A draft to write, just as it was drafted."""

    path: str
    before: str = field(repr=False)
    after: str = field(repr=False)
    who: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """The file that was written."""

    path: str


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A snapshot, of whose lanes' curves and whose lines only the newest may be there."""

    run: str
    """Of the proxy: another one at every start, and what is known of another run is void."""
    version: str
    """Of HiveMind."""
    whole: bool
    """Nothing is left out."""
    curves: tuple[int, ...]
    """How many points the curve of each lane has in all."""
    lines: int
    """How many lines there are in all."""
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class RequestsPart:
    """As :class:`hivemind.world.request_view.Requests`."""

    run: str
    version: str
    revision: int
    oldest: int
    changed: tuple[RequestView, ...]


@dataclass(frozen=True, slots=True)
class About:
    """The proxy, for whoever is to use it."""

    run: str
    version: str
    address: str
    """Base URL that agents use."""
    upstreams: tuple[tuple[str, str], ...]
    """Name and URL of each."""
    agents_token: bool
    """Agents must show a token, which is not the one for steering."""
    max_agents: int
    """Agents that the runner lets run at once; 0: no limit."""
    read_only: bool
    """Tools may change no setting, priority or budget."""
    tool_names: str
    """How tools are listed: `dots` or `underscores`."""
    state_dir: str | None
    """Where usage, tasks and checkpoints are kept; None: nowhere."""


@dataclass(frozen=True, slots=True)
class TasksQuery:
    """Which tasks."""

    batch: str | None = None
    """None: all."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task with everything that is known of it, its command too."""

    spec: TaskSpec
    state: str
    """One of :data:`~hivemind.scheduler.tasks.graph.TASK_STATES`."""
    priority: Priority
    """What it counts as."""
    attempt: int
    runner: str
    note: str


@dataclass(frozen=True, slots=True)
class TasksPart:
    """The tasks, by arrival."""

    run: str
    tasks: tuple[TaskState, ...]


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A runner wants the next eligible task that has a command."""

    runner: str
    """Unique to the runner and its run."""
    batch: str | None = None
    """None: of any batch, or none."""
    who: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class TaskClaim:
    """What it gets."""

    task: TaskState | None
    """Running from now on, which survives a crash; None: none is eligible."""
    open: int
    """Tasks of the batch that haven't ended, this one too."""
    running: int


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """A runner wants a place for an agent's process, or (`running`) keeps the one it has. Ask every two seconds."""

    agent: str
    parent: str | None = None
    task: str | None = None
    priority: Priority = Priority.NORMAL
    """Whose turn it is among those that queue."""
    running: bool = False
    resumed: bool = False
    """The agent goes on where it was stopped, so its run does too."""
    command: tuple[str, ...] = ()
    """What is started, so that it can be started again."""
    cwd: str = ""
    runner: str = ""
    """Unique to the runner and its run: one agent's name has one of them at a time."""
    fresh: bool = False
    """Only if the name is nobody's so far."""
    takes_token: bool = False
    """The runner hands the token that it is given to the process."""
    who: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class PlaceResponse:
    """Whether the process may start."""

    granted: bool
    ahead: int
    """Those whose turn is before, where it may not yet."""
    token: str = field(default="", repr=False)
    """What the process shows as an agent, which is good for that agent's name alone; empty: what others show."""


@dataclass(frozen=True, slots=True)
class PlaceRelease:
    """The process has ended, or isn't to be started."""

    agent: str
    exit_code: int | None = None
    """Negative: the number of the signal that ended it; None: it never ran."""
    runner: str = ""
    """As it asked for the place."""
    who: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What an agent, and those that it started, used in the run that has ended."""

    tokens: int
    dollars: float
    unpriced: int
    """Of the tokens those whose price isn't known."""
    checkpoint: str | None
    """Name of what was kept of it, where it was stopped or crashed."""
    used_up: BudgetState | None = None
    """A budget of which nothing is left, so that it would be refused if it asked again."""
    stopped: bool = False
    """Somebody has cut it off, and not let it ask again since."""


@dataclass(frozen=True, slots=True)
class BudgetsQuery:
    """Whose budgets."""

    agent: str | None = None
    """None: of all agents that are at hand."""


@dataclass(frozen=True, slots=True)
class AgentBudget:
    """What an agent, or all of them together, used, and what it may use."""

    agent: str | None
    """None: all agents together."""
    parent: str | None
    """The agent that started it."""
    budget: BudgetState | None
    """None: it has none of its own."""
    run: Spent
    """Since its run began."""
    day: Spent
    """Since midnight."""
    ever: Spent
    """Since it was first seen."""


@dataclass(frozen=True, slots=True)
class BudgetsPart:
    """Every budget, and how it stands."""

    run: str
    pool: AgentBudget
    """All agents together."""
    agents: tuple[AgentBudget, ...]
    """By first appearance, those without a budget too."""


@dataclass(frozen=True, slots=True)
class CheckpointsQuery:
    """Which checkpoints."""

    agent: str | None = None
    """None: of all agents."""


@dataclass(frozen=True, slots=True)
class CheckpointsPart:
    """What was kept of agents that were stopped or crashed, the newest first."""

    checkpoints: tuple[Checkpoint, ...]
    unreadable: tuple[str, ...]
    """One line for each file that can't be read."""


@dataclass(frozen=True, slots=True)
class CheckpointDetail:
    """One checkpoint, whole."""

    checkpoint: Checkpoint
    conversation: msgspec.Raw | None
    """The body of the agent's last request, or a text in base64 where that isn't JSON; None: it wasn't kept."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Every answer but a 200 holds this."""

    error: str
    """One line: what is wrong, and what would be right."""
