"""The client of a child process that answers questions: asks, receives messages, or cancels."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from hivemind.console import printable
from hivemind_tui.loop.child import Child

Q = TypeVar("Q", bound=msgspec.Struct)
M = TypeVar("M", bound=msgspec.Struct)
_log = logging.getLogger(__name__)
_ENDS_S = 2.0
"""For a child to exit once its output has ended."""


class AskedProcess(Generic[Q, M]):
    """Owns a child, which is kept between questions, answers one at a time, and ends with a cancelled question."""

    def __init__(
        self,
        command: tuple[str, ...],
        messages: msgspec.msgpack.Decoder[M],
        progress: type[M],
        failed: Callable[[str], M],
        name: str,
    ) -> None:
        """`progress` is the type of the messages after which others follow, `failed` makes one of a reason, and `name`
        says what the child computes."""
        self._command = command
        self._messages = messages
        self._progress = progress
        self._failed = failed
        self._name = name
        self._child: Child[M] | None = None
        self._turn = asyncio.Lock()
        """A cancelled question ends the child before the next one is sent."""

    async def ask(self, question: Q, on_message: Callable[[M], None]) -> None:
        """Pass on every message until the question is answered; a failure of the child is an answer too."""
        async with self._turn:
            answered = False
            try:
                if self._child is not None and self._child.process.poll() is not None:
                    await self.aclose()
                if self._child is None:
                    self._child = await Child.start(self._command, self._messages, stderr=subprocess.PIPE)
                await self._child.send(question)
                while not answered:
                    message = await self._child.receive()
                    answered = not isinstance(message, self._progress)
                    on_message(message)
            except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as error:
                why = await self._why_it_ended(error)
                answered = True
                on_message(self._failed(why))
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
            return f"{self._name} can't be started: {error}"
        child = self._child
        if not isinstance(error, msgspec.DecodeError):
            # It is ending by itself. Killed before that, its exit code would say nothing.
            await child.ended(_ENDS_S)
        await self.aclose()
        output = child.errors.decode(errors="replace").strip()
        code = child.process.returncode or 0
        how = f"exit code {code}" if code >= 0 else signal.strsignal(-code) or f"signal {-code}"
        _log.warning("the process of %s is gone (%s, %s) %s", self._name, type(error).__name__, how, output)
        last = printable(output.rpartition("\n")[2])
        return f"{self._name} ended before its time: {last or how}"
