"""An answer from upstream that counts as a failure, and reading of one no more than is needed."""

from __future__ import annotations

from dataclasses import dataclass

from .headers import Headers, value
from .upstream.base import UpstreamResponse

_STREAMED = (b"text/event-stream", b"application/x-ndjson", b"application/stream+json", b"application/jsonl")


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


def is_stream(headers: Headers) -> bool:
    """Whether what comes with this head comes in pieces that mean something by themselves."""
    content_type = value(headers, b"content-type") or b""
    return content_type.partition(b";")[0].strip().lower() in _STREAMED
