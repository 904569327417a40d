"""The load generators against the upstream they are made for, and against servers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from benchmarks.perf import wire
from benchmarks.perf.load import put_load
from benchmarks.perf.streams import read_streams
from benchmarks.perf.target import Target
from benchmarks.perf.upstream import Answering

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def upstream() -> AsyncIterator[Target]:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    async with server:
        yield Target("direct", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


@asynccontextmanager
async def scripted(answer: bytes) -> AsyncIterator[Target]:
    """Answers every connection's first request with these bytes, then closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Target("scripted", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def test_load() -> None:
    """Requests are counted over the time that they are measured, from as many connections as clients."""
    async with upstream() as target:
        load = await put_load(target, 3, warm_s=0.0, measure_s=0.02)
    assert (load.target, load.clients) == ("direct", 3)
    assert load.requests == pytest.approx(load.per_s * 0.02)
    assert 0 < load.p50_ms <= load.p90_ms <= load.p99_ms


async def test_streams() -> None:
    """Every event of every stream is read, and those of the warm-up don't count for the delays."""
    async with upstream() as target:
        seen = await read_streams(target, 4, wire.Pace(5, 0.001), skip=4)
    assert (seen.streams, seen.events, seen.lost, seen.reordered) == (4, 20, 0, 0)
    assert 0 < seen.p50_ms <= seen.p90_ms <= seen.p99_ms


async def test_streams_lost() -> None:
    """Events that never came and events that came late are counted, also where reads cut them in two."""
    events = b"".join(wire.stamped(number, 1) for number in (0, 2, 1, 5))
    async with scripted(wire.stream_head() + events + wire.stream_end(4)) as target:
        seen = await read_streams(target, 1, wire.Pace(6, 0.001), skip=0)
    assert (seen.events, seen.lost, seen.reordered) == (4, 2, 1)
