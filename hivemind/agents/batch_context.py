"""What everybody who works on a batch shares: the proxy, the plan, the folder, the lines, and the word to stop."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from hivemind.agents.plan import Plan, PlannedTask
from hivemind.agents.session import Ask, Session
from hivemind.api_types import PlaceRelease, PlaceRequest, RunUsage, TaskState
from hivemind.control.client import ControlError
from hivemind.control.discovery import AGENT_VARIABLE
from hivemind.scheduler.commands import FinishTask, Rejected, SetBudget
from hivemind.text.amounts import WantedBudget

T = TypeVar("T")

WHO = "batch"
"""Signs what a runner orders."""
LAST_WORDS_S = 10.0
"""How long a proxy that is away is waited for once the runner is to stop."""
_LAST_WORD_S = 1.0
"""And once it is to stop at once."""


@dataclass
class BatchContext:
    """What a batch's runner works with: proxy, plan, folder and output."""

    session: Session
    plan: Plan
    folder: BatchFolder
    environ: Mapping[str, str] = field(repr=False)
    say: Callable[[str, str], object]
    """Takes a line and its tone."""
    wall: Callable[[], float]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Start nothing more, and end what runs."""
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """End it the hard way."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    notice: str = ""
    """What keeps everything from going on."""
    _agents: dict[str, asyncio.Lock] = field(default_factory=dict)

    @property
    def batch(self) -> str:
        """The batch's name."""
        return self.plan.name

    @property
    def place(self) -> PlaceRequest:
        """The batch's own: it is the parent of its agents, which costs no place, and counts what they use."""
        return PlaceRequest(
            self.batch,
            self.environ.get(AGENT_VARIABLE) or None,
            running=True,
            resumed=True,
            runner=f"{socket.gethostname()}:{self.folder.root}",
            who=WHO,
        )

    async def keep(self, place: PlaceRequest) -> None:
        """Keep a place in the proxy for the runner. Raises: NoAnswer, Rejected."""
        await self.session.ask(lambda client: client.place(place))

    def planned(self, state: TaskState) -> PlannedTask:
        """Return a task as the plan has it; one that isn't in the plan, as the graph has it."""
        name, spec = self.short(state.spec.id), state.spec
        return self.plan.tasks.get(name) or PlannedTask.model_construct(
            name=name,
            command=spec.command,
            agent=spec.agent,
            cwd=Path(self.plan.path).parent,
            restarts=spec.attempts - 1,
            env=self.plan.env,
        )

    def short(self, text: str) -> str:
        """Return a task's name without the batch's before it."""
        return text.removeprefix(f"{self.batch}.")

    @contextlib.asynccontextmanager
    async def alone(self, agent: str) -> AsyncIterator[None]:
        """One process at a time is called that."""
        async with self._agents.setdefault(agent, asyncio.Lock()):
            yield

    async def ask(self, ask: Ask[T]) -> T:
        """Ask the proxy, and wait for it where it is away; not for ever once the runner is to stop.

        Raises: Rejected; NoAnswer.
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

    def away(self, why: str) -> None:
        """The proxy doesn't answer."""
        if not self.notice:
            self.notice = (
                f"the proxy is away ({why}); running tasks go on, and what becomes of them is told when it is back"
            )
            self.say(self.notice, "warn")

    def back(self) -> None:
        """Note that the proxy answers again."""
        if self.notice:
            self.notice = ""
            self.say("the proxy is back", "good")

    async def state_of(self, task: str) -> TaskState | None:
        """A task as the graph has it. Raises: NoAnswer."""
        found = await self.ask(lambda client: client.tasks(self.batch))
        return next((each for each in found.tasks if each.spec.id == task), None)

    async def finish(self, state: TaskState, *, ok: bool, note: str, again: bool) -> None:
        """Tell the graph how an attempt ended, once. Raises: NoAnswer."""
        order, task, heard = FinishTask(state.spec.id, ok, note, again), state.spec.id, False
        while True:
            if heard:
                # It may have been carried out before its answer was lost, and the task be at its next attempt.
                now = await self.state_of(task)
                if now is None or now.state != "running" or now.runner != state.runner:
                    return
            try:
                await self.session.ask(lambda client: client.command(order, WHO))
                return
            except Rejected as error:
                self.say(f"{self.short(task)}: how it ended isn't noted: {error}", "warn")
                return
            except ControlError as error:
                heard = heard or error.sent
                await self.ask(lambda client: client.about())

    async def leave(self, agent: str, claim: str, exit_code: int | None) -> RunUsage:
        """An agent's process has ended. Raises: NoAnswer."""
        return await self.ask(lambda client: client.leave(PlaceRelease(agent, exit_code, claim, WHO)))

    async def budget(self, agent: str, wanted: WantedBudget | None) -> None:
        """Order an agent's budget, with all that it starts, unless that was done; what an operator made of it since
        holds. Raises: NoAnswer, Rejected."""
        if not wanted or self.folder.ordered(agent) == repr(wanted):
            return
        order = SetBudget(agent, wanted.tokens, wanted.dollars, wanted.per, "subtree")
        await self.ask(lambda client: client.command(order, WHO))
        self.folder.order(agent, repr(wanted))


