"""The server behind what is measured: it does nearly nothing, so that it is never what is slow.

A program of its own: `python -m benchmarks.perf.upstream` serves on a free port until it is killed, and says where
on standard output. Every request gets the same small reply, or the stream that its prompt asks for.
"""

from __future__ import annotations

import asyncio
import time
from typing import cast

import httptools

from benchmarks.perf import wire
from hivemind.host.loop import run_loop

READY = "perf upstream: ready on "
_GOLDEN = 0.6180339887
"""Multiples of it spread evenly over a period, however many there are."""


class Answering(asyncio.Protocol):
    """One connection; httptools calls the `on_…` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""
        self._stream: _Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.stop()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        pace = wire.Pace.of(body)
        if pace is None:
            self._transport.write(_REPLY)
        else:
            self._stream = _Stream(self._transport, pace)


class _Stream:
    """Writes its events at their times, each stamped as it is written."""

    _begun = 0

    def __init__(self, transport: asyncio.Transport, pace: wire.Pace) -> None:
        self._transport = transport
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._number = 0
        transport.write(_STREAM_HEAD)
        # Streams that begin together would tick together, and what is measured would be the burst.
        _Stream._begun += 1
        phase = _Stream._begun * _GOLDEN % 1
        self._from = self._loop.time() + phase * pace.every_s
        self._timer = self._loop.call_at(self._from, self._tick)

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        if self._number == self._pace.events:
            self._transport.write(wire.stream_end(self._number))
            return
        self._transport.write(wire.stamped(self._number, time.monotonic_ns()))
        self._number += 1
        self._timer = self._loop.call_at(self._from + self._number * self._pace.every_s, self._tick)


_REPLY = wire.reply()
_STREAM_HEAD = wire.stream_head()


async def serve() -> None:
    """Serve until cancelled."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=1024)
    print(f"{READY}http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run_loop(serve())
