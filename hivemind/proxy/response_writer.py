"""The response to one request: usually for one client, for several where a request was retried while it waited; and
noticing that a client has left while its request is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hivemind.proxy.asgi import Message, Receive, Scope, Send
from hivemind.proxy.cycle import Cycle, disconnect_notifier
from hivemind.wire.request_head import value

STALLED_S = 5.0
"""A client that takes nothing for so long is dropped where another one wants the same response."""


class ResponseWriter:
    """Writes one response to each of its clients. Writes are not concurrent: the caller awaits each."""

    __slots__ = ("_clients", "_first", "_head", "finished", "on_client_gone")

    def __init__(self, send: Send) -> None:
        self._first = send
        self._clients = [send]
        self._head: Message | None = None
        self.finished = False
        self.on_client_gone: Callable[[], object] = _noop
        """Called when the last client leaves before the response is complete."""

    @property
    def cycle(self) -> Cycle | None:
        """The only client, where it is on a connection of our own protocol."""
        cycle = getattr(self._clients[0], "__self__", None) if len(self._clients) == 1 else None
        return cycle if isinstance(cycle, Cycle) else None

    @property
    def started(self) -> bool:
        """Whether the head was sent."""
        return self._head is not None

    @property
    def has_length(self) -> bool:
        """Whether the head that was sent states the length of the body."""
        return self._head is not None and value(self._head["headers"], b"content-length") is not None

    async def add(self, send: Send) -> None:
        """Write to one more client; at most the head was sent so far."""
        self._clients.append(send)
        if self._head is not None:
            await send(self._head)

    def remove(self, send: Send) -> None:
        """Stop writing to a client, because it left."""
        if send in self._clients:
            self._clients.remove(send)
            if not (self._clients or self.finished):
                self.on_client_gone()

    def remove_first(self) -> None:
        """Stop writing to the client that sent the request first."""
        self.remove(self._first)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head."""
        self._head = {"type": "http.response.start", "status": status, "headers": headers}
        await self._send(self._head)

    async def write(self, data: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        """Send the last bytes. A response that is left without this call on purpose is ended by raising AnswerCut."""
        self.finished = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response at once."""
        if not self.answer_whole(status, headers, body):
            await self.start(status, headers)
            await self.finish(body)

    def answer_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole response, without waiting, to a client on a connection of our own protocol. Return False where
        it isn't one, or not alone."""
        cycle = self.cycle
        if cycle is None:
            return False
        self.finished = True
        cycle.answer(status, headers, body)
        return True

    async def _send(self, message: Message) -> None:
        if len(self._clients) == 1:
            await self._clients[0](message)
            return
        for send in list(self._clients):
            try:
                await asyncio.wait_for(send(message), STALLED_S)
            except TimeoutError:
                self.remove(send)


def _noop() -> None:
    pass


async def plain(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a response of plain text."""
    length = (b"content-length", str(len(body)).encode())
    await ResponseWriter(send).answer(status, [(b"content-type", b"text/plain; charset=utf-8"), length, *headers], body)


async def run_until_disconnect(
    work: Awaitable[None], scope: Scope, receive: Receive, writer: ResponseWriter | None = None
) -> None:
    """Do the work, or cancel it once the client leaves; with a writer, once all clients of the response have left."""
    task = asyncio.current_task()
    assert task is not None
    cancelled = False

    def cancel() -> None:
        nonlocal cancelled
        if not cancelled:
            cancelled = True
            task.cancel()

    if writer is not None:
        writer.on_client_gone = cancel
    stop_watching = _watch(scope, receive, cancel if writer is None else writer.remove_first)
    try:
        await work
    except asyncio.CancelledError:
        if not cancelled:
            raise
        task.uncancel()
    finally:
        stop_watching()


def _watch(scope: Scope, receive: Receive, on_disconnect: Callable[[], None]) -> Callable[[], object]:
    """Call `on_disconnect` when the client leaves. Return what stops that."""
    notifier = disconnect_notifier(scope)
    if notifier is not None:
        notifier.watch(on_disconnect)
        return lambda: notifier.forget(on_disconnect)

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        on_disconnect()

    return asyncio.create_task(wait(), name="wait for a client's disconnect").cancel
