"""What a stream of an agent of its own keeps in memory while it goes on."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc

from proxy.kit import Hang, Play, between, raw, request
from proxy.wire import BLOCK_START, HELLO, MESSAGE_START, SSE, STREAM_BODY, chunk, head

STREAMS = 40
MOST = 17_500
"""Bytes that lines of the product's allocated for each, the libraries' objects apart."""


async def test_a_stream_keeps_little() -> None:
    """Neither heads, parsers nor what held the answer's beginning back stay in memory once it streams."""
    play: Play = [head(SSE) + chunk(MESSAGE_START + BLOCK_START + HELLO), Hang()]
    async with between(*[play] * 2 * STREAMS) as (running, _), contextlib.AsyncExitStack() as stack:
        for number in range(2 * STREAMS):
            if number == STREAMS:  # the first ones pay for what all have in common
                tracemalloc.start()
            client = await stack.enter_async_context(raw(running.port))
            await client.send(request(f"/agent/a{number}/v1/messages", STREAM_BODY, "x-api-key: k"))
            await client.head()
        gc.collect()
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/hivemind/*")])
        tracemalloc.stop()
    kept = sum(each.size for each in held.statistics("filename")) / STREAMS
    assert kept < MOST, f"{kept:.0f} bytes"
