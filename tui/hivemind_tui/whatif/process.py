"""The client of the simulation process: asks, receives messages, or cancels."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from hivemind.journal.files import parts_in
from hivemind.scheduler.commands import Rejected
from hivemind.text.shells import command_line
from hivemind.world.snapshot import Snapshot
from hivemind_tui.loop.child import Child
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Source
from hivemind_tui.whatif.protocol import MESSAGES, Message, Progress, Question, WhatIfFailed

_log = logging.getLogger(__name__)
_COMMAND = (sys.executable, "-P", "-m", "hivemind_tui.whatif.worker")
_ENDS_S = 2.0
"""For a child to exit once its output has ended."""


class SimulationProcess:
    """Owns the child, which is kept between questions, answers one at a time, and ends with a cancelled question."""

    def __init__(self, command: tuple[str, ...] = _COMMAND) -> None:
        self._command = command
        self._child: Child[Message] | None = None
        self._turn = asyncio.Lock()
        """A cancelled question ends the child before the next one is sent."""

    async def ask(self, question: Question, on_message: Callable[[Message], None]) -> None:
        """Pass on every message until the question is answered; a failure of the child is an answer too."""
        async with self._turn:
            answered = False
            try:
                if self._child is not None and self._child.process.poll() is not None:
                    await self.aclose()
                if self._child is None:
                    self._child = await Child.start(self._command, MESSAGES, stderr=subprocess.PIPE)
                await self._child.send(question)
                while not answered:
                    message = await self._child.receive()
                    answered = not isinstance(message, Progress)
                    on_message(message)
            except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as error:
                why = await self._why_it_ended(error)
                answered = True
                on_message(WhatIfFailed(why))
            finally:
                if not answered:
                    await self.aclose()

    async def aclose(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.kill()

    async def _why_it_ended(self, error: Exception) -> str:
        """Return why the child ended, in a line; its other output goes to the log."""
        if self._child is None:
            return f"the simulation can't be started: {error}"
        child = self._child
        if not isinstance(error, msgspec.DecodeError):
            # It is ending by itself. Killed before that, its exit code would say nothing.
            await child.ended(_ENDS_S)
        await self.aclose()
        output = child.errors.decode(errors="replace").strip()
        code = child.process.returncode or 0
        how = f"exit code {code}" if code >= 0 else signal.strsignal(-code) or f"signal {-code}"
        _log.warning("the simulating process is gone (%s, %s) %s", type(error).__name__, how, output)
        last = clean(output.rpartition("\n")[2])
        return f"the simulation ended before its time: {last or how}"


def recording_of(source: Source, snapshot: Snapshot, command: str = "hivemind what-if") -> Path:
    """Return the first existing file of the recording. Raises: Rejected: none can be read here; the text names the
    command that reads it where it is."""
    played = getattr(source, "journal", None)
    if isinstance(played, Path):
        return played
    view = snapshot.recording
    if view is None:
        raise Rejected("nothing is recorded: a demo leaves no journal, nor does a proxy with journal.enabled off")
    path = Path(view.path)
    name = path.name.partition(".")[0]
    if not os.access(path, os.R_OK) or path.is_dir():
        if view.failing:
            raise Rejected(f"the journal can't be written ({view.failing}), so there is nothing to read")
        line = command_line(command, name)
        there = f" on this machine; over there: {line}" if source.link.kind == "attached" else ""
        raise Rejected(f"{path} can't be read{there}")
    try:
        parts = parts_in(path.parent).get(name, {})
    except OSError:
        return path
    return parts[min(parts)] if parts else path
