"""Clients that leave, at any moment: nothing of them stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import stat
from collections.abc import MutableMapping

import pytest
from proxy.kit import Hang, Play, Running, between, client, playing, proxying, raw, request
from proxy.wire import ANSWER, BLOCK_START, HELLO, MESSAGE_START, PLAIN_BODY, SSE, STREAM_BODY, chunk, head, http
from upstream.scripted import serving

from hivemind.proxy.response_writer import AsgiDelivery, ResponseWriter
from hivemind.proxy.streaming import KeepaliveSender

MESSAGES = "/v1/messages"
MANY = 300
AT_ONCE = 80
"""Fewer than the backlog of the test's sockets; a connection beyond it would be tried again after a second."""


def open_sockets() -> int:
    """Sockets that this process has open."""
    found = 0
    for number in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            found += stat.S_ISSOCK(os.fstat(number).st_mode)
    return found


async def at_rest(proxy: Running) -> None:
    """Wait until nobody is served, and check that nothing is held for anybody."""
    world = await proxy.until(lambda world: not (world.slots or world.queue or world.queued))
    for lane in world.lanes:
        assert (lane.state.active, lane.state.waiting, lane.state.retrying) == (0, 0, 0)
        assert [window.reserved for window in lane.state.windows] == [0] * len(lane.state.windows)
    assert all((agent.in_flight, agent.queued) == (0, 0) for agent in world.agents)


STAGES: dict[str, tuple[Play, bytes, str]] = {
    "before the head": ([Hang()], PLAIN_BODY, "waiting"),
    "after the head": ([head(SSE), Hang()], STREAM_BODY, "waiting"),
    "in the prelude": ([head(SSE) + chunk(MESSAGE_START), Hang()], STREAM_BODY, "waiting"),
    "in the stream": ([head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO), Hang()], STREAM_BODY, "streaming"),
    "in a whole answer": ([ANSWER[:-5], Hang()], PLAIN_BODY, "waiting"),
}


@pytest.mark.parametrize(("play", "body", "state"), STAGES.values(), ids=list(STAGES))
@pytest.mark.parametrize("hard", [False, True], ids=["FIN", "RST"])
async def test_stage(play: Play, body: bytes, state: str, hard: bool) -> None:
    """Wherever the answer is when the client leaves, its slot is free and the upstream's connection closed."""
    async with between(play, rpm=100, tpm=100_000) as (proxy, upstream), raw(proxy.port) as leaving:
        await leaving.send(request(MESSAGES, body))
        await proxy.until(lambda world: [slot.state for slot in world.slots] == [state])
        leaving.leave(hard=hard)
        await at_rest(proxy)
        await upstream.until(lambda: not upstream.open)
        assert proxy.snapshot().totals.abandoned == 1


async def test_between_two_attempts() -> None:
    """A client that leaves while its request waits for another attempt is not tried for again."""
    async with (
        serving(playing([http(503, b"", "retry-after: 200")])) as upstream,
        proxying(f"lab={upstream.url}", rpm=100) as proxy,
        raw(proxy.port) as leaving,
    ):
        await leaving.send(request(MESSAGES, PLAIN_BODY))
        await proxy.until(lambda world: world.totals.retries == 1)
        leaving.leave()
        await at_rest(proxy)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("cut", [10, 60, -5], ids=["in the head", "before the body", "in the body"])
async def test_in_the_request(cut: int) -> None:
    """A request that never came whole is nobody's: no ticket, no attempt."""
    async with between([ANSWER]) as (proxy, upstream):
        async with raw(proxy.port) as leaving:
            await leaving.send(request(MESSAGES, PLAIN_BODY)[:cut])
        async with client() as web:
            assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).status_code == 200
        assert (len(upstream.requests), proxy.snapshot().totals.requests) == (1, 1)


async def test_at_once() -> None:
    """A client that leaves together with its last byte leaves nothing behind either."""
    async with between([Hang()], rpm=1000) as (proxy, upstream):
        for number in range(20):
            async with raw(proxy.port) as leaving:
                leaving.writer.write(request(MESSAGES, PLAIN_BODY))
                leaving.leave(hard=bool(number % 2))
        async with client() as web:
            await web.get(f"{proxy.url}/_health")
        await at_rest(proxy)
        await upstream.until(lambda: not upstream.open)


