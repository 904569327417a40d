"""What the parts of a runner of tasks share: the proxy, the output, the stop, its files, and of a batch the plan.

::

    batches/NAME/lock                     held by the runner for as long as it lives
    batches/NAME/3/                       the third fresh start
        runners/CLAIM                     a file for each runner that worked on it
        budgets.json                      the budgets that were set, so that an operator's changes since are kept
        deadlines.json                    the deadlines as the plan said them last
        logs/TASK.log
        attempts/TASK/CLAIM/              a folder for each claim, in the order of their names
            run/                          written by the attempt itself, see hivemind.agents.shim
            outcome.json                  its result
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from hivemind.agents.clients.known import kind_in
from hivemind.agents.plans.plan import Plan, PlannedTask
from hivemind.agents.session import Ask, Session
from hivemind.api_types import PlaceRelease, PlaceRequest, RunUsage, TaskState
from hivemind.control.client import ControlError
from hivemind.control.discovery import AGENT_VARIABLE
from hivemind.scheduler.commands import Command, FinishTask, Rejected, SetBudget
from hivemind.store.atomic import written_whole
from hivemind.text.amounts import WantedBudget
from hivemind.text.shells import command_line

T = TypeVar("T")

WHO = "batch"
"""Author of a runner's commands."""
LAST_WORDS_S = 10.0
"""How long a runner that is to stop waits for a proxy that is away."""
_LAST_WORD_S = 1.0
"""How long it waits if it is to stop at once."""
_CLAIM = re.compile(r"[0-9A-Za-z]+-[0-9]+-[0-9]+")
_SCRIPT = re.compile(r"[\w./-]+\.[a-z]{1,4}")
_MODEL = re.compile(r"(?<!\S)(?:--model|-m)[\s=]+(\S+)")
_KEPT = 5
"""Earlier starts whose files are kept."""


