"""Requests and responses of the control API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.store.checkpoints import Checkpoint
from hivemind.world.snapshot import AgentView, RequestView, Snapshot

PREFIX = "/_control"
OFF = "the control API is off: this proxy has no control token; set HIVEMIND_CONTROL_TOKEN, or --state-dir to a folder"
"""What a proxy says that has no control API."""
ANONYMOUS = "api"
"""Author of a command without `who`."""


class NoInput(Struct, frozen=True):
    """An endpoint without query or body."""


class SnapshotQuery(Struct, frozen=True):
    """Which part of the snapshot the client has already."""

    run: str = ""
    """Run that it came from; if the proxy has another run, the answer is the whole snapshot."""
    after: float | None = None
    """`at` of the client's snapshot."""


class RequestsQuery(Struct, frozen=True):
    """Which requests the client has already."""

    run: str = ""
    since: int = 0
    """The last answer's revision."""


class CommandRequest(Struct, frozen=True):
    """A command by name, with the same fields as its event in the journal."""

    name: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    who: str = ANONYMOUS
    """Author, shown in the log."""


class CommandResult(Struct, frozen=True):
    """The command that was executed, with all of its arguments."""

    name: str
    arguments: Mapping[str, Any]
    who: str


class KnobValues(Struct, frozen=True):
    """Knobs to write to the settings file."""

    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SettingsDraft:
    """The proxy's settings file before and after a change."""

    path: str
    before: str = field(repr=False)
    after: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DraftApproval(SettingsDraft):
    """A draft to write, unchanged."""

    who: str = ANONYMOUS


class WrittenFile(Struct, frozen=True):
    """Path of the file that was written."""

    path: str


class SnapshotPart(Struct, frozen=True):
    """A snapshot; its log lines and its lanes' curves may be the newest only."""

    run: str
    """Id of the proxy's run, new at every start; data of another run is void."""
    version: str
    """Of HiveMind."""
    whole: bool
    """The snapshot is complete."""
    curves: tuple[int, ...]
    """Length of each lane's whole curve."""
    lines: int
    """Number of all log lines."""
    snapshot: Snapshot


class RequestsPart(Struct, frozen=True):
    """A page of requests, as :class:`hivemind.world.snapshot.Requests`."""

    run: str
    version: str
    revision: int
    oldest: int
    changed: tuple[RequestView, ...]


class About(Struct, frozen=True):
    """Facts about the proxy for its clients."""

    run: str
    version: str
    address: str
    """Base URL that agents use."""
    upstreams: tuple[tuple[str, str], ...]
    """Name and URL of each."""
    agents_token: bool
    """Agents must send a token, which isn't the control token."""
    max_agents: int
    """Most agents that runners start at once; 0: no limit."""
    read_only: bool
    """Tools may change no setting, priority or budget."""
    state_dir: str | None
    """Folder of usage, tasks and checkpoints; None: they aren't stored."""
    idle_exit_s: float = 0.0
    """Seconds without use after which it ends; 0: it runs until it is told to end."""


class TasksQuery(Struct, frozen=True):
    """Filter of the list of tasks."""

    batch: str | None = None
    """None: all."""
    running: bool = False
    """Only those that run."""


NOBODY = "no runner is there to start its command; hivemind work is one"
"""What a task without a runner waits for."""


class TaskState(Struct, frozen=True):
    """A task with its specification."""

    spec: TaskSpec
    state: str
    """One of :data:`~hivemind.scheduler.tasks.TASK_STATES`."""
    priority: Priority
    """Effective priority, which may be inherited."""
    attempt: int
    runner: str
    note: str
    attended: bool = True
    """False: it has a command, hasn't been started, and no runner is there that may start it."""
    paused_s: float = 0.0
    """In how many seconds it becomes eligible, if it is paused until a plan's window is whole again."""


class TasksPart(Struct, frozen=True):
    """The tasks, in order of submission."""

    run: str
    tasks: tuple[TaskState, ...]


class ClaimRequest(Struct, frozen=True):
    """A runner's request for the next eligible task with a command."""

    runner: str
    """Unique id of this run of the runner."""
    batch: str | None = None
    """None: any that isn't a plan's, and whose batch has no runner of its own."""
    who: str = ANONYMOUS
    worker: str = ""
    """The runner as long as it lives, if it runs what comes: it is there for some seconds after each request."""
    wants: bool = True
    """False: it is only there, and is to get no task."""


class TaskClaim(Struct, frozen=True):
    """The claimed task, if any, and what is left of the batch, or (without one) of the tasks that it may claim."""

    task: TaskState | None
    """The task, which is now running, also after a crash; None: none is eligible."""
    open: int
    """Tasks of the batch that haven't ended, including this one."""
    running: int
    paused: int = 0


