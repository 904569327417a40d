"""Messages over the pipes of child processes: MessagePack, each with its length before it."""

from __future__ import annotations

import asyncio
import struct
from typing import BinaryIO, TypeVar

import msgspec

T = TypeVar("T")
_HEAD = struct.Struct(">I")
_LIMIT = 4 << 20
"""Octets; a longer message means that the stream is corrupt."""


def pack(message: msgspec.Struct) -> bytes:
    """Return the message as it goes through the pipe."""
    body = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(body)) + body


def read(pipe: BinaryIO, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """Wait for the next message and return it; None at the end."""
    head = pipe.read(_HEAD.size)
    return None if len(head) < _HEAD.size else decoder.decode(pipe.read(_HEAD.unpack(head)[0]))


async def receive(child: asyncio.subprocess.Process, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Return the next message of a child. Raises: asyncio.IncompleteReadError, msgspec.DecodeError."""
    assert child.stdout is not None
    (length,) = _HEAD.unpack(await child.stdout.readexactly(_HEAD.size))
    if length > _LIMIT:
        raise msgspec.DecodeError(f"a message of {length} bytes")
    return decoder.decode(await child.stdout.readexactly(length))
