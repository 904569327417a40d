"""Whoever gets an answer: usually one client, several where a request was sent again while the first still waited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hivemind.proxy.server_protocol import Cycle

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

STALLED_S = 5.0
"""A client that takes nothing for so long is dropped where another one wants the same answer."""


class Audience:
    """One response, sent to each listener. Writes are not concurrent: the caller awaits each."""

    __slots__ = ("_first", "_head", "_listeners", "deserted", "finished")

    def __init__(self, send: Send) -> None:
        self._first = send
        self._listeners = [send]
        self._head: Message | None = None
        self.finished = False
        self.deserted: Callable[[], object] = _nobody_minds
        """Called when the last listener leaves before the response is complete."""

    @property
    def started(self) -> bool:
        """The status line is out."""
        return self._head is not None

    async def join(self, send: Send) -> None:
        """One more wants the answer, of which at most the head was sent so far."""
        self._listeners.append(send)
        if self._head is not None:
            await send(self._head)

    def leave(self, send: Send) -> None:
        """One of them left."""
        if send in self._listeners:
            self._listeners.remove(send)
            if not (self._listeners or self.finished):
                self.deserted()

    def leave_first(self) -> None:
        """The one it was made for left."""
        self.leave(self._first)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head."""
        self._head = {"type": "http.response.start", "status": status, "headers": headers}
        await self._send(self._head)

    async def write(self, data: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        """The last bytes. Without this call the clients' connections are cut, which tells them that something is
        missing."""
        self.finished = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole response at once."""
        cycle = getattr(self._listeners[0], "__self__", None) if len(self._listeners) == 1 else None
        if isinstance(cycle, Cycle):
            self.finished = True
            cycle.answer(status, headers, body)
            return
        await self.start(status, headers)
        await self.finish(body)

    async def _send(self, message: Message) -> None:
        if len(self._listeners) == 1:
            await self._listeners[0](message)
            return
        for send in list(self._listeners):
            try:
                await asyncio.wait_for(send(message), STALLED_S)
            except TimeoutError:
                self.leave(send)


def _nobody_minds() -> None:
    """For an audience that nothing is done for."""
