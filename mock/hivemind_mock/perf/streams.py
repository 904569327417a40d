"""Many streams at once: how late each event comes, and whether all of them come, in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import httptools

from . import wire
from .load import percentile
from .target import PerfError, Target

_PATIENCE_S = 30.0
"""Beyond the time that the events take to be sent."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the readers of a number of streams saw of one target."""

    target: str
    streams: int
    events: int
    """That came, those of the warm-up included."""
    lost: int
    reordered: int
    """That came after a later one of the same stream."""
    p50_ms: float
    """From being written by the upstream to being read, as are the others."""
    p90_ms: float
    p99_ms: float


async def read_streams(target: Target, streams: int, pace: wire.Pace, *, skip: int) -> Streamed:
    """Read so many streams to their end, all at once. The first `skip` events of each don't count for the delays.

    Raises: PerfError: it can't be reached, answered anything but 200, or a stream broke off.
    """
    loop = asyncio.get_running_loop()
    opened: list[_Reader] = []
    try:
        for number in range(streams):
            data = wire.request(target.authority, target.prefix.format(number), pace)
            _, reader = await loop.create_connection(lambda data=data: _Reader(target.name, data), *target.address)
            opened.append(reader)
        for reader in opened:
            reader.start()
        async with asyncio.timeout(pace.events * pace.every_s + _PATIENCE_S):
            await asyncio.gather(*(reader.done for reader in opened))
    except TimeoutError:
        raise PerfError(f"{target.name} left a stream without its end for {_PATIENCE_S:g} s") from None
    except OSError as error:
        raise PerfError(f"{target.name} can't be reached: {error}") from error
    finally:
        for reader in opened:
            reader.close()
    return _summed_up(target.name, [reader.arrivals for reader in opened], pace.events, skip)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event, as it was read."""

    number: int
    late_s: float


def _summed_up(target: str, streams: Sequence[Sequence[Arrival]], expected: int, skip: int) -> Streamed:
    late = sorted(event.late_s for stream in streams for event in stream if event.number >= skip)
    if not late:
        raise PerfError(f"{target} delivered no event to measure")
    p50, p90, p99 = (percentile(late, share) * 1e3 for share in (0.5, 0.9, 0.99))
    return Streamed(
        target=target,
        streams=len(streams),
        events=sum(map(len, streams)),
        lost=sum(expected - len({event.number for event in stream}) for stream in streams),
        reordered=sum(map(reordered, streams)),
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
    )


def reordered(stream: Sequence[Arrival]) -> int:
    """Events that came after a later one, or twice."""
    highest, count = -1, 0
    for event in stream:
        if event.number <= highest:
            count += 1
        highest = max(highest, event.number)
    return count


class _Reader(asyncio.Protocol):
    """One connection with one stream; httptools calls the `on_…` methods."""

    def __init__(self, name: str, request: bytes) -> None:
        self.arrivals: list[Arrival] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._rest = b""

    def start(self) -> None:
        self._transport.write(self._request)

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
        self._fail("broke a stream off")

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() != 200:
            self._fail(f"answered {self._parser.get_status_code()}")

    def on_body(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        whole, end, self._rest = (self._rest + data).rpartition(b"\n\n")
        if end:
            self.arrivals += [
                Arrival(number, (now_ns - sent_ns) / 1e9) for number, sent_ns in wire.stamps(whole)
            ]

    def on_message_complete(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _fail(self, what: str) -> None:
        if not self.done.done():
            self.done.set_exception(PerfError(f"{self._name} {what}"))
