"""Puts HiveMind between the agents and the mock provider: the real proxy with its default settings."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from hivemind import __version__
from hivemind.host import server
from hivemind.host.proxy import Proxy
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.sink import JournalSink
from hivemind.settings import Settings
from hivemind_mock.bench.inprocess import InProcessTransport


@asynccontextmanager
async def in_process(
    upstream: httpx.AsyncBaseTransport,
    seed: int,
    changes: dict[str, Any],
    wall: Callable[[], float],
    journal: Path | None = None,
) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """The proxy before `upstream`, as a transport; runs in virtual time, of which `wall` is the time of day.

    Raises: UsageError: the journal can't be written.
    """
    settings = Settings(upstream=("mock=http://mock.invalid",), **changes)
    proxy = Proxy(settings, transports={"mock": upstream}, rng=random.Random(seed), wall=wall)
    await proxy.start()
    transport = InProcessTransport(proxy)
    try:
        with _recorded(proxy, journal, wall):
            yield transport
    finally:
        await transport.aclose()
        await proxy.aclose()


@asynccontextmanager
async def on_sockets(
    upstream_url: str, seed: int, changes: dict[str, Any], journal: Path | None = None
) -> AsyncIterator[str]:
    """The proxy before a provider on a real socket, on a socket of its own; gives its base URL.

    Raises: UsageError: the journal can't be written.
    """
    settings = Settings(upstream=(f"mock={upstream_url}",), port=0, **changes)
    proxy = Proxy(settings, rng=random.Random(seed))
    async with server.serve(proxy, settings, durable=False) as served:
        with _recorded(proxy, journal, time.time):
            yield served.url


@contextmanager
def _recorded(proxy: Proxy, path: Path | None, wall: Callable[[], float]) -> Iterator[None]:
    """What happens meanwhile goes into a journal at that path; None: nowhere."""
    if path is None:
        yield
        return
    engine = proxy.engine
    began = JournalBegan(
        at=engine.now(),
        wall=wall(),
        journal=path.stem,
        part=1,
        program=f"hivemind {__version__}",
        address=proxy.address,
        upstreams=tuple((origin.name, origin.url) for origin in proxy.settings.origins()),
        config=proxy.settings.scheduler_config(),
    )
    sink = JournalSink(path, began)
    engine.record = sink.record_all
    try:
        yield
    finally:
        engine.record = None
        sink.close(engine.now())
