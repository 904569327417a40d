"""Chunks of a stream that are passed on as they came, without the parser."""

from __future__ import annotations

import asyncio
import random
import socket
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.upstream.base import Timeouts, UpstreamError
from hivemind.upstream.connection import Connection, Pool
from hivemind.upstream.response import NativeResponse

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class SilentTransport:
    """Sends nothing."""

    def __init__(self) -> None:
        self._socket = socket.socket()

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        pass

    def abort(self) -> None:
        self._socket.close()


def received(pieces: list[bytes], *, relays: bool) -> tuple[bytes, int, str]:
    """The body that comes of these pieces after a head, the relayed chunks, and how it ended."""

    async def main() -> tuple[bytes, int, str]:
        connection = Connection(asyncio.get_running_loop(), Pool(1), Timeouts())
        connection.connection_made(cast(Any, SilentTransport()))
        response: NativeResponse = connection.start(b"GET", b"", b"")
        connection.data_received(HEAD)
        body, chunks = bytearray(), 0

        def relay(chunk: bytes, start: int) -> None:
            nonlocal chunks
            chunks += 1
            part = chunk[start:-2]
            body.extend(part)
            assert chunk == b"%x\r\n%b\r\n" % (len(part), part)

        if relays:
            response.relay = relay
        for piece in pieces:
            if connection.closed or not response.growing:
                break
            connection.data_received(piece)
            body += response.take()
        end = "open" if response.growing else "whole"
        try:
            if not response.growing:
                body += await response.read()
        except UpstreamError as error:
            end = str(error)
        connection.abort()
        return bytes(body), chunks, end

    return asyncio.run(main())


def chunked(chance: random.Random) -> list[bytes]:
    """Chunks as servers write them, and otherwise; cut between them, mostly."""
    data, cuts = b"", {0}
    for _ in range(chance.randint(1, 12)):
        body = chance.choice([b"x", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\r\n", b"event: a\n\n", b"y" * 300])
        body = body * chance.choice([1, 1, 2, 16])
        size = b"%x" % len(body)
        if chance.random() < 0.2:
            size = chance.choice([size.upper(), b"0" + size, size + b";a=b"])
        data += size + b"\r\n" + body + b"\r\n"
        cuts.add(len(data) - (chance.randint(0, 9) if chance.random() < 0.2 else 0))
    if chance.random() < 0.5:
        data += chance.choice([b"0\r\n\r\n", b"0\r\nx: 5\r\n\r\n", b"zz\r\n", b"0\r\n\r\nHTTP/1.1 200 OK\r\n"])
    places = sorted({*cuts, len(data)})
    return [data[start:end] for start, end in pairwise(places) if end > start]


@given(seed=st.integers(0, 2**32))
def test_relayed_is_what_the_parser_reads(seed: int) -> None:
    """Whatever an upstream sends, and however it comes, the body and its end are the parser's."""
    pieces = chunked(random.Random(seed))
    body, _, end = received(pieces, relays=True)
    expected, none, expected_end = received(pieces, relays=False)
    assert (body, end, none) == (expected, expected_end, 0)


def test_chunks_by_themselves() -> None:
    """From the second on, they don't go through the parser; one that is inside another is no chunk."""
    one = b"5\r\nhello\r\n"
    assert received([one] * 4, relays=True) == (b"hello" * 4, 3, "open")
    within = [b"%x\r\n" % (2 * len(one)), one, one, b"\r\n"]
    assert received([one, one, *within, one], relays=True) == (b"hello" * 2 + one * 2 + b"hello", 2, "open")
    begun = [one, one + b"1", one + b"x" * 16 + b"\r\n"]
    assert received(begun, relays=True)[1] == 0


@pytest.mark.parametrize("size", [1, 15, 16, 17, 255, 256, 257, 4095])
def test_sizes(size: int) -> None:
    """A chunk is recognised by its length."""
    one, body = b"5\r\nhello\r\n", b"\n" * size
    chunk = b"%x\r\n%b\r\n" % (size, body)
    assert received([one, chunk], relays=True) == (b"hello" + body, 1, "open")
    for other in (chunk[1:], chunk[:-1], chunk + b"0", b"0" + chunk, chunk + chunk, chunk[:-2] + b"\n\n"):
        assert received([one, other], relays=True)[1] == 0


@pytest.mark.parametrize("data", [b"\r\n", b"0\r\n\r\n", b"-1\r\n\r\n", b"0\r\n\r\n\r\n", b"A\r\n0123456789\r\n"])
def test_no_chunk_with_a_body(data: bytes) -> None:
    """Nor is the last chunk one, or one in an unusual spelling."""
    assert received([b"5\r\nhello\r\n", data], relays=True)[1] == 0
