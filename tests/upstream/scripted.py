"""A server that says exactly what a test tells it to, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable


class Scripted:
    """Runs the handler for every connection, and counts them."""

    def __init__(self, handler: Handler) -> None:
        self.accepted = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.requests: list[bytes] = []
        self.port = 0
        self.scheme = "http"
        self._handler = handler
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something that depends on the connections is true."""
        while not true():
            self._changed.clear()
            await self._changed.wait()

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """The next request, head and body, as it came."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"content-length: ")), 0)
        request = head + await reader.readexactly(length)
        self.requests.append(request)
        self._changed.set()
        return request

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open.add(writer)
        self._changed.set()
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._handler(self, reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self.open.discard(writer)
            self._changed.set()


Handler = Callable[[Scripted, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, *, host: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[Scripted]:
    """A listening server; `handler` is given it with each connection, so that it can record what it sees."""
    script = Scripted(handler)
    script.scheme = "https" if context else "http"
    server = await asyncio.start_server(script, host, port, ssl=context, backlog=1024)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()
        for writer in list(script.open):
            writer.transport.abort()
        await script.until(lambda: not script.open)


def answering(*answers: bytes) -> Handler:
    """Answers request after request with these bytes, the last again and again, on connections it keeps."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await script.request(reader)
            writer.write(answers[min(len(script.requests), len(answers)) - 1])

    return handle


def closing(answer: bytes) -> Handler:
    """Answers one request with these bytes and closes."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(answer)
        await writer.drain()

    return handle


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection the hard way, with a RST."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
