"""Agents that the operator cuts off, wherever their requests are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from proxy.kit import Hang, Play, Raw, Running, between, proxying, raw, request
from proxy.wire import ANSWER, BLOCK_START, HELLO, JSON, MESSAGE_START, PLAIN_BODY, SSE, STREAM_BODY, chunk, head, http
from upstream.scripted import Scripted, serving
from waiting import until

from hivemind.proxy import server_protocol
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.scheduler.commands import StopAgent

PATH = "/agent/alice/v1/messages"
TEXT = "HiveMind: the operator stopped this agent; it is refused until it is released in the control room"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def stop(proxy: Running, *, stopped: bool = True) -> None:
    proxy.proxy.apply(StopAgent("alice", stopped))


async def refused(answering: Raw) -> None:
    """The client is told so, in its provider's shape, and that asking again is no use."""
    status, headers = await answering.head()
    said = dict(headers)
    assert (status, said[b"x-should-retry"], said.get(b"retry-after")) == (400, b"false", None)
    error = json.loads(await answering.body(headers))["error"]
    assert (error["type"], error["message"]) == ("invalid_request_error", TEXT)


async def at_rest(proxy: Running) -> None:
    """Wait until nothing flies or waits, and check that nothing is held for anybody."""
    world = await proxy.until(lambda world: not (world.slots or world.queued))
    (lane,) = world.lanes
    assert (lane.state.active, lane.state.waiting, lane.state.retrying) == (0, 0, 0)
    assert [window.reserved for window in lane.state.windows] == [0] * len(lane.state.windows)
    assert world.totals.abandoned + world.totals.refused == world.totals.requests


LIMITS = ("anthropic-ratelimit-requests-limit: 77", "anthropic-ratelimit-requests-remaining: 76")
UNBEGUN: dict[str, tuple[Play, bytes]] = {
    "before the head": ([Hang()], PLAIN_BODY),
    "after the head": ([head(SSE, *LIMITS), Hang()], STREAM_BODY),
    "in the prelude": ([head(SSE, *LIMITS) + chunk(MESSAGE_START), Hang()], STREAM_BODY),
    "in a whole answer": ([http(200, b"{" + b" " * 90, *LIMITS)[:-5], Hang()], PLAIN_BODY),
    "in an error's body": ([http(500, b" " * 90, *LIMITS)[:-5], Hang()], PLAIN_BODY),
}


@pytest.mark.parametrize(("play", "body"), UNBEGUN.values(), ids=list(UNBEGUN))
async def test_nothing_sent_yet(play: Play, body: bytes) -> None:
    """As long as the client has nothing of an answer it is told why; the upstream's connection is closed at once."""
    async with between(play, tpm=100_000) as (proxy, upstream), raw(proxy.port) as asking:
        await asking.send(request(PATH, body))
        await upstream.until(lambda: len(upstream.requests) == 1)
        if len(play) > 1:
            await proxy.until(lambda world: 77 in [window.limit for window in world.lanes[0].state.windows])
        stop(proxy)
        await refused(asking)
        await at_rest(proxy)
        await upstream.until(lambda: not upstream.open)
        assert len(upstream.requests) == 1


async def test_while_connecting() -> None:
    """A connection that isn't there yet is given up."""

    async def silent(_: Scripted, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        serving(silent) as upstream,
        proxying(f"lab=https://127.0.0.1:{upstream.port}") as proxy,
        raw(proxy.port) as asking,
    ):
        await asking.send(request(PATH, PLAIN_BODY))
        await upstream.until(lambda: upstream.accepted == 1)
        stop(proxy)
        await refused(asking)
        await upstream.until(lambda: not upstream.open)
        await at_rest(proxy)


BEGUN: dict[str, tuple[Play, bytes]] = {
    "a stream": ([head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO), Hang()], STREAM_BODY),
    "a long answer": ([head(JSON) + chunk(b"{" + b" " * (2 << 20)), Hang()], PLAIN_BODY),
}


@pytest.mark.parametrize(("play", "body"), BEGUN.values(), ids=list(BEGUN))
async def test_an_answer_that_has_begun_is_cut(play: Play, body: bytes) -> None:
    """Never ended in good order: its chunked body has no end, so it can't pass for a whole answer."""
    async with between(play, rpm=100) as (proxy, upstream), raw(proxy.port) as asking:
        status, _ = await asking.ask(request(PATH, body))
        assert status == 200
        part = await asking.chunk()
        await proxy.until(lambda world: [slot.state for slot in world.slots] == ["streaming"])
        stop(proxy)
        rest = await asking.rest()
        assert part
        assert not rest.endswith(b"0\r\n\r\n")
        assert b"HiveMind" not in rest
        await upstream.until(lambda: not upstream.open)
        await at_rest(proxy)
        (agent,) = proxy.snapshot().agents
        assert (agent.in_flight, agent.queued) == (0, 0)


