"""Clients in a closed loop: each sends its next request when the answer to the last one is complete."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import httptools

from . import wire
from .target import PerfError, Target

_PATIENCE_S = 30.0
"""For the last answers, once no more requests go out."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of clients saw of one target."""

    target: str
    clients: int
    requests: int
    per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Span:
    """When to measure, on the monotonic clock, and so when to stop."""

    begin: float
    end: float


async def put_load(target: Target, clients: int, *, warm_s: float, measure_s: float) -> Load:
    """Load a target for `warm_s` that don't count and `measure_s` that do, on as many connections as clients.

    Raises: PerfError: it can't be reached, or answered anything but 200.
    """
    loop = asyncio.get_running_loop()
    opened: list[_Client] = []
    try:
        for number in range(clients):
            data = wire.request(target.authority, target.prefix.format(number))
            _, client = await loop.create_connection(lambda data=data: _Client(target.name, data), *target.address)
            opened.append(client)
        begin = time.monotonic() + warm_s
        span = Span(begin, begin + measure_s)
        for client in opened:
            client.start(span)
        async with asyncio.timeout(warm_s + measure_s + _PATIENCE_S):
            await asyncio.gather(*(client.done for client in opened))
    except TimeoutError:
        raise PerfError(f"{target.name} left a request unanswered for {_PATIENCE_S:g} s") from None
    except OSError as error:
        raise PerfError(f"{target.name} can't be reached: {error}") from error
    finally:
        for client in opened:
            client.close()
    return _summed_up(target.name, opened, measure_s)


def _summed_up(target: str, clients: Sequence[_Client], measure_s: float) -> Load:
    taken = sorted(seconds for client in clients for seconds in client.taken_s)
    if not taken:
        raise PerfError(f"{target} answered no request in {measure_s:g} s")
    p50, p90, p99 = (percentile(taken, share) * 1e3 for share in (0.5, 0.9, 0.99))
    return Load(target, len(clients), len(taken), len(taken) / measure_s, p50, p90, p99)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the values (at least one, in ascending order) does not exceed (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Client(asyncio.Protocol):
    """One connection; httptools calls the `on_…` methods."""

    def __init__(self, name: str, request: bytes) -> None:
        self.taken_s = array("d")
        """Of each request that was answered while measuring."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._span = Span(0.0, 0.0)
        self._sent_at = 0.0

    def start(self, span: Span) -> None:
        self._span = span
        self._send(time.monotonic())

    def close(self) -> None:
        self.done.cancel()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"answered what isn't HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("closed a connection")

    def on_message_complete(self) -> None:
        now = time.monotonic()
        if self._parser.get_status_code() != 200:
            self._fail(f"answered {self._parser.get_status_code()}")
        elif not self._parser.should_keep_alive():
            self._fail("doesn't keep connections")
        else:
            if self._span.begin <= now < self._span.end:
                self.taken_s.append(now - self._sent_at)
            self._send(now)

    def _send(self, now: float) -> None:
        if now < self._span.end:
            self._sent_at = now
            self._transport.write(self._request)
        elif not self.done.done():
            self.done.set_result(None)

    def _fail(self, what: str) -> None:
        if not self.done.done():
            self.done.set_exception(PerfError(f"{self._name} {what}"))
