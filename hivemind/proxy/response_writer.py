"""The response to one request, and its clients: usually one, several where a request was retried while it waited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from msgspec import Struct, field

from hivemind.proxy.asgi import Message, Receive, Send
from hivemind.proxy.cycle import Cycle
from hivemind.wire.request_head import value

STALLED_S = 5.0
"""A client that takes nothing for so long is dropped where another one wants the same response."""


class Delivery(Protocol):
    """One client's request and its response: a :class:`Cycle` on a connection of our own protocol, which also takes
    writes that don't wait; else an :class:`AsgiDelivery`."""

    def receive(self) -> Awaitable[Message]:
        """Return the next ASGI message of the request."""

    def send(self, message: Message, /) -> Awaitable[None]:
        """Send an ASGI message of the response."""

    def watch(self, on_disconnect: Callable[[], None]) -> Callable[[], object]:
        """Call back when the client leaves. Return what ends that."""


class AsgiDelivery:
    """A request on any ASGI server."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self.send = send

    def watch(self, on_disconnect: Callable[[], None]) -> Callable[[], object]:
        """Call back when the client leaves. Return what ends that."""

        async def wait() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass
            on_disconnect()

        return asyncio.create_task(wait(), name="wait for a client's disconnect").cancel


class ResponseWriter:
    """Writes one response to each of its clients. Writes are not concurrent: the caller awaits each."""

    __slots__ = ("_clients", "_head", "finished", "has_length", "on_client_gone", "started")

    def __init__(self, client: Delivery) -> None:
        self._clients = [client]
        self._head: Message | None = None
        self.started = self.finished = False
        """Whether the head was sent, and the last bytes."""
        self.has_length = False
        """Whether the head that was sent states the length of the body."""
        self.on_client_gone: Callable[[], object] = noop
        """Called when the last client leaves before the response is complete."""

    @property
    def cycle(self) -> Cycle | None:
        """The only client, where it is on a connection of our own protocol."""
        client = self._clients[0] if len(self._clients) == 1 else None
        return client if isinstance(client, Cycle) else None

    @property
    def has_clients(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._clients)

    async def add(self, client: Delivery) -> None:
        """Write to one more client; at most the head was sent so far."""
        self._clients.append(client)
        if self._head is not None:
            await client.send(self._head)

    def remove(self, client: Delivery) -> None:
        """Stop writing to a client, because it left."""
        if client in self._clients:
            self._clients.remove(client)
            if not (self._clients or self.finished):
                self.on_client_gone()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head."""
        self.started, self.has_length = True, value(headers, b"content-length") is not None
        self._head = {"type": "http.response.start", "status": status, "headers": headers}
        await self._send(self._head)

    def drop_head(self) -> None:
        """Forget the head, after which no client can be added."""
        self._head = None

    async def write(self, data: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        """Send the last bytes. A response that is left without this call on purpose is ended by raising AnswerCut."""
        self.finished = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response at once."""
        cycle = self.cycle
        if cycle is None:
            await self.start(status, headers)
            await self.finish(body)
        else:
            self.finished = True
            cycle.answer(status, headers, body)

    async def _send(self, message: Message) -> None:
        if len(self._clients) == 1:
            await self._clients[0].send(message)
            return
        for client in list(self._clients):
            try:
                async with asyncio.timeout(STALLED_S):
                    await client.send(message)
            except TimeoutError:
                self.remove(client)


def noop() -> None:
    """Do nothing."""


async def plain(client: Delivery, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a response of plain text."""
    described = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await ResponseWriter(client).answer(status, [*described, *headers], body)


class Departure(Struct):
    """What cancels the present task once the client leaves."""

    task: asyncio.Task[None] = field(default_factory=lambda: cast(asyncio.Task[None], asyncio.current_task()))
    cancelled: bool = False

    def cancel(self) -> None:
        """Cancel the task, once."""
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()

    def excuses(self) -> bool:
        """Return whether the task was cancelled by this, and isn't any more."""
        if self.cancelled:
            self.task.uncancel()
        return self.cancelled


async def run_until_disconnect(work: Awaitable[None], client: Delivery) -> None:
    """Do the work, or cancel it once the client leaves."""
    departure = Departure()
    stop_watching = client.watch(departure.cancel)
    try:
        await work
    except asyncio.CancelledError:
        if not departure.excuses():
            raise
    finally:
        stop_watching()