_CLAIM = re.compile(r"[0-9A-Za-z]+-[0-9]+-[0-9]+")
_KEPT = 5
"""Earlier times of which logs are kept."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What an attempt came to."""

    how: str
    """`done`, `failed`, `stopped` by whoever ended the runner, or `lost`."""
    exit_code: int | None
    seconds: float
    tokens: int
    """Used by the task so far, earlier attempts included."""
    dollars: float
    unpriced: int


@dataclass(frozen=True, slots=True)
class RunnerNote:
    """A runner that worked on the batch."""

    hosted: bool
    """It served the proxy too, which ended with it."""
    plan: str
    """The file."""


class Busy(Exception):
    """Another runner works on the batch."""


class BatchFolder:
    """Of one batch. Raises: OSError, from every method."""

    def __init__(self, state: Path, batch: str) -> None:
        self.root = state / "batches" / batch
        self._path = self.root / "0"
        _make(self.root)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runners away; a runner that was killed holds nothing. Raises: Busy."""
        with open(os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy from None
            yield

    def begun(self) -> bool:
        """Go on with the latest time; False where it never was begun."""
        found = self._times()
        if found:
            self._path = self.root / str(found[-1])
        return bool(found)

    def begin(self) -> None:
        """Empty the folder for a new run of the batch."""
        found = self._times()
        for old in found[: max(0, len(found) - _KEPT + 1)]:
            shutil.rmtree(self.root / str(old))
        self._path = self.root / str(found[-1] + 1 if found else 1)
        for part in ("", "runners", "logs", "attempts"):
            (self._path / part).mkdir(mode=0o700)

    @property
    def logs(self) -> Path:
        """A file a task."""
        return self._path / "logs"

    def log(self, task: str) -> Path:
        """Return the path of the task's log."""
        return self.logs / f"{task}.log"

    def enlist(self, runner: str, note: RunnerNote) -> None:
        """Somebody works on it from now on."""
        _write(self._path / "runners" / runner, note)

    def plans(self) -> set[str]:
        """The files that the batch was run from."""
        found = [_read(path, RunnerNote) for path in (self._path / "runners").iterdir()]
        return {note.plan for note in found if note is not None}

    def runner(self, claim: str) -> RunnerNote | None:
        """Who made that claim; None: nobody who worked on it from here."""
        if not _CLAIM.fullmatch(claim):
            return None  # somebody else's, and perhaps no name for a file
        return _read(self._path / "runners" / claim.rpartition("-")[0], RunnerNote)

    def attempt(self, task: str, claim: str) -> Path:
        """The folder of an attempt's own, which is its to make; what it is in is there afterwards."""
        folder = self._path / "attempts" / task / claim
        _make(folder)
        return folder / "run"

    def conclude(self, task: str, claim: str, outcome: TaskOutcome) -> None:
        """Remember what an attempt came to."""
        _write(self.attempt(task, claim).with_name("outcome.json"), outcome)

    def outcomes(self, task: str) -> list[TaskOutcome | None]:
        """What the task's attempts came to, as far as it is known, oldest first."""
        folder = self._path / "attempts" / task
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        return [_read(folder / name / "outcome.json", TaskOutcome) for name in names]

    def ordered(self, agent: str) -> str | None:
        """The budget that was ordered for an agent last."""
        return self._ordered().get(agent)

    def order(self, agent: str, budget: str) -> None:
        """Note that a stop was asked for."""
        _write(self._path / "budgets.json", self._ordered() | {agent: budget})

    def _ordered(self) -> dict[str, str]:
        return _read(self._path / "budgets.json", dict[str, str]) or {}

    def _times(self) -> list[int]:
        return sorted(int(name) for name in os.listdir(self.root) if name.isdigit())


def _make(folder: Path) -> None:
    """With all above it that isn't there, for the user alone."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _write(path: Path, value: object) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(value))
    draft.replace(path)


def _read(path: Path, kind: type[T]) -> T | None:
    """None: there is none, or it was cut off."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
