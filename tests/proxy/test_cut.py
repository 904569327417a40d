"""Single requests that the operator cuts, or has sent again."""

from __future__ import annotations

import json

import pytest
from proxy.kit import Hang, Play, between, raw, request
from proxy.test_stopping import UNBEGUN
from proxy.wire import ANSWER, BLOCK_START, HELLO, MESSAGE_START, PLAIN_BODY, SSE, STREAM, STREAM_BODY, chunk, head

from hivemind.scheduler.commands import CutRequest, Rejected

PATH = "/agent/alice/v1/messages"


@pytest.mark.parametrize("retry", [True, False], ids=["retried", "cut"])
@pytest.mark.parametrize(("play", "body"), UNBEGUN.values(), ids=list(UNBEGUN))
async def test_before_the_answer(play: Play, body: bytes, retry: bool) -> None:
    """Retried, the client sees the next attempt's answer alone; cut, an error that says why. The level stays."""
    next_play: Play = [STREAM if body is STREAM_BODY else ANSWER]
    async with between(play, next_play, tpm=100_000) as (proxy, upstream), raw(proxy.port) as asking:
        await asking.send(request(PATH, body))
        await upstream.until(lambda: len(upstream.requests) == 1)
        if len(play) > 1:
            await proxy.until(lambda world: 77 in [window.limit for window in world.lanes[0].state.windows])
        level = proxy.snapshot().lanes[0].state.level
        proxy.proxy.apply(CutRequest("alice", retry=retry))
        status, headers = await asking.head()
        answer = await asking.body(headers)
        assert status == (200 if retry else 400)
        if not retry:
            assert json.loads(answer)["error"]["message"] == "HiveMind: the operator cut this request"
        world = await proxy.until(lambda world: not (world.slots or world.queued))
        (lane,) = world.lanes
        assert (lane.state.active, lane.state.level, lane.state.circuit_errors) == (0, level, 0)
        assert [window.reserved for window in lane.state.windows] == [0] * len(lane.state.windows)
        assert (world.totals.requests, world.totals.retried_ok, world.totals.failed) == (1, retry, not retry)
        assert len(upstream.requests) == 1 + retry


async def test_an_answer_that_has_begun() -> None:
    """It can't be sent again; cut, it ends in an error event, and its body isn't ended in good order."""
    play: Play = [head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO), Hang()]
    async with between(play) as (proxy, upstream), raw(proxy.port) as asking:
        await asking.ask(request(PATH, STREAM_BODY))
        await asking.chunk()
        await proxy.until(lambda world: [slot.state for slot in world.slots] == ["streaming"])
        with pytest.raises(Rejected, match="can only be cut"):
            proxy.proxy.apply(CutRequest("alice"))
        proxy.proxy.apply(CutRequest("alice", retry=False))
        rest = await asking.rest()
        assert b"the answer broke off: the operator cut this request" in rest
        assert not rest.endswith(b"0\r\n\r\n")
        await upstream.until(lambda: not upstream.open)
        world = await proxy.until(lambda world: not world.slots)
        assert (world.lanes[0].state.active, world.totals.failed) == (0, 1)


async def test_a_client_that_leaves_meanwhile() -> None:
    """Its request isn't sent again, and its slot is free."""
    async with between([Hang()], [ANSWER]) as (proxy, upstream), raw(proxy.port) as asking:
        await asking.send(request(PATH, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        asking.writer.transport.abort()
        await proxy.until(lambda world: not world.slots)
        with pytest.raises(Rejected, match="no request in flight"):
            proxy.proxy.apply(CutRequest("alice"))
        assert len(upstream.requests) == 1
