"""Heads that are read once, however often a client sends them."""

from __future__ import annotations

from typing import Any

from hivemind.proxy.data_plane import MAX_CACHED_HEADS, Head, HeadCache
from hivemind.wire.request_head import parse_path


def scope(path: bytes = b"/v1/messages", **headers: bytes) -> dict[str, Any]:
    """A request's scope, as an ASGI server makes it."""
    pairs = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return {"method": "POST", "raw_path": path, "query_string": b"", "headers": pairs}


def head(size: int = 100) -> Head:
    """A head as it was read."""
    return Head({}, parse_path(b"/v1/messages"), None, None, None, (), size, direct=True)


def test_only_the_length_of_the_body_may_differ() -> None:
    """Another header, path or order of headers makes another head."""
    cache, kept = HeadCache(), head()
    cache.add(scope(x_api_key=b"one", content_length=b"5"), kept)
    assert cache.find(scope(x_api_key=b"one", content_length=b"77")) is kept
    assert cache.find(scope(x_api_key=b"one")) is kept
    assert cache.find(scope(x_api_key=b"two", content_length=b"5")) is None
    assert cache.find(scope(b"/v1/complete", x_api_key=b"one")) is None
    assert cache.find(scope(x_api_key=b"one", accept=b"*/*")) is None


def test_a_large_head_is_not_kept() -> None:
    """The cache takes a bounded amount of memory."""
    cache = HeadCache()
    cache.add(scope(), head(size=1 << 20))
    assert cache.find(scope()) is None


def test_the_oldest_head_makes_room() -> None:
    """However many different heads come, a bounded number is kept."""
    cache = HeadCache()
    for number in range(MAX_CACHED_HEADS + 1):
        cache.add(scope(x_request_id=b"%d" % number), head())
    assert cache.find(scope(x_request_id=b"0")) is None
    assert cache.find(scope(x_request_id=b"%d" % MAX_CACHED_HEADS)) is not None
