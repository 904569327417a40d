"""What a batch keeps on disk: whose turn it is to run it, a log a task, and how each attempt ended.

::

    batches/NAME/lock                     held by the runner for as long as it lives
    batches/NAME/3/                       the third time that it was begun anew
        runners/CLAIM                     one file a runner that worked on it
        budgets.json                      what was ordered, so that what an operator changed since is left alone
        logs/TASK.log
        attempts/TASK/CLAIM/              one folder a claim, in the order of their names
            run/                          the attempt's own, see hivemind.agents.shim
            outcome.json                  what it came to
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

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
