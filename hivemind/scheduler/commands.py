"""Every operator command, as one typed value each, whether a key, the control API or a tool gives it.

The scheduler's `apply` checks and carries them out in one place; a command that was carried out becomes a
:class:`~hivemind.scheduler.events.Commanded` event.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Literal

from msgspec import Struct

from hivemind.scheduler.accounts import Covers, Period
from hivemind.scheduler.types import Priority, TaskSpec


class Rejected(ValueError):
    """A command that can't be carried out; the text says why and what would be right."""

    bad_input = True
    """What was given is wrong, so that asking again later doesn't help."""


class Conflict(Rejected):
    """A command that is valid, but not in this state: it names something that isn't there, is taken, or has ended."""

    def __init__(self, text: str, *, bad_input: bool = False) -> None:
        super().__init__(text)
        self.bad_input = bad_input


class NotKnown(Conflict):
    """A command that names something that isn't there; the text says what there is."""

    def __init__(self, what: str, known: Iterable[str]) -> None:
        """`what`: as in `no lane 'x'`."""
        super().__init__(f"{what}; known: {some(known)}", bad_input=True)


_SOME = 8


def some(names: Iterable[str]) -> str:
    """Return the first names for an error message, or that there are none."""
    known = list(islice(names, _SOME + 1))
    return ", ".join(known[:_SOME]) + (" …" if len(known) > _SOME else "") if known else "none yet"


class SetPriority(Struct, frozen=True):
    """Give an agent another priority; its waiting tickets move at once."""

    agent: str
    priority: Priority


class Tune(Struct, frozen=True):
    """Turn a knob (:mod:`.operator.knobs`) while everything runs, on all lanes or an upstream's, and later ones."""

    knob: str
    """Name of the setting, as in `aimd.beta`."""
    value: float
    upstream: str | None = None
    """Without effect on a knob that all upstreams share."""


class PinLevel(Struct, frozen=True):
    """Hold the concurrency level at a value, or (None) give it back to AIMD."""

    level: float | None
    lane: str | None = None


class SetCircuit(Struct, frozen=True):
    """Let the circuit run by itself, force it open or closed, or send one probe now."""

    mode: Literal["auto", "open", "closed", "probe"]
    lane: str | None = None


class PauseAdmissions(Struct, frozen=True):
    """Grant nothing more (requests in flight go on), or resume."""

    paused: bool


class PauseAgent(Struct, frozen=True):
    """Hold an agent's requests in the queue, or release them."""

    agent: str
    paused: bool


class BoostAgent(Struct, frozen=True):
    """Treat an agent as CRITICAL for some seconds, or (0) no longer."""

    agent: str
    for_s: float = 60.0


class StopAgent(Struct, frozen=True):
    """Stop an agent: end its requests in flight, refuse waiting and later ones; or accept its requests again."""

    agent: str
    stopped: bool


class CutRequest(Struct, frozen=True):
    """End the attempt of one of an agent's requests, of which nothing comes any more, without blaming the upstream."""

    agent: str
    request: int | None = None
    """Its number; None: the only one in flight."""
    retry: bool = True
    """Send it again, unseen by its client, which is possible until its answer has begun; else the client gets an
    error."""


class SetBudget(Struct, frozen=True):
    """Limit what an agent, or (None) all agents together, may use; without a ceiling of either kind, lift the limit.

    An agent that wasn't seen yet is known from then on.
    """

    agent: str | None
    tokens: int | None = None
    dollars: float | None = None
    per: Period | None = None
    """None: as before, else as the settings say."""
    covers: Covers | None = None
    """`subtree`: count the agents that it started too. None: as before, else the agent alone."""


class BeginAgent(Struct, frozen=True):
    """Report that an agent's process is about to start: its run begins, and it isn't stopped any more."""

    agent: str
    parent: str | None = None
    """The agent that starts it."""
    task: str | None = None
    resumed: bool = False
    """It continues where it was stopped: what it has used so far belongs to this run too."""
    goes_on: bool = False
    """Its process runs already, and only this proxy is new: if it was stopped, it still is."""
    deadline_s: float | None = None
    """From now until the moment by which the turns of its requests have to come; None: it has none."""