@pytest.mark.parametrize("hard", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("behind", ["whole", "half", "large", "nonsense"])
async def test_pipelined(behind: str, hard: bool) -> None:
    """A client that leaves with more on its connection than the request in flight is noticed at once, whatever that
    is."""
    more = {
        "whole": request(MESSAGES, PLAIN_BODY),
        "half": request(MESSAGES, PLAIN_BODY)[:-3],
        "large": request(MESSAGES, b"x" * (8 << 20)),
        "nonsense": b"nonsense",
    }[behind]
    async with between([Hang()]) as (proxy, upstream), raw(proxy.port) as leaving:
        await leaving.send(request(MESSAGES, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await leaving.send(more)
        leaving.leave(hard=hard)
        await at_rest(proxy)
        await upstream.until(lambda: not upstream.open)
        assert (len(upstream.requests), proxy.snapshot().totals.requests) == (1, 1)


@pytest.mark.parametrize("hard", [False, True], ids=["FIN", "RST"])
async def test_in_the_queue_with_a_large_body(hard: bool) -> None:
    """A client whose large request waits for its turn is noticed as well when it leaves."""
    async with between([Hang()], max_concurrency=1) as (proxy, upstream), raw(proxy.port) as first:
        await first.send(request(MESSAGES, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        async with raw(proxy.port) as leaving:
            await leaving.send(request(MESSAGES, b"x" * (8 << 20)))
            await proxy.until(lambda world: world.queued == 1)
            leaving.leave(hard=hard)
            await proxy.until(lambda world: world.queued == 0)
        first.leave()
        await at_rest(proxy)


async def test_while_the_keepalive_stops() -> None:
    """A client that leaves in the moment in which its answer begins is noticed all the same."""

    async def send(_: MutableMapping[str, object]) -> None:
        """A client that takes everything."""

    async def receive() -> MutableMapping[str, object]:
        """A client that stays."""
        return {"type": "http.request"}

    sender = KeepaliveSender(ResponseWriter(AsgiDelivery(receive, send)), [], b"\n", after_s=0, every_s=10)
    while not sender.started:  # noqa: ASYNC110 - nothing to wait for
        await asyncio.sleep(0)
    leaving = asyncio.create_task(sender.stop())
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def _leave(proxy: Running, rng: random.Random, number: int) -> None:
    """One client: at a random moment after it began to send, it goes."""
    body = rng.choice((PLAIN_BODY, STREAM_BODY))
    async with raw(proxy.port) as leaving:
        message = request(f"/agent/a{number % 40}{MESSAGES}", body)
        if rng.random() < 0.1:
            await leaving.send(message[: rng.randrange(len(message))])
        else:
            await leaving.send(message)
            for _ in range(rng.randrange(30)):
                await asyncio.sleep(0)
            if rng.random() < 0.5:
                await asyncio.sleep(rng.random() * 0.05)
        leaving.leave(hard=rng.random() < 0.5)


async def test_hundreds_of_clients() -> None:
    """Hundreds of clients leave at random moments (queued, before the head, in the stream, between attempts): no slot,
    no reservation, no task and no connection stays."""
    rng = random.Random(7)
    streaming: Play = [head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO), *[chunk(HELLO)] * 3, Hang()]
    once = "connection: close"
    choices: list[Play] = [streaming, [Hang()], [head(SSE), Hang()], [http(529, b"", once)], [http(200, b"{}", once)]]
    plays = [rng.choice(choices) for _ in range(MANY)]
    sockets, tasks = open_sockets(), len(asyncio.all_tasks())
    async with (
        serving(playing(*plays)) as upstream,
        proxying(f"lab={upstream.url}", max_concurrency=60, rpm=100_000, tpm=100_000_000) as proxy,
    ):
        for start in range(0, MANY, AT_ONCE):
            await asyncio.gather(*(_leave(proxy, rng, start + n) for n in range(AT_ONCE)))
        await at_rest(proxy)
        world = proxy.snapshot()
        ended = world.totals.finished + world.totals.abandoned + world.totals.failed + world.totals.refused
        assert world.totals.requests == ended > MANY / 2
        assert not proxy.proxy.app._retries.waiting
        await upstream.until(lambda: not upstream.open)
    ending = asyncio.all_tasks() - {asyncio.current_task()}  # one that was just cancelled needs a turn of the loop
    if ending:
        await asyncio.wait(ending)
    assert len(asyncio.all_tasks()) == tasks
    assert open_sockets() == sockets
