"""Bytes out equal bytes in, however the network cuts them."""

from __future__ import annotations

import asyncio
import itertools

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from upstream.exchange import post, whole
from upstream.scripted import Scripted, serving

from hivemind.upstream.connect import open_upstream

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
FRAMINGS = st.sampled_from(["length", "chunked", "unframed"])


def on_the_wire(pieces: list[bytes], framing: str) -> bytes:
    """A response with these pieces as its body."""
    body = b"".join(pieces)
    match framing:
        case "length":
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        case "chunked":
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        case _:
            return b"HTTP/1.1 200 OK\r\n\r\n" + body


async def exchange(wire: bytes, cuts: list[int]) -> bytes:
    """Fetch a response that is sent in parts, each on its own."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        at = sorted({0, len(wire), *(cut % len(wire) for cut in cuts)})
        for start, end in itertools.pairwise(at):
            writer.write(wire[start:end])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async with serving(handle) as server:
        upstream = open_upstream(server.url)
        body = await whole(await post(upstream))
        await upstream.aclose()
        return body


@settings(max_examples=examples(60), deadline=None)
@given(pieces=PIECES, framing=FRAMINGS, cuts=st.lists(st.integers(0, 1000), max_size=12))
def test_a_body_survives_any_cut(pieces: list[bytes], framing: str, cuts: list[int]) -> None:
    """Whatever its framing and wherever a packet ends, in the head too."""
    assert asyncio.run(exchange(on_the_wire(pieces, framing), cuts)) == b"".join(pieces)