@asynccontextmanager
async def behind_bob(*plays: Play, **values: float) -> AsyncIterator[tuple[Running, Scripted, asyncio.Event, Raw, Raw]]:
    """Bob's request has the only slot until the event is set; his connection, and one more."""
    gate = asyncio.Event()
    async with (
        between([gate, ANSWER], *plays, max_concurrency=1, **values) as (proxy, upstream),
        raw(proxy.port) as bobs,
        raw(proxy.port) as asking,
    ):
        await bobs.send(request("/agent/bob/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        yield proxy, upstream, gate, bobs, asking


async def test_waiting() -> None:
    """Whoever waits is told, and the one before it isn't touched where it is another agent's."""
    async with behind_bob() as (proxy, upstream, gate, bobs, waiting):
        await waiting.send(request(PATH, PLAIN_BODY))
        await proxy.until(lambda world: world.queued == 1)
        stop(proxy)
        await refused(waiting)
        gate.set()
        assert (await bobs.head())[0] == 200
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("in_flight", [False, True], ids=["waiting", "in flight"])
async def test_a_stream_that_was_kept_alive(in_flight: bool) -> None:
    """Its head is out, so it is told by its provider's error event, and ends well: nothing of an answer was in it."""
    keepalive = {"keepalive_after_s": 0.005, "keepalive_every_s": 0.005}
    async with behind_bob([Hang()], **keepalive) as (proxy, upstream, gate, bobs, asking):
        status, headers = await asking.ask(request(PATH, STREAM_BODY))
        assert status == 200
        if in_flight:
            gate.set()
            await upstream.until(lambda: len(upstream.requests) == 2)
        stop(proxy)
        got = (await asking.body(headers)).replace(PING, b"")
        name, data = got.removesuffix(b"\n\n").split(b"\n")
        assert name == b"event: error"
        error = json.loads(data.removeprefix(b"data: "))["error"]
        assert (error["type"], error["message"]) == ("invalid_request_error", TEXT)
        gate.set()
        assert (await bobs.head())[0] == 200
        await upstream.until(lambda: len(upstream.open) <= 1)


def listening(proxy: Running) -> int:
    """How many wait for the answer of alice's."""
    return sum(len(each.writer._clients) for each in proxy.proxy.app._retries.waiting.get("alice", ()))


async def test_all_who_wait_for_the_same_answer() -> None:
    """A request that was sent again while the first one waited is told as well."""
    async with behind_bob([Hang()]) as (proxy, upstream, gate, _, first), raw(proxy.port) as again:
        await first.send(request(PATH, PLAIN_BODY, "x-stainless-retry-count: 0"))
        await proxy.until(lambda world: world.queued == 1)
        await again.send(request(PATH, PLAIN_BODY, "x-stainless-retry-count: 1"))
        await until(lambda: listening(proxy) >= 2)
        gate.set()
        await upstream.until(lambda: len(upstream.requests) == 2)
        stop(proxy)
        await refused(first)
        await refused(again)


async def test_granted_in_the_same_moment() -> None:
    """A request that was let through and stopped before it could go upstream never gets there."""
    async with behind_bob([ANSWER]) as (proxy, upstream, _, _, asking):
        await asking.send(request(PATH, PLAIN_BODY))
        await proxy.until(lambda world: world.queued == 1)
        proxy.proxy.apply(StopAgent("bob", True))
        # Bob's attempt ends in one of the loop's next rounds, which grants alice's, whose turn to run comes after ours.
        while not any(slot.agent == "alice" for slot in proxy.snapshot().slots):  # noqa: ASYNC110
            await asyncio.sleep(0)
        stop(proxy)
        await refused(asking)
        await proxy.until(lambda world: not world.slots)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("first", ["the client", "the operator"])
async def test_a_client_that_leaves_in_the_same_moment(first: str) -> None:
    """Whichever comes first, everything is free and nobody waits for the other."""
    async with between([Hang()], rpm=100) as (proxy, upstream), raw(proxy.port) as asking:
        await asking.send(request(PATH, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        if first == "the operator":
            stop(proxy)
        asking.leave(hard=True)
        if first == "the client":
            stop(proxy)
        await proxy.until(lambda world: not world.slots)
        await upstream.until(lambda: not upstream.open)
        await asyncio.wait_for(proxy.proxy.drain(600), 60)


async def test_a_client_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes nothing of what it was sent loses its connection all the same."""
    full, lost = asyncio.Event(), asyncio.Event()
    pause_writing, connection_lost = ClientProtocol.pause_writing, ClientProtocol.connection_lost

    def paused(self: ClientProtocol) -> None:
        pause_writing(self)
        full.set()

    def was_lost(self: ClientProtocol, exc: Exception | None) -> None:
        connection_lost(self, exc)
        lost.set()

    monkeypatch.setattr(server_protocol, "LINGER_S", 0.01)
    monkeypatch.setattr(ClientProtocol, "pause_writing", paused)
    monkeypatch.setattr(ClientProtocol, "connection_lost", was_lost)
    flood = [chunk(HELLO * 10_000)] * 100
    play: Play = [head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO), *flood, Hang()]
    async with between(play) as (proxy, upstream), raw(proxy.port, limit=1) as hanging:
        await hanging.send(request(PATH, STREAM_BODY))
        await full.wait()
        assert not lost.is_set()
        stop(proxy)
        await at_rest(proxy)
        await upstream.until(lambda: not upstream.open)
        await lost.wait()


async def test_somebody_else_s_cancellation_is_not_swallowed() -> None:
    """Whoever cancels the task in the same moment means more than this attempt, and sees it cancelled."""
    sent: list[object] = []
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "raw_path": PATH.encode(), "query_string": b"", "headers": headers}
    messages = asyncio.Queue[dict[str, object]]()
    messages.put_nowait({"type": "http.request", "body": PLAIN_BODY, "more_body": False})

    async def send(message: object) -> None:
        sent.append(message)

    async with between([Hang()]) as (proxy, upstream):
        task = asyncio.create_task(proxy.proxy.app(scope, messages.get, send))
        await upstream.until(lambda: len(upstream.requests) == 1)
        stop(proxy)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (sent, proxy.snapshot().slots) == ([], ())
