"""Notice at once when a client leaves, without a task a request that waits for it.

ASGI tells of a client's leaving through `receive()`, which somebody must await all the while: a task more for every
request. Our own protocol class for uvicorn calls back instead, and puts itself into the scope where the application
finds it; under any other server the application falls back to the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

EXTENSION = "hivemind.departure"


class Departure:
    """One connection's end, told to whoever serves a request on it."""

    __slots__ = ("_callbacks", "_protocol")

    def __init__(self, protocol: ClientProtocol) -> None:
        self._protocol = protocol
        self._callbacks: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when the connection ends, until :meth:`forget`."""
        self._callbacks.append(callback)
        # A large body leaves reading paused, and then the end would go unnoticed.
        self._protocol.flow.resume_reading()

    def forget(self, callback: Callable[[], None]) -> None:
        self._callbacks.remove(callback)

    def happened(self) -> None:
        for callback in list(self._callbacks):
            callback()


class ClientProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, telling of its end."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        departure = getattr(self, "_departure", None)
        if departure is None:
            departure = self._departure = Departure(self)
        self.scope["extensions"] = {EXTENSION: departure}  # type: ignore[dict-item]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        departure = getattr(self, "_departure", None)
        if departure is not None:
            departure.happened()


def departure_of(scope: Mapping[str, Any]) -> Departure | None:
    """The connection's, where our own protocol serves it."""
    extensions = scope.get("extensions")
    return extensions.get(EXTENSION) if extensions else None
