"""Child processes that compute what would delay the traffic: both ends of what they talk through.

Messages are MessagePack, each with its length before it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
_ERRORS_KEPT = 16 << 10
_HEAD = struct.Struct(">I")
_LIMIT = 4 << 20
"""Octets; a longer message means that the stream is corrupt."""


def pack(message: msgspec.Struct) -> bytes:
    """Return the message as it goes to the other end."""
    body = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(body)) + body


class Child(Generic[T]):
    """The parent's end: a running child that is sent messages and answers with messages of one type."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        decoder: msgspec.msgpack.Decoder[T],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process = process
        self.errors = b""
        """The beginning of what it wrote to its standard error, once it was killed and if that was a pipe."""
        self._decoder = decoder
        self._reader, self._writer = reader, writer

    @classmethod
    async def start(
        cls, command: Sequence[str], decoder: msgspec.msgpack.Decoder[T], stderr: int = subprocess.DEVNULL
    ) -> Child[T]:
        """Start a child. Raises: OSError."""
        process, ours = _begun(command, stderr)
        return cls(process, decoder, *await asyncio.open_connection(sock=ours))

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message. Raises: OSError."""
        self._writer.write(pack(message))
        await self._writer.drain()

    async def receive(self) -> T:
        """Return the child's next message. Raises: OSError, asyncio.IncompleteReadError, msgspec.DecodeError."""
        (length,) = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
        if length > _LIMIT:
            raise msgspec.DecodeError(f"a message of {length} bytes")
        return self._decoder.decode(await self._reader.readexactly(length))

    async def ended(self, within_s: float | None = None) -> int | None:
        """Return the child's exit code once it has ended; None where it doesn't in so many seconds."""
        try:
            return await asyncio.to_thread(self.process.wait, within_s)
        except subprocess.TimeoutExpired:
            return None

    async def kill(self) -> None:
        """End the child."""
        self._writer.close()
        self.process.kill()
        await self.ended()
        if (output := self.process.stderr) is not None and not output.closed:
            with output:
                os.set_blocking(output.fileno(), False)  # one that it started may still hold it open
                self.errors = output.read(_ERRORS_KEPT) or b""


def _begun(command: Sequence[str], stderr: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a child, and return it with what to talk to it through.

    Not by the event loop: uvloop forks for that, and holds itself up for 10 ms until the child has begun.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            end = theirs.fileno()
            return subprocess.Popen(command, stdin=end, stdout=end, stderr=stderr, bufsize=0), ours
    except BaseException:
        ours.close()
        raise


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
