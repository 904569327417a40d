"""Responses of the control API: JSON, compressed if the client accepts it, never cached."""

from __future__ import annotations

from collections.abc import Mapping

import zstandard
from starlette.datastructures import Headers
from starlette.responses import Response

from hivemind.api_types import Failure
from hivemind.control.codec import encode

NO_PAGE = "there is no such page"

_SMALL = 1024
"""Shorter bodies aren't compressed."""


def failure(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response."""
    return _json(encode(Failure(text)), headers or {}, status)


def reply(data: bytes, headers: Headers) -> Response:
    """Return a response of encoded JSON."""
    if len(data) < _SMALL or "zstd" not in headers.get("accept-encoding", ""):
        return _json(data, {})
    # A snapshot of 200 agents takes 0.1 ms and shrinks to an eighth.
    data = zstandard.ZstdCompressor(level=1).compress(data)
    return _json(data, {"content-encoding": "zstd", "vary": "accept-encoding"})


def _json(data: bytes, headers: Mapping[str, str], status: int = 200) -> Response:
    kept = {"cache-control": "no-store", **headers}
    return Response(data, status, kept, media_type="application/json")
