"""The store that a fleet's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis_server
from redis_server import RedisServer


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    with redis_server.running() as server:
        yield server


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    """An empty one."""
    shared.command("FLUSHALL")
    return shared
