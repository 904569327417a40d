"""An answer from upstream that counts as a failure, and reading of one no more than is needed."""

from __future__ import annotations

from dataclasses import dataclass

from .upstream.base import UpstreamResponse


@dataclass(frozen=True, slots=True)
class Reply:
    """What came, to be passed on should nothing better come."""

    response: UpstreamResponse
    body: bytes
    """What was read of it."""
    stream: bool = False
    """A stream, of which there may be more to read."""
    cut: bool = False
    """It ended before its own end marker."""


async def read_most(response: UpstreamResponse, limit: int) -> tuple[bytes, bool]:
    """The body as far as about `limit` bytes, and whether that is all of it.

    Raises: Truncated, UpstreamTimeout.
    """
    parts: list[bytes] = []
    size = 0
    while size < limit:
        data = await response.read()
        if not data:
            return b"".join(parts), True
        parts.append(data)
        size += len(data)
    return b"".join(parts), False
