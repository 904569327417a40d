"""Both clients, on both loops; what runs on asyncio's own is `slow`, as in :mod:`proxy.conftest`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import httpx
import pytest
import uvloop
from proxy.conftest import one_connection as one_connection
from proxy.conftest import pytest_collection_modifyitems as pytest_collection_modifyitems

from hivemind.upstream.base import Timeouts, Upstream
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.origin import Origin
from hivemind.upstream.transport import TransportUpstream


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


DEFAULT = Timeouts()


class Opener(Protocol):
    """Opens a client that is closed with the test."""

    def __call__(self, url: str, *, timeouts: Timeouts = DEFAULT) -> Upstream: ...


def _over_httpx(url: str, *, timeouts: Timeouts) -> Upstream:
    return TransportUpstream(Origin.parse(url), httpx.AsyncHTTPTransport(), timeouts=timeouts, dials=True)


@contextlib.asynccontextmanager
async def _closing(make: Callable[..., Upstream]) -> AsyncIterator[Opener]:
    opened: list[Upstream] = []

    def opener(url: str, *, timeouts: Timeouts = DEFAULT) -> Upstream:
        opened.append(make(url, timeouts=timeouts))
        return opened[-1]

    yield opener
    for upstream in opened:
        await upstream.aclose()


@pytest.fixture(params=[open_upstream, _over_httpx], ids=["native", "httpx"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Opener]:
    """Each of the two clients."""
    async with _closing(request.param) as opener:
        yield opener


@pytest.fixture
async def native() -> AsyncIterator[Opener]:
    """The native client alone."""
    async with _closing(open_upstream) as opener:
        yield opener
