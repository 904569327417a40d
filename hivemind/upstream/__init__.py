"""HTTP clients for upstreams: one small interface, two implementations."""

from __future__ import annotations

from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    Headers,
    NotTrusted,
    Timeouts,
    Truncated,
    Upstream,
    UpstreamError,
    UpstreamResponse,
    UpstreamTimeout,
)
from hivemind.upstream.connect import open_upstream

__all__ = [
    "ConnectFailed",
    "Disconnected",
    "Headers",
    "NotTrusted",
    "Timeouts",
    "Truncated",
    "Upstream",
    "UpstreamError",
    "UpstreamResponse",
    "UpstreamTimeout",
    "open_upstream",
]
