"""What is over is gone: nothing of a request, and so no body of many megabytes, waits for the collector to come."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from proxy import wire
from proxy.kit import Close, Hang, Play, Reset, between, raw, request

CONTENT = wire.head(wire.SSE) + wire.chunk(wire.MESSAGE_START + wire.BLOCK_START + wire.HELLO)
ENDS: dict[str, tuple[Play, bytes, str]] = {
    "answered": ([wire.ANSWER], wire.PLAIN_BODY, ""),
    "streamed": ([wire.STREAM], wire.STREAM_BODY, ""),
    "refused": ([wire.http(400, b"{}")], wire.PLAIN_BODY, ""),
    "reset before the head": ([Reset()], wire.PLAIN_BODY, ""),
    "closed before the head": ([Close()], wire.STREAM_BODY, ""),
    "cut in the prelude": ([wire.head(wire.SSE) + wire.chunk(wire.MESSAGE_START), Reset()], wire.STREAM_BODY, ""),
    "cut in the stream": ([CONTENT, Reset()], wire.STREAM_BODY, ""),
    "cut in a whole answer": ([wire.ANSWER[:-5], Close()], wire.PLAIN_BODY, ""),
    "not HTTP": ([b"nonsense\r\n\r\n"], wire.PLAIN_BODY, ""),
    "left while it waits": ([Hang()], wire.PLAIN_BODY, "waiting"),
    "left in the stream": ([CONTENT, Hang()], wire.STREAM_BODY, "streaming"),
}


@pytest.fixture
def _by_hand() -> Iterator[None]:
    """Nothing is collected but by :func:`rubbish`, and what there was before doesn't count."""
    gc.disable()
    gc.freeze()  # what earlier tests left, which their loops may hold until now
    yield
    gc.enable()
    gc.unfreeze()


def rubbish() -> list[str]:
    """Objects of ours that nothing but a circle keeps alive; not those of an earlier test's loop."""
    loop = asyncio.get_running_loop()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    ours = [each for each in gc.garbage if type(each).__module__.startswith("hivemind.")]
    found = [type(each) for each in ours if getattr(each, "_loop", loop) is loop]
    ours.clear()
    gc.garbage.clear()
    return [each.__name__ for each in found]


@pytest.mark.usefixtures("_by_hand")
@pytest.mark.parametrize(("play", "body", "leaves"), ENDS.values(), ids=list(ENDS))
async def test_an_end_leaves_nothing_to_collect(play: Play, body: bytes, leaves: str) -> None:
    """However a request ends, counting references is enough to be rid of it and of both its connections."""
    async with between(play, retry={"max_attempts": 1}) as (proxy, upstream):
        for _ in range(3):
            async with raw(proxy.port) as web:
                await web.send(request("/v1/messages", body, "connection: close"))
                if leaves:
                    await proxy.until(lambda world: [slot.state for slot in world.slots] == [leaves])
                    web.leave()
                else:
                    await web.rest()
            await proxy.until(lambda world: not world.slots)
        if not isinstance(play[-1], bytes):  # else its connection may serve again
            await upstream.until(lambda: not upstream.open)
        assert rubbish() == []
        assert proxy.snapshot().totals.requests == 3
