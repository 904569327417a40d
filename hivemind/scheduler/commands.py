"""Everything an operator can ask for, as one typed command each, whoever asks: a key, the control API, a tool.

The scheduler's `apply` checks and carries them out in one place; a command that was carried out becomes a
:class:`~hivemind.scheduler.events.Commanded` event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hivemind.scheduler.ledger.accounts import Covers, Period
from hivemind.scheduler.types import Priority, TaskSpec


class Rejected(ValueError):
    """A command that can't be carried out; the text says why and what would be right."""


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Give an agent another priority; its waiting tickets move at once."""

    agent: str
    priority: Priority


@dataclass(frozen=True, slots=True)
class Tune:
    """Turn a knob (:mod:`.knobs`) while everything runs, on all lanes or an upstream's, those to come included."""

    knob: str
    """Name of the setting, as in `aimd.beta`."""
    value: float
    upstream: str | None = None
    """Makes no difference to a knob that all upstreams share."""


@dataclass(frozen=True, slots=True)
class PinLevel:
    """Hold the concurrency level at a value, or (None) give it back to AIMD."""

    level: float | None
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class SetCircuit:
    """Steer the circuit: by itself, forced open, forced closed, or one probe now."""

    mode: Literal["auto", "open", "closed", "probe"]
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class PauseAdmissions:
    """Grant nothing more (streams in flight go on), or resume."""

    paused: bool


@dataclass(frozen=True, slots=True)
class PauseAgent:
    """Hold an agent's requests in the queue, or let them go again."""

    agent: str
    paused: bool


@dataclass(frozen=True, slots=True)
class BoostAgent:
    """Treat an agent as CRITICAL for a while, or (0) no longer."""

    agent: str
    for_s: float = 60.0


@dataclass(frozen=True, slots=True)
class StopAgent:
    """Cut an agent off: what it has in flight ends, what waits and what comes is refused; or let it ask again."""

    agent: str
    stopped: bool


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Let an agent, or (None) all agents together, use so much; with no ceiling of either kind, as much as they like.

    An agent that wasn't seen yet is known from then on.
    """

    agent: str | None
    tokens: int | None = None
    dollars: float | None = None
    per: Period | None = None
    """None: as before, else as the settings say."""
    covers: Covers | None = None
    """`subtree`: what the agents that it started use counts too. None: as before, else the agent alone."""


@dataclass(frozen=True, slots=True)
class BeginAgent:
    """An agent's process is about to start: it is known, its run begins, and it may have been stopped before."""

    agent: str
    parent: str | None = None
    """The agent that starts it."""
    task: str | None = None
    resumed: bool = False
    """It goes on where it was stopped: what it has used so far belongs to this run too."""
    goes_on: bool = False
    """Its process runs already, and only this proxy is new: one that was stopped still is."""


@dataclass(frozen=True, slots=True)
class EndAgent:
    """An agent's process has ended: it isn't live any more, and its place is free."""

    agent: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class SubmitTasks:
    """Add tasks to the graph, all of them or none."""

    tasks: tuple[TaskSpec, ...]


@dataclass(frozen=True, slots=True)
class ClaimTask:
    """An eligible task is started, by a runner or by its agent itself."""

    task: str
    runner: str = ""


@dataclass(frozen=True, slots=True)
class FinishTask:
    """A running task has ended."""

    task: str
    ok: bool
    note: str = ""
    """For people: `exit code 1`."""
    again: bool = False
    """It failed, or was lost, and goes back among the eligible instead."""
    attempt: int | None = None
    """Which one ended, as the claim counted it, so that a report that comes twice, or late, ends nobody else's; None:
    whichever runs."""


@dataclass(frozen=True, slots=True)
class CancelTask:
    """A task that hasn't ended isn't wanted any more; what waits for it is blocked or skipped."""

    task: str


@dataclass(frozen=True, slots=True)
class RetryTask:
    """A task that failed, or was cancelled, is eligible again as soon as its predecessors are done, and whatever it
    blocked waits again."""

    task: str


@dataclass(frozen=True, slots=True)
class SetTaskPriority:
    """Give a task another priority, and whatever it waits for at least that."""

    task: str
    priority: Priority


@dataclass(frozen=True, slots=True)
class ForgetTasks:
    """Drop a batch's tasks, of which none may be running."""

    batch: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Refuse whoever waits and whoever comes, and let what is in flight finish; or take requests again."""

    draining: bool


@dataclass(frozen=True, slots=True)
class ReleaseLane:
    """End a pause that the provider asked for, and forget what its headers said of used-up rate windows."""

    lane: str


def check_exit_code(code: int | None) -> None:
    """Raises: Rejected: no process ends with that."""
    if code is not None and not -(2**31) <= code < 2**32:
        raise Rejected("exit_code: must be one that a process can end with, or the number of a signal, negative")


TaskCommand = SubmitTasks | ClaimTask | FinishTask | CancelTask | RetryTask | SetTaskPriority | ForgetTasks
"""What changes the graph."""

AgentCommand = SetPriority | PauseAgent | BoostAgent | StopAgent | SetBudget | BeginAgent | EndAgent
"""What is about one agent, or (a budget) all of them."""

Command = (
    SetPriority
    | Tune
    | PinLevel
    | SetCircuit
    | PauseAdmissions
    | PauseAgent
    | BoostAgent
    | StopAgent
    | SetBudget
    | BeginAgent
    | EndAgent
    | SubmitTasks
    | ClaimTask
    | FinishTask
    | CancelTask
    | RetryTask
    | SetTaskPriority
    | ForgetTasks
    | Drain
    | ReleaseLane
)
