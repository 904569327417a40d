"""The load generators against the upstream they are made for, and against servers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from benchmarks.perf import background, wire
from benchmarks.perf.background import working
from benchmarks.perf.load import percentile, put_load
from benchmarks.perf.streams import Arrival, read_streams, reordered
from benchmarks.perf.target import PerfError, Target
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


async def test_load_prefix() -> None:
    """Each client has its own path where the target asks for that."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readline()).split()[1])
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        target = Target("proxy", f"http://127.0.0.1:{port}", "/agent/perf-{}")
        with pytest.raises(PerfError, match="proxy closed a connection"):
            await put_load(target, 2, warm_s=0.0, measure_s=10.0)
    assert set(seen) <= {b"/agent/perf-0/v1/messages", b"/agent/perf-1/v1/messages"}
    assert seen


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", "scripted answered 503"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", "scripted doesn't keep connections"),
        (b"SSH-2.0-OpenSSH\r\n", "scripted answered what isn't HTTP"),
        (b"", "scripted closed a connection"),
    ],
)
async def test_load_failures(answer: bytes, said: str) -> None:
    """A server that can't be measured is told, not averaged in."""
    async with scripted(answer) as target:
        with pytest.raises(PerfError, match=said):
            await put_load(target, 1, warm_s=0.0, measure_s=10.0)


async def test_nobody_there() -> None:
    """A server that is gone is told as such, by both generators."""
    async with upstream() as target:
        pass
    with pytest.raises(PerfError, match="direct can't be reached"):
        await put_load(target, 1, warm_s=0.0, measure_s=10.0)
    with pytest.raises(PerfError, match="direct can't be reached"):
        await read_streams(target, 1, wire.Pace(1, 0.001), skip=0)


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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 529 Overloaded\r\ncontent-length: 0\r\n\r\n", "scripted answered 529"),
        (wire.stream_head() + wire.stamped(0, 1), "scripted broke a stream off"),
        (b"SSH-2.0-OpenSSH\r\n", "scripted answered what isn't HTTP"),
        (wire.stream_head() + wire.stream_end(0), "scripted delivered no event"),
    ],
)
async def test_stream_failures(answer: bytes, said: str) -> None:
    """A stream that can't be measured is told."""
    async with scripted(answer) as target:
        with pytest.raises(PerfError, match=said):
            await read_streams(target, 1, wire.Pace(1, 0.001), skip=0)


@pytest.mark.parametrize(
    ("numbers", "count"), [([], 0), ([0, 1, 2], 0), ([0, 2, 1], 1), ([3, 0, 1, 2], 3), ([0, 0], 1), ([0, 4], 0)]
)
def test_reordered(numbers: list[int], count: int) -> None:
    """An event is out of order where a later one, or itself, came before it."""
    assert reordered([Arrival(number, 0.0) for number in numbers]) == count


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 6.0), (0.9, 10.0), (1.0, 10.0)])
def test_percentile(share: float, value: float) -> None:
    """A share of the values lies below the percentile."""
    assert percentile([float(number) for number in range(1, 11)], share) == value


def test_wire() -> None:
    """A request says how large it is, a stream's stamps can be read back, and its pace survives the query."""
    target = Target("proxy", "http://127.0.0.1:1", "/agent/{}", headers="x-one: 1\r\n")
    head, _, body = wire.request(target, 7, wire.Pace(60, 0.05)).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /agent/7/v1/messages HTTP/1.1\r\nhost: 127.0.0.1:1\r\n")
    assert b"x-one: 1\r\ncontent-length: %d" % len(body) in head
    assert wire.Pace.of(body) == wire.Pace(60, 0.05)
    assert wire.Pace.of(wire.request(target, 7)) is None
    assert wire.stamps(wire.stamped(7, 11) + wire.stamped(8, 12)) == [(7, 11), (8, 12)]


async def test_background_agents_stream_again_after_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads a stream to its end, and then another, until the context is left."""
    monkeypatch.setattr(background, "_ANSWER", wire.Pace(2, 0.001))
    monkeypatch.setattr(background, "_THINK_S", 0.001)
    monkeypatch.setattr(background, "_ONE_AFTER_THE_OTHER_S", 0.001)
    ends: dict[str, int] = {}
    thrice = asyncio.Event()
    once = background._Agent.on_message_complete

    def counted(agent: background._Agent) -> None:
        name = str(id(agent))
        ends[name] = ends.get(name, 0) + 1
        if len(ends) == 2 and min(ends.values()) >= 3:
            thrice.set()
        once(agent)

    monkeypatch.setattr(background._Agent, "on_message_complete", counted)
    async with asyncio.timeout(30.0), upstream() as target, working(target, 2):
        await thrice.wait()


async def test_a_failing_background_agent_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured beside it would be worth nothing."""
    refused = asyncio.Event()
    fail = background._Agent.fail

    def failed(agent: background._Agent, what: str) -> None:
        fail(agent, what)
        refused.set()

    monkeypatch.setattr(background._Agent, "fail", failed)
    async with scripted(b"HTTP/1.1 529 Overloaded\r\ncontent-length: 0\r\n\r\n") as target:
        with pytest.raises(PerfError, match="scripted answered 529"):
            async with working(target, 1):
                await refused.wait()
