"""What all clients have in common: a connection, a parser, an end, and who says what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar, cast

import httptools

from benchmarks.perf import wire
from benchmarks.perf.target import PerfError, Target

PATIENCE_S = 30.0
"""For the last answers, beyond the time that they should take."""


class Client(asyncio.Protocol):
    """One connection; httptools calls the `on_…` methods."""

    def __init__(self, name: str, request: bytes) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parser = httptools.HttpResponseParser(self)
        self._name = name
        self._request = request

    def send(self) -> None:
        self._transport.write(self._request)

    def finish(self) -> None:
        """All that was to be seen was seen."""
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, what: str) -> None:
        """It can't be measured."""
        if not self.done.done():
            self.done.set_exception(PerfError(f"{self._name} {what}"))

    def close(self) -> None:
        self.done.cancel()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(f"answered what isn't HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail("closed a connection")

    def on_headers_complete(self) -> None:
        if self.parser.get_status_code() != 200:
            self.fail(f"answered {self.parser.get_status_code()}")


C = TypeVar("C", bound=Client)


@asynccontextmanager
async def connected(
    target: Target, count: int, make: Callable[[str, bytes], C], pace: wire.Pace | None = None
) -> AsyncIterator[list[C]]:
    """So many clients, each with a connection and a request of its own, closed at the end.

    Raises: PerfError: the target can't be reached.
    """
    loop = asyncio.get_running_loop()
    opened: list[C] = []
    try:
        for number in range(count):
            request = wire.request(target, number, pace)
            _, client = await loop.create_connection(partial(make, target.name, request), *target.address)
            opened.append(client)
        yield opened
    except OSError as error:
        raise PerfError(f"{target.name} can't be reached: {error}") from error
    finally:
        for client in opened:
            client.close()


async def finished(target: Target, clients: list[C], within_s: float) -> None:
    """Wait until every client has seen all it was to see.

    Raises: PerfError: one of them couldn't, or not in this time.
    """
    try:
        async with asyncio.timeout(within_s + PATIENCE_S):
            await asyncio.gather(*(client.done for client in clients))
    except TimeoutError:
        raise PerfError(f"{target.name} left a request without its end for {PATIENCE_S:g} s") from None
