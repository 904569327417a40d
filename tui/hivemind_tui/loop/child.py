"""Child processes that answer questions whose computing would delay the traffic: both ends of what they talk through.

Messages are MessagePack, each with its length before it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from hivemind.console import printable

T = TypeVar("T")
Q = TypeVar("Q", bound=msgspec.Struct)
M = TypeVar("M", bound=msgspec.Struct)
_log = logging.getLogger(__name__)
_ERRORS_KEPT = 16 << 10
_HEAD = struct.Struct(">I")
_LIMIT = 4 << 20
"""Octets; a longer message means that the stream is corrupt."""
_ENDS_S = 2.0
"""For a child to exit once its output has ended."""


def pack(message: msgspec.Struct) -> bytes:
    """Return the message as it goes to the other end."""
    body = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(body)) + body


class AskedProcess(Generic[Q, M]):
    """Owns a child, which is kept between questions, answers one at a time, and ends with a cancelled question."""

    def __init__(
        self,
        command: tuple[str, ...],
        messages: msgspec.msgpack.Decoder[M],
        progress: type[M] | tuple[()],
        failed: Callable[[str], M],
        name: str,
    ) -> None:
        """`progress` is the type of the messages after which others follow, or an empty tuple, `failed` makes one of a
        reason, and `name` says what the child computes."""
        self.process: subprocess.Popen[bytes] | None = None
        self._command = command
        self._messages = messages
        self._progress = progress
        self._failed = failed
        self._name = name
        self._turn = asyncio.Lock()
        """A cancelled question ends the child before the next one is sent."""

    async def ask(self, question: Q, on_message: Callable[[M], None]) -> None:
        """Pass on every message until the question is answered; a failure of the child is an answer too."""
        async with self._turn:
            answered = False
            try:
                if self.process is None or self.process.poll() is not None:
                    await self.aclose()
                    await self._start()
                self._writer.write(pack(question))
                await self._writer.drain()
                while not answered:
                    message = await self._received()
                    answered = not isinstance(message, self._progress)
                    on_message(message)
            except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as error:
                why = await self._why_it_ended(error)
                answered = True
                on_message(self._failed(why))
            finally:
                if not answered:
                    await self.aclose()

    async def aclose(self) -> bytes:
        """End the child, and return the beginning of what it wrote to its standard error."""
        process, self.process = self.process, None
        if process is None or process.stderr is None:
            return b""
        self._writer.close()
        process.kill()
        await asyncio.to_thread(process.wait)
        with process.stderr as output:
            os.set_blocking(output.fileno(), False)  # one that it started may still hold it open
            return output.read(_ERRORS_KEPT) or b""

    async def _start(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._begun())

    def _begun(self) -> socket.socket:
        """Start the child, and return what to talk to it through. Not by the event loop: uvloop forks for that, and
        holds itself up for 10 ms until the child has begun."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                end = theirs.fileno()
                self.process = subprocess.Popen(self._command, stdin=end, stdout=end, stderr=subprocess.PIPE, bufsize=0)
        except BaseException:
            ours.close()
            raise
        return ours

    async def _received(self) -> M:
        (length,) = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
        if length > _LIMIT:
            raise msgspec.DecodeError(f"a message of {length} bytes")
        return self._messages.decode(await self._reader.readexactly(length))

    async def _why_it_ended(self, error: Exception) -> str:
        """Return why the child ended, in a line; its other output goes to the log."""
        process = self.process
        if process is None:
            return f"{self._name} can't be started: {error}"
        if not isinstance(error, msgspec.DecodeError):
            # It is ending by itself. Killed before that, its exit code would say nothing.
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, _ENDS_S)
        output = (await self.aclose()).decode(errors="replace").strip()
        code = process.returncode or 0
        how = f"exit code {code}" if code >= 0 else signal.strsignal(-code) or f"signal {-code}"
        _log.warning("the process of %s is gone (%s, %s) %s", self._name, type(error).__name__, how, output)
        last = printable(output.rpartition("\n")[2])
        return f"{self._name} ended before its time: {last or how}"


# --- In the child -----------------------------------------------------------------------------------------------------


def send(message: msgspec.Struct) -> None:
    """Send a message to the parent."""
    sys.stdout.buffer.write(pack(message))
    sys.stdout.buffer.flush()


def messages(decoder: msgspec.msgpack.Decoder[T], nice: int, idle_s: float | None = None) -> Iterator[T]:
    """Make this process a child; return the parent's messages until the input ends or none came for `idle_s`."""
    # Ctrl-C in the terminal reaches the whole process group, but the parent ends this process by closing its end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)
    return _received(decoder, idle_s)


def _received(decoder: msgspec.msgpack.Decoder[T], idle_s: float | None) -> Iterator[T]:
    pipe = sys.stdin.buffer
    while select.select([pipe], [], [], idle_s)[0]:
        head = pipe.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        yield decoder.decode(pipe.read(_HEAD.unpack(head)[0]))
