"""An upstream that answers with what a proxy in front of it shouldn't trust; `python -m` serves it until it is ended.

What it answers goes by the last part of the path of a request: `/answer/NAME/v1/messages` gets the answer of that name.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache

from benchmarks.perf.upstream import READY
from benchmarks.perf.wire import chunk, reply
from hivemind.host.loop import run_loop

_PIECE = 64 * 1024
_SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_START = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n'
)
ENDLESS_PIECES = 800
"""Pieces of 64 KiB in an answer that has no end of its own: 50 MiB."""
TINY_CHUNKS = 400_000
"""Chunks of one byte in an answer."""

Answer = Callable[[], Iterator[bytes]]


def gzipped(plain_mb: int, times: int = 1) -> bytes:
    """So many megabytes of the same letter, compressed so many times."""
    packer = zlib.compressobj(9, wbits=31)
    data = b"".join([packer.compress(b"a" * (1 << 20)) for _ in range(plain_mb)]) + packer.flush()
    for _ in range(times - 1):
        packer = zlib.compressobj(9, wbits=31)
        data = packer.compress(data) + packer.flush()
    return data


def _whole(head: bytes, body: Callable[[], bytes]) -> Answer:
    """An answer with a length. Some bodies take seconds to make, so each is made when it is first asked for."""
    made = cache(body)
    return lambda: iter((head + b"content-length: %d\r\n\r\n" % len(made()), made()))


def _repeated(head: bytes, record: bytes, *, first: bytes = b"") -> Answer:
    """One small thing again and again, many in each piece."""
    piece = chunk(record * max(1, _PIECE // len(record)))

    def pieces() -> Iterator[bytes]:
        yield head + _CHUNKED + b"\r\n" + (chunk(first) if first else b"")
        for _ in range(ENDLESS_PIECES):
            yield piece
        yield b"0\r\n\r\n"

    return pieces


def _in_tiny_chunks(stream: bytes, extension: bytes = b"") -> Answer:
    """A stream of which each byte comes in a chunk of its own."""
    piece = b"".join(b"1%b\r\n%c\r\n" % (extension, byte) for byte in stream)

    def pieces() -> Iterator[bytes]:
        yield _SSE + _CHUNKED + b"\r\n" + chunk(_START)
        for _ in range(max(1, TINY_CHUNKS // len(stream))):
            yield piece
        yield b"0\r\n\r\n"

    return pieces


def _limited(reset: bytes) -> Answer:
    """An ordinary answer that says that nothing is left until then."""
    ordinary = reply()
    head, _, body = ordinary.partition(b"\r\n")
    stated = b"anthropic-ratelimit-requests-limit: 50\r\nanthropic-ratelimit-requests-remaining: 0\r\n"
    return lambda: iter((head + b"\r\n" + stated + b"anthropic-ratelimit-requests-reset: " + reset + b"\r\n" + body,))


def answers() -> dict[str, Answer]:
    """Every answer by its name."""
    bomb = cache(lambda: gzipped(200))
    return {
        "plain": lambda: iter((reply(),)),
        "gzip": _whole(_JSON + b"content-encoding: gzip\r\n", bomb),
        "gzip-stream": _whole(_SSE + b"content-encoding: gzip\r\n", bomb),
        "gzip-twice": _whole(_SSE + b"content-encoding: gzip, gzip\r\n", lambda: gzipped(200, 2)),
        "comments": _repeated(_SSE, b":\n\n"),
        "comments-after-content": _repeated(_SSE, b":\n\n", first=_START + _DELTA),
        "empty-lines": _repeated(_SSE, b"\n"),
        "carriage-returns": _repeated(_SSE, b"data: x\r\r", first=_START),
        "tiny-events": _repeated(_SSE, b"data:\n\n", first=_START),
        "deltas": _repeated(_SSE, _DELTA, first=_START),
        "one-record": _repeated(_SSE, b"data: aaaaaaaaaaaaaaaa", first=_START),
        "lines": _repeated(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n", b"{}\n"),
        "tiny-chunks": _in_tiny_chunks(_DELTA * 80),
        "tiny-chunks-in-one-event": _in_tiny_chunks(b"a" * 8192),
        "tiny-chunks-with-extensions": _in_tiny_chunks(_DELTA * 80, b";a=" + b"b" * 12),
        "nested": _whole(_JSON, lambda: b'{"usage":' + b"[" * (8 << 20)),
        "keys": _whole(_JSON, lambda: b"{" + b",".join(b'"%d":0' % n for n in range(2_000_000)) + b"}"),
        "error": _whole(
            b"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\n", lambda: b'{"error":' + b"[" * (1 << 20)
        ),
        "reset-9999": _limited(b"9999-12-31T23:59:59Z"),
        "reset-1e15": _limited(b"1e15"),
        "reset-100000h": _limited(b"100000h"),
        "redirect": lambda: iter(
            (b"HTTP/1.1 302 Found\r\nlocation: https://example.org/\r\ncontent-length: 0\r\n\r\n",)
        ),
        "page": _whole(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n", lambda: b"<html>please log in</html>"),
    }


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Serve on a free port of the loopback interface; yields the URL."""
    known = answers()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await _skip_body(reader, head.lower())
                name = head.split(b" ", 2)[1].partition(b"/answer/")[2].partition(b"/")[0].decode()
                for piece in known.get(name, known["plain"])():
                    writer.write(piece)
                    await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the proxy left, or sent what isn't a request
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1 << 20)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _skip_body(reader: asyncio.StreamReader, head: bytes) -> None:
    """Read what belongs to a request; the proxy always sends a length."""
    _, _, after = head.partition(b"\r\ncontent-length:")
    left = int(after.partition(b"\r\n")[0] or 0)
    while left > 0:
        data = await reader.read(min(left, _PIECE))
        if not data:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(data)


async def _serve() -> None:
    async with serving() as url:
        print(f"{READY}{url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    run_loop(_serve())