class EndAgent(Struct, frozen=True):
    """Report that an agent's process has ended: it isn't live any more, and its place is free."""

    agent: str
    exit_code: int | None = None
    asked: bool = False
    """An operator ended it, with a signal that its runner passed on."""


class SubmitTasks(Struct, frozen=True):
    """Add tasks to the graph, all of them or none."""

    tasks: tuple[TaskSpec, ...]


class ClaimTask(Struct, frozen=True):
    """Start an eligible task, by a runner or by its agent itself."""

    task: str
    runner: str = ""


class FinishTask(Struct, frozen=True):
    """End a running task, or an attempt at it."""

    task: str
    ok: bool
    note: str = ""
    """For people: `exit code 1`."""
    again: bool = False
    """It failed, or was lost, and becomes eligible again."""
    attempt: int | None = None
    """The attempt that ended, as the claim counted it, so that a repeated or late report ends no other one; None: the
    running one."""
    paused_s: float = 0.0
    """With `again`, in how many seconds it becomes eligible: a plan's window is used up until then."""
    others: tuple[str, ...] = ()
    """Eligible tasks that are paused for as long, because they use the same plan."""


class CancelTask(Struct, frozen=True):
    """Cancel a task that hasn't ended; what waits for it is blocked or skipped."""

    task: str


class RetryTask(Struct, frozen=True):
    """Retry a task that failed, was cancelled or is paused: it is eligible once its predecessors are done, and what it
    blocked waits again."""

    task: str


class SetTaskPriority(Struct, frozen=True):
    """Give a task another priority, and all that it waits for at least that."""

    task: str
    priority: Priority
    deadline: float | None = None
    """And another deadline, as of :class:`~hivemind.scheduler.types.TaskSpec`; None: the one that it has."""
    deadline_s: float = 0.0


class ForgetTasks(Struct, frozen=True):
    """Forget a batch's tasks, of which none may be running."""

    batch: str


class Drain(Struct, frozen=True):
    """Refuse waiting and later requests, and let those in flight finish; or take requests again."""

    draining: bool


class ReleaseLane(Struct, frozen=True):
    """End a pause that the provider asked for, and forget what its headers stated of used-up rate windows."""

    lane: str


AlertRule = Literal["died", "hung", "wait", "budget", "circuit", "spend"]
"""What an alert may be about; see :mod:`hivemind.world.alerts`."""


class Acknowledge(Struct, frozen=True):
    """Acknowledge alerts: those about an agent or lane, those of a rule, or (neither) all. Nothing else changes."""

    about: str | None = None
    rule: AlertRule | None = None


NOTE_MOST = 200
"""Most characters of a note."""


class AddNote(Struct, frozen=True):
    """Write a note, which stands at this moment on the curve, in the log, the journal and the report."""

    text: str


EXIT_CODES = range(-(2**31), 2**32)
"""What a process can end with; negative: the number of a signal."""


def check_exit_code(code: int | None) -> None:
    """Check an exit code. Raises: Rejected: no process ends with that."""
    if code is not None and code not in EXIT_CODES:
        raise Rejected("exit_code: must be one that a process can end with, or the number of a signal, negative")


TaskCommand = SubmitTasks | ClaimTask | FinishTask | CancelTask | RetryTask | SetTaskPriority | ForgetTasks
"""Commands that change the task graph."""

SteerCommand = SetPriority | PauseAgent | BoostAgent | StopAgent | CutRequest | EndAgent
"""Commands about one agent that is known."""

LaneCommand = Tune | PinLevel | SetCircuit | ReleaseLane
"""Commands about one lane, or several."""

RemarkCommand = Acknowledge | AddNote
"""Commands that change nothing but what people are told."""

Command = SteerCommand | SetBudget | BeginAgent | TaskCommand | LaneCommand | PauseAdmissions | Drain | RemarkCommand