class PlaceRequest(Struct, frozen=True):
    """A runner's request for a place for an agent's process, or (`running`) to keep it; sent every two seconds."""

    agent: str
    parent: str | None = None
    task: str | None = None
    priority: Priority = Priority.NORMAL
    """Order among the processes that wait for a place."""
    running: bool = False
    resumed: bool = False
    """The agent resumes, so its run continues."""
    command: tuple[str, ...] = ()
    """The command, so that the agent can be resumed."""
    cwd: str = ""
    runner: str = ""
    """Unique id of this run of the runner; an agent's name belongs to one at a time."""
    fresh: bool = False
    """Refuse if the agent's name is known already."""
    takes_token: bool = False
    """The runner passes the agent's token to the process."""
    process: str = ""
    """The process whose descendants are the run's, as `PID STARTED` (field 22 of Linux's /proc/PID/stat); empty:
    unknown."""
    deadline: float | None = None
    """By when the turns of its requests have to come, in seconds since the epoch; None: it has no deadline."""
    group: bool = False
    """It is no process, but a runner as the parent of the agents that it starts; it takes no place."""
    who: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class PlaceResponse:
    """Whether the process may start."""

    granted: bool
    ahead: int
    """Number of processes that wait before this one."""
    token: str = field(default="", repr=False)
    """The agent's own token, valid for its name only; empty: it uses the agents' common token."""
    run_token: str = field(default="", repr=False)
    """The run's token for the control API and the tools, once granted; valid until the run ends."""
    refused: str = ""
    """Why it isn't even queued: its tree is too deep or too large. Empty: it is queued, or granted."""


class PlaceRelease(Struct, frozen=True):
    """Release a place: the process has ended, or won't be started."""

    agent: str
    exit_code: int | None = None
    """Negative: the number of the signal that ended it; None: it never ran."""
    runner: str = ""
    """Runner id of the request for the place."""
    who: str = ANONYMOUS
    client: str = ""
    """The client that the command starts, as `codex`; empty: unknown, or several."""
    asked: bool = False
    """An operator ended the process, with a signal that its runner passed on; so it didn't crash."""


class RunUsage(Struct, frozen=True):
    """Usage, in the run that ended, of an agent and the agents that it started."""

    tokens: int
    dollars: float
    unpriced: int
    """Tokens without a known price."""
    checkpoint: str | None
    """Name of its checkpoint, if it was stopped or crashed."""
    used_up: BudgetState | None = None
    """An exhausted budget, because of which its next request would be refused."""
    stopped: bool = False
    """An operator stopped it, and hasn't resumed it since."""
    estimated: int = 0
    """Of the tokens, those that the providers didn't state."""
    requests: int | None = None
    """Requests on the run's path since its process began, those of agents that it started included; None: unknown,
    because the proxy was restarted meanwhile."""
    elsewhere: tuple[str, ...] = ()
    """Agents without a run of which the same client sent requests meanwhile; none if the process failed."""
    whole_at: float | None = None
    """When the long windows of a plan are whole again because of which its last requests were refused, in seconds since
    the epoch; None: they weren't, or nobody knows."""


class AgentQuery(Struct, frozen=True):
    """Filter of the lists of budgets and checkpoints."""

    agent: str | None = None
    """None: all agents."""


class AgentBudget(Struct, frozen=True):
    """Usage and budget of an agent, or of all agents together."""

    agent: str | None
    """None: all agents together."""
    parent: str | None
    """The agent that started it."""
    budget: BudgetState | None
    """None: it has no budget of its own."""
    run: Spent
    """Since its run began."""
    day: Spent
    """Since midnight."""
    ever: Spent
    """Since it was first seen."""
    within: str | None = None
    """The agent of the list whose usage includes this one's, because it is a sub-agent in that one's process."""
    month: Spent = msgspec.field(default_factory=Spent)
    """Since that of the first."""


class OtherUsage(Struct, frozen=True):
    """What the agents used that aren't listed: those of long ago, when there were many."""

    day: Spent
    """Since midnight."""
    ever: Spent


class BudgetsPart(Struct, frozen=True):
    """All budgets with their usage. What the others used, and the agents that aren't within another, adds up to the
    pool, today and in all; an agent's run may have begun later than the pool's."""

    run: str
    pool: AgentBudget
    """All agents together."""
    agents: tuple[AgentBudget, ...]
    """Those at hand in order of first appearance, then those of earlier, also without a budget."""
    others: OtherUsage | None = None
    """None: they used nothing, or one agent was asked for."""

    def with_others(self) -> BudgetsPart:
        """Return this with what of the pool's usage is no listed agent's."""
        apart = [each for each in self.agents if each.within is None]
        day = reduce(Spent.minus, (each.day for each in apart), self.pool.day)
        ever = reduce(Spent.minus, (each.ever for each in apart), self.pool.ever)
        return replace(self, others=OtherUsage(day, ever) if ever.tokens > 0 else None)


class CheckpointsPart(Struct, frozen=True):
    """Checkpoints of agents that were stopped or crashed, the newest first."""

    checkpoints: tuple[Checkpoint, ...]
    unreadable: tuple[str, ...]
    """A line for each file that can't be read."""


class CheckpointDetail(Struct, frozen=True):
    """A checkpoint with its conversation."""

    checkpoint: Checkpoint
    conversation: msgspec.Raw | None
    """The body of the agent's last request, or base64 text if that isn't JSON; None: it wasn't stored."""


class FleetAgents(Struct, frozen=True):
    """The agents of all proxies of the fleet; of this proxy alone where it is in none."""

    run: str
    agents: tuple[AgentView, ...]


class ErrorBody(Struct, frozen=True):
    """The body of every response but a 200."""

    error: str
    """One line that says what is wrong, and what would be right."""
    bad_input: bool = False
    """The request is wrong in itself: a value that is out of range, or a name that nothing has."""