@dataclass
class RunnerContext:
    """What a runner of tasks works with."""

    session: Session
    folder: RunnerFolder
    environ: Mapping[str, str] = field(repr=False)
    say: Callable[[str, str], object]
    """Takes a line and its tone."""
    wall: Callable[[], float]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to start nothing more, and end what runs."""
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to kill what runs."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    notice: str = ""
    """Why the proxy can't be asked."""
    active: set[str] = field(default_factory=set)
    """Tasks whose process runs."""
    # To the microsecond: a container that is started again within a second may give its program the same process id.
    runner: str = field(default_factory=lambda: f"{datetime.now():%Y%m%dT%H%M%S%f}-{os.getpid()}")
    """The name in claims."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    @property
    def agent(self) -> str | None:
        """The agent in whose process this runs."""
        return self.environ.get(AGENT_VARIABLE) or None

    def planned(self, state: TaskState) -> PlannedTask:
        """Return a task as the graph has it."""
        spec = state.spec
        return PlannedTask.model_construct(
            name=self.short(spec.id),
            command=spec.command,
            agent=spec.agent,
            cwd=Path(spec.cwd or Path.cwd()),
            restarts=spec.attempts - 1,
        )

    def short(self, text: str) -> str:
        """Return a task's name as this runner shows it."""
        return text

    def parent(self, state: TaskState) -> str | None:
        """Return the agent that a task's agent belongs to."""
        return state.spec.parent or self.agent

    def retry(self, state: TaskState) -> str:
        """Return what tries a failed task again."""
        return command_line("hivemind tasks retry", state.spec.id)

    def lock(self, agent: str) -> asyncio.Lock:
        """Return the lock to hold while a process of that agent runs."""
        return self._locks.setdefault(agent, asyncio.Lock())

    async def ask(self, ask: Ask[T]) -> T:
        """Ask the proxy, and wait for it if it is away; not for ever once the runner is to stop.

        Raises: Rejected; ControlError.
        """
        patient = asyncio.create_task(self.session.patiently(ask, away=self.away, back=self.back))
        stop, hard = asyncio.create_task(self.stop.wait()), asyncio.create_task(self.at_once.wait())
        try:
            await asyncio.wait((patient, stop), return_when=asyncio.FIRST_COMPLETED)
            if not patient.done():
                await asyncio.wait((patient, hard), timeout=LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait((patient,), timeout=_LAST_WORD_S)
            if not patient.done():
                raise ControlError("the proxy is away")
            return patient.result()
        finally:
            for task in (patient, stop, hard):
                task.cancel()
            await asyncio.wait((patient, stop, hard))

    async def order(self, command: Command) -> None:
        """Have a command executed. Raises: Rejected; ControlError."""
        await self.ask(lambda client: client.command(command, WHO))

    async def tasks(self) -> tuple[TaskState, ...]:
        """Return the tasks that may be this runner's. Raises: ControlError."""
        return (await self.ask(lambda client: client.tasks())).tasks

    def away(self, why: str) -> None:
        """Note that the proxy doesn't answer."""
        if not self.notice:
            self.notice = f"the proxy is away ({why}); running tasks continue and are reported when it is back"
            self.say(self.notice, "warn")

    def back(self) -> None:
        """Note that the proxy answers again."""
        if self.notice:
            self.notice = ""
            self.say("the proxy is back", "good")

    async def finish(self, state: TaskState, *, ok: bool, note: str, again: bool, whole_at: float = 0.0) -> None:
        """Report the end of an attempt, once. `whole_at`: the task is paused until then, in seconds since the epoch,
        and with it those that haven't begun and use the same plan. Raises: ControlError."""
        paused_s = max(0.0, whole_at - self.wall())
        others = self._alike(state, await self.tasks()) if paused_s else ()
        order = FinishTask(state.spec.id, ok, note, again, paused_s=paused_s, others=others)
        task, sent = state.spec.id, False
        while True:
            if sent:
                # It may have been executed before its answer was lost, and the task be at its next attempt.
                now = next((each for each in await self.tasks() if each.spec.id == task), None)
                if now is None or now.state != "running" or now.runner != state.runner:
                    return
            try:
                return await self.session.order(order, WHO)
            except Rejected as error:
                self.say(f"{self.short(task)}: how it ended isn't noted: {error}", "warn")
                return
            except ControlError as error:
                sent = sent or error.sent
                await self.ask(lambda client: client.about())

    def _alike(self, state: TaskState, known: Iterable[TaskState]) -> tuple[str, ...]:
        """Return the eligible tasks of its batch that likely use the same provider's plan, and the same model."""
        batch, caller = state.spec.batch, caller_of(self.planned(state))
        ready = (each for each in known if each.state == "ready" and each.spec.batch == batch and each.spec.command)
        return tuple(each.spec.id for each in ready if caller_of(self.planned(each)) == caller)

    async def leave(
        self, agent: str, claim: str, exit_code: int | None, kind: str = "", *, asked: bool = False
    ) -> RunUsage:
        """Report the end of an agent's process, with the client that its command starts, and whether an operator ended
        it. Raises: ControlError."""
        return await self.ask(lambda client: client.leave(PlaceRelease(agent, exit_code, claim, WHO, kind, asked)))

    async def budget(self, agent: str, wanted: WantedBudget | None) -> None:
        """Set the budget of an agent and all that it starts, unless that was done: an operator's change since holds.

        Raises: ControlError, Rejected.
        """
        if wanted and self.folder.noted("budgets").get(agent) != repr(wanted):
            await self.order(SetBudget(agent, wanted.tokens, wanted.dollars, wanted.per, "subtree"))
            self.folder.note("budgets", self.folder.noted("budgets") | {agent: repr(wanted)})


@dataclass
class BatchContext(RunnerContext):
    """What a batch's runner works with."""

    folder: BatchFolder
    plan: Plan = field(kw_only=True)

    @property
    def batch(self) -> str:
        """The batch's name."""
        return self.plan.name

    @property
    def place(self) -> PlaceRequest:
        """The batch's own place: as the parent of its agents, which costs no slot, and counts what they use."""
        return PlaceRequest(
            self.batch,
            self.agent,
            running=True,
            resumed=True,
            group=True,
            runner=f"{socket.gethostname()}:{self.folder.root}",
            who=WHO,
        )

    def planned(self, state: TaskState) -> PlannedTask:
        """Return a task as the plan has it; one that isn't in the plan, as the graph has it."""
        found = self.plan.tasks.get(self.short(state.spec.id))
        if found is not None:
            return found
        cwd = Path(state.spec.cwd or Path(self.plan.path).parent)
        return super().planned(state).model_copy(update={"cwd": cwd, "env": self.plan.env})

    def short(self, text: str) -> str:
        """Return a task's name without the batch's before it."""
        return text.removeprefix(f"{self.batch}.")

    def parent(self, state: TaskState) -> str | None:
        """Return the batch, or the agent that submitted the task to it."""
        return state.spec.parent or self.batch

    def retry(self, state: TaskState) -> str:
        """Return what tries a failed task again."""
        return "--retry-failed"

    async def tasks(self) -> tuple[TaskState, ...]:
        """Return the batch's tasks. Raises: ControlError."""
        return (await self.ask(lambda client: client.tasks(self.batch))).tasks


def caller_of(task: PlannedTask) -> tuple[object, ...]:
    """Return what of a task tells which model its requests ask for: the client or the program, a model that is named,
    and variables. Where a command doesn't show that, it is as a whole."""
    command = task.command
    if kind := kind_in(command):
        program: tuple[str, ...] = (kind,)
    elif "/" in command[0]:
        program = command[:1]
    else:
        program = command[: next((at for at, word in enumerate(command, 1) if _SCRIPT.fullmatch(word)), None)]
    return program, tuple(_MODEL.findall(" ".join(command))), tuple(sorted(task.env.items()))


# --- Files ------------------------------------------------------------------------------------------------------------


class TaskOutcome(Struct, frozen=True):
    """The result of an attempt."""

    how: str
    """`done`, `failed`, `stopped` with the runner, `paused` until a plan's window is whole again, or `lost`."""
    exit_code: int | None
    seconds: float
    tokens: int
    """Used by the task so far, earlier attempts included."""
    dollars: float
    unpriced: int
    worktree: str = ""
    """The folder of its worktree, if that is kept."""
    checkpoint: str | None = None
    """What was kept of its agent."""
    estimated: int = 0
    """Of the tokens, those that the providers didn't state."""


class RunnerNote(Struct, frozen=True):
    """A runner that worked on tasks here."""

    plan: str
    """Path of its plan; empty: it had none."""
    proxy: str = ""
    """The run of the proxy with which it began; empty: the version that wrote this kept none."""


class Busy(Exception):
    """Another runner works on the batch."""


class RunnerFolder:
    """The files of a runner of tasks. Raises: OSError, from every method."""

    def __init__(self, root: Path) -> None:
        self.root = self._path = root
        _make(root)

    def _begin(self) -> None:
        for part in ("", "runners", "logs", "attempts"):
            (self._path / part).mkdir(mode=0o700, exist_ok=True)

    @property
    def logs(self) -> Path:
        """The folder of the tasks' logs."""
        return self._path / "logs"

    def log(self, task: str) -> Path:
        """Return the path of the task's log."""
        return self.logs / f"{task}.log"

    def enlist(self, runner: str, note: RunnerNote) -> None:
        """Note that a runner works on tasks here."""
        _write(self._path / "runners" / runner, note)

    def runner(self, claim: str) -> RunnerNote | None:
        """Return the runner that made that claim; None if it isn't one of this folder's."""
        if not _CLAIM.fullmatch(claim):
            return None  # perhaps no valid name of a file
        return _read(self._path / "runners" / claim.rpartition("-")[0], RunnerNote)

    def attempt(self, task: str, claim: str) -> Path:
        """Return the folder for an attempt's process, which makes it; its parent exists afterwards."""
        folder = self._path / "attempts" / task / claim
        _make(folder)
        return folder / "run"

    def conclude(self, task: str, claim: str, outcome: TaskOutcome) -> None:
        """Keep the result of an attempt."""
        _write(self.attempt(task, claim).with_name("outcome.json"), outcome)

    def outcomes(self, task: str) -> list[TaskOutcome | None]:
        """Return the results of the task's attempts, oldest first; None if one is unknown."""
        folder = self._path / "attempts" / task
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        return [_read(folder / name / "outcome.json", TaskOutcome) for name in names]

    def noted(self, what: str) -> dict[str, str]:
        """Return what was noted last: `budgets` that were set, by agent; `deadlines` as the plan said them, by task."""
        return _read(self._path / f"{what}.json", dict[str, str]) or {}

    def note(self, what: str, found: dict[str, str]) -> None:
        """Note that anew."""
        _write(self._path / f"{what}.json", found)


class BatchFolder(RunnerFolder):
    """The files of one batch. Raises: OSError, from every method."""

    def __init__(self, state: Path, batch: str) -> None:
        super().__init__(state / "batches" / batch)
        self._path = self.root / "0"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Exclude other runners until this process ends. Raises: Busy."""
        with open(os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy from None
            yield

    def begun(self) -> bool:
        """Continue with the latest start; return False if there is none."""
        starts = self._starts()
        if starts:
            self._path = self.root / str(starts[-1])
        return bool(starts)

    def begin(self) -> None:
        """Make the folders of a fresh start."""
        starts = self._starts()
        for old in starts[: max(0, len(starts) - _KEPT + 1)]:
            shutil.rmtree(self.root / str(old))
        self._path = self.root / str(starts[-1] + 1 if starts else 1)
        self._begin()

    def plans(self) -> set[str]:
        """Return the plan files of all runners."""
        notes = [_read(path, RunnerNote) for path in (self._path / "runners").iterdir()]
        return {note.plan for note in notes if note is not None}

    def _starts(self) -> list[int]:
        return sorted(int(name) for name in os.listdir(self.root) if name.isdigit())


def _make(folder: Path) -> None:
    """Make a folder and its missing parents, all for the user alone."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _write(path: Path, value: object) -> None:
    with written_whole(path) as file:
        file.write(msgspec.json.encode(value))


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
