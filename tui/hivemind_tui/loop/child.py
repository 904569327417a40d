"""Child processes that compute what would delay the traffic: both ends of their pipes.

Messages are MessagePack, each with its length before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
_HEAD = struct.Struct(">I")
_LIMIT = 4 << 20
"""Octets; a longer message means that the stream is corrupt."""


def pack(message: msgspec.Struct) -> bytes:
    """Return the message as it goes through the pipe."""
    body = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(body)) + body


class Child(Generic[T]):
    """The parent's end: a running child that is sent messages and answers with messages of one type."""

    def __init__(self, process: asyncio.subprocess.Process, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self.process = process
        self._decoder = decoder

    @classmethod
    async def start(
        cls, command: Sequence[str], decoder: msgspec.msgpack.Decoder[T], stderr: int = asyncio.subprocess.DEVNULL
    ) -> Child[T]:
        """Start a child. Raises: OSError."""
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=stderr), decoder)

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message. Raises: OSError."""
        assert self.process.stdin is not None
        self.process.stdin.write(pack(message))
        await self.process.stdin.drain()

    async def receive(self) -> T:
        """Return the child's next message. Raises: asyncio.IncompleteReadError, msgspec.DecodeError."""
        assert self.process.stdout is not None
        (length,) = _HEAD.unpack(await self.process.stdout.readexactly(_HEAD.size))
        if length > _LIMIT:
            raise msgspec.DecodeError(f"a message of {length} bytes")
        return self._decoder.decode(await self.process.stdout.readexactly(length))

    async def kill(self) -> None:
        """End the child."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


def send(message: msgspec.Struct) -> None:
    """Send a message to the parent."""
    sys.stdout.buffer.write(pack(message))
    sys.stdout.buffer.flush()


def messages(decoder: msgspec.msgpack.Decoder[T], nice: int, idle_s: float | None = None) -> Iterator[T]:
    """Make this process a child; return the parent's messages until the input ends or none came for `idle_s`."""
    # Ctrl-C in the terminal reaches the whole process group, but the parent ends this process by closing the pipe.
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
