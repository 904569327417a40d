"""Puts HiveMind between the agents and the mock provider: the real proxy with its default settings."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from hivemind import server
from hivemind.proxy.app import Proxy
from hivemind.settings import Settings

from .inprocess import InProcessTransport


@asynccontextmanager
async def in_process(
    upstream: httpx.AsyncBaseTransport, seed: int, changes: dict[str, Any], wall: Callable[[], float]
) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """The proxy before `upstream`, as a transport; runs in virtual time, of which `wall` is the time of day."""
    settings = Settings(upstream=("mock=http://mock.invalid",), **changes)
    proxy = Proxy(settings, transports={"mock": upstream}, rng=random.Random(seed), wall=wall)
    await proxy.start()
    transport = InProcessTransport(proxy)
    try:
        yield transport
    finally:
        await transport.aclose()
        await proxy.aclose()


@asynccontextmanager
async def on_sockets(upstream_url: str, seed: int, changes: dict[str, Any]) -> AsyncIterator[str]:
    """The proxy before a provider on a real socket, on a socket of its own; gives its base URL."""
    settings = Settings(upstream=(f"mock={upstream_url}",), port=0, **changes)
    async with server.serve(Proxy(settings, rng=random.Random(seed)), settings, durable=False) as served:
        yield served.url
