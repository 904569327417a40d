"""The client of the simulation process: asks, receives messages, or cancels."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from hivemind.journal.files import parts_in
from hivemind.scheduler.commands import Rejected
from hivemind.text.shells import command_line
from hivemind.world.snapshot import Snapshot
from hivemind_tui.loop.framing import pack, receive
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Link, Source
from hivemind_tui.whatif.protocol import (
    MESSAGES,
    Message,
    Progress,
    Question,
    WhatIfFailed,
)

_log = logging.getLogger(__name__)
_COMMAND = (sys.executable, "-m", "hivemind_tui.whatif.worker")
_ENDS_S = 2.0
"""For a child whose last word was heard to be gone."""
_LAST_WORDS = 16 << 10


class Simulation:
    """Owns the child, which starts with the first question and is kept for the next. One question at a time; one whose
    asker is cancelled ends the child, because nothing else stops what it computes."""

    def __init__(self, command: tuple[str, ...] = _COMMAND) -> None:
        self._command = command
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        """A cancelled question ends the child before the next one is asked."""

    @property
    def pid(self) -> int | None:
        """The child's process id; None if there is none."""
        return None if self._child is None else self._child.pid

    async def ask(self, question: Question, tell: Callable[[Message], None]) -> None:
        """Pass on every message until the question is answered; a failure of the child is an answer too."""
        async with self._turn:
            await self._ask(question, tell)

    async def _ask(self, question: Question, tell: Callable[[Message], None]) -> None:
        answered = False
        try:
            child = await self._ready()
            assert child.stdin is not None
            child.stdin.write(pack(question))
            await child.stdin.drain()
            while not answered:
                message = await receive(child, MESSAGES)
                answered = not isinstance(message, Progress)
                tell(message)
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as error:
            why = await self._why_it_ended(error)
            answered = True
            tell(WhatIfFailed(why))
        finally:
            if not answered:
                await self.aclose()

    async def aclose(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _ready(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        return self._child

    async def _why_it_ended(self, error: Exception) -> str:
        """Return why the child ended, in a line; its other output goes to the log."""
        child = self._child
        if child is None:
            return f"the simulation can't be started: {error}"
        if not isinstance(error, msgspec.DecodeError):
            # It is ending by itself. Killed in the midst of that, it loses its exit code to whoever killed it.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), _ENDS_S)
        await self.aclose()
        assert child.stderr is not None
        said = (await child.stderr.read(_LAST_WORDS)).decode(errors="replace").strip()
        code = child.returncode or 0
        how = f"exit code {code}" if code >= 0 else signal.strsignal(-code) or f"signal {-code}"
        _log.warning("the simulating process is gone (%s, %s) %s", type(error).__name__, how, said)
        last = clean(said.rpartition("\n")[2])
        return f"the simulation ended before its time: {last or how}"


def recording_of(source: Source, snapshot: Snapshot) -> Path:
    """Return the first existing file of the recording. Raises: Rejected: none can be read here."""
    played = getattr(source, "journal", None)
    if isinstance(played, Path):
        return played
    view = snapshot.recording
    if view is None:
        raise Rejected("nothing is recorded: a demo leaves no journal, nor does a proxy with journal.enabled off")
    path = Path(view.path)
    if not os.access(path, os.R_OK) or path.is_dir():
        raise Rejected(_out_of_reach(path, source.link, view.failing))
    return _first_part(path)


def _out_of_reach(path: Path, link: Link, failing: str) -> str:
    if failing:
        return f"the journal can't be written ({failing}), so there is nothing to simulate"
    if link.kind == "attached":
        line = command_line("hivemind what-if", path.name.partition(".")[0])
        return f"{path} can't be read on this machine; over there: {line}"
    return f"{path} can't be read"


def _first_part(path: Path) -> Path:
    """Return the first part, from which the later ones are found."""
    name = path.name.partition(".")[0]
    try:
        parts = parts_in(path.parent).get(name, {})
    except OSError:
        return path
    return parts[min(parts)] if parts else path
