"""What a starter tells a detached proxy, and what that answers, through pipes, so that no command line shows it."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from hivemind.settings import Settings


class DetachedOrder(Struct, frozen=True):
    """All that a detached proxy needs to know."""

    settings: Settings
    settings_file: Path | None

    def write(self, pipe: IO[bytes]) -> None:
        """Hand the order to a process that reads it from its standard input."""
        pickle.dump(self, pipe)


@dataclass(frozen=True, slots=True)
class Started:
    """A detached proxy that serves."""

    url: str
    """Where it listens."""
    token: str = field(repr=False)
    """Its control token."""
    log: str
    """The file of its log; the null device where none can be written."""


class Failed(Struct, frozen=True):
    """Why a detached proxy serves nothing."""

    error: str
    exit_code: int
    in_use: bool = False
    """Its address is."""


class StartReport(Struct):
    """The pipe to the starter, which may be gone."""

    file: int

    def send(self, answer: Started | Failed) -> None:
        """Answer once, and close the pipe."""
        kind = "started" if isinstance(answer, Started) else "failed"
        with suppress(OSError):
            os.write(self.file, msgspec.json.encode({kind: answer}) + b"\n")
        os.close(self.file)


class _Answer(Struct, frozen=True):
    started: Started | None = None
    failed: Failed | None = None


def answer_in(output: bytes) -> Started | Failed | str:
    """Return the answer in all that a detached proxy wrote to its starter; without one, its last line."""
    last = output.rstrip(b"\n").rpartition(b"\n")[2]
    with suppress(msgspec.MsgspecError):
        answer = msgspec.json.decode(last, type=_Answer)
        if (found := answer.started or answer.failed) is not None:
            return found
    return last.decode(errors="replace")
