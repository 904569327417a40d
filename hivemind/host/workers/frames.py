"""Messages between the workers of one port: MessagePack with its length before it, over unix sockets of their private
folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

_LENGTH = 4
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer (https://man7.org/linux/man-pages/man7/unix.7.html)."""
_LONGEST = 256 << 20
"""Bytes of a message: a snapshot of a thousand agents has a hundredth of that."""
_BACKLOG = 512


def packed(message: object) -> bytes:
    """Return a message as it is sent."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


async def receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message; None at the end, also one within a message."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
        if length > _LONGEST:
            return None
        return msgspec.msgpack.decode(await reader.readexactly(length))
    except (OSError, asyncio.IncompleteReadError, msgspec.MsgspecError):
        return None


def sender(writer: asyncio.StreamWriter) -> int:
    """Return the process at the other end of a connection, as it was when it connected."""
    data = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(data)[0]
    return pid


Handler = Callable[[Any, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Gets the first message of a connection."""


async def serve(path: Path, handle: Handler) -> asyncio.Server:
    """Listen on a unix socket, in place of one that an earlier process left."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await receive(reader)
            if first is not None:
                await handle(first, reader, writer)
        except OSError:
            pass  # the other process is gone
        finally:
            writer.close()

    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    server = await asyncio.start_unix_server(connected, str(path), backlog=_BACKLOG)
    os.chmod(path, 0o600)
    return server


class Gone(Exception):
    """The other process ended, or doesn't answer."""


class Channel:
    """Questions to one other process, answered in their order, over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: deque[asyncio.Future[Any]] = deque()

    @classmethod
    async def to(cls, path: Path) -> Channel:
        """Connect. Raises: OSError."""
        return cls(*await asyncio.open_unix_connection(str(path)))

    def ask(self, question: object) -> asyncio.Future[Any]:
        """Send a question now; what is returned gets its answer, or :class:`Gone`."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_seen)
        if self._writer.is_closing():
            answer.set_exception(Gone())
            return answer
        self._waiting.append(answer)
        self._writer.write(packed(question))
        return answer

    async def run(self) -> None:
        """Hand out the answers until the connection ends."""
        try:
            while (message := await receive(self._reader)) is not None:
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(message)
        finally:
            self._writer.close()
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(Gone())
            self._waiting.clear()


def _seen(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()  # marks it as seen: whoever asked may have left
