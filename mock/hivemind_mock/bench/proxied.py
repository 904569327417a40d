"""The real proxy between agents and the mock provider, with its default settings but for the given changes."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
from starlette.types import Receive, Scope, Send

from hivemind import __version__
from hivemind.host import server
from hivemind.host.proxy import Proxy
from hivemind.journal.codec import line_of
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.scheduler.events import Event
from hivemind.settings.checks import checked
from hivemind.store.atomic import output_file
from hivemind_mock.provider.inprocess import InProcessTransport

_USUAL: dict[str, Any] = {"profile": "generic", "max_concurrency": 5}
"""The paper's row for an unknown provider, with its C_max as a limit, whatever address the mock has."""


class Upstream(Protocol):
    """A provider that is an ASGI application and knows the time of day."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def wall(self) -> float:
        """Return the time in seconds since the epoch."""


@asynccontextmanager
async def in_process(
    mock: Upstream, seed: int, changes: dict[str, Any], journal: Path | None = None
) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """Run the proxy in front of a provider in this process, and give the transport that leads to it.

    Raises: UsageError: the journal can't be written.
    """
    settings = checked({"upstream": ("mock=http://mock.invalid",), **_USUAL, **changes})
    async with aclosing(InProcessTransport(mock)) as upstream:
        proxy = Proxy(settings, transports={"mock": upstream}, rng=random.Random(seed), wall=mock.wall)
        await proxy.start()
        async with aclosing(proxy), aclosing(InProcessTransport(proxy.app)) as transport:
            with _recorded(proxy, journal, mock.wall):
                yield transport


@asynccontextmanager
async def on_sockets(
    upstream_url: str, seed: int, changes: dict[str, Any], journal: Path | None = None
) -> AsyncIterator[str]:
    """Run the proxy on a socket in front of a provider on another, and give its base URL.

    Raises: UsageError: the journal can't be written.
    """
    settings = checked({"upstream": (f"mock={upstream_url}",), "port": 0, **_USUAL, **changes})
    proxy = Proxy(settings, rng=random.Random(seed))
    async with server.serve(proxy, settings, durable=False):
        with _recorded(proxy, journal, time.time):
            yield proxy.address


@contextmanager
def _recorded(proxy: Proxy, path: Path | None, wall: Callable[[], float]) -> Iterator[None]:
    """Write the engine's events to a journal at that path; None: nowhere."""
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
    events: list[Event] = [began]
    engine.hooks.record = events.extend
    try:
        yield
    finally:
        engine.hooks.record = None
        events.append(JournalEnded(engine.now()))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with output_file(path, str(path)) as file:
            file.writelines(map(line_of, events))
