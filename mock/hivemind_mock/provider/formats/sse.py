"""Server-sent events, as the providers that use them write them."""

from __future__ import annotations

import msgspec

from hivemind_mock.provider.formats.base import Body


def event(name: str, data: Body) -> bytes:
    """A named event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def unnamed(data: Body) -> bytes:
    """An event without a name."""
    return b"data: %s\n\n" % msgspec.json.encode(data)
