"""The heads of the newest requests and of their answers, as they came, for whoever wants to look at one.

On the path of a request only references are kept. What is shown is made on demand, by :mod:`.masking`. Each head is
bounded, but two thousand large ones would still take hundreds of megabytes, so all together are bounded too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hivemind.wire.headers import Headers
from hivemind.wire.request_head import size_of
from hivemind.world.request_view import REQUESTS_KEPT

BYTES_KEPT = 16 << 20
"""Of all heads together, with what keeping them takes; beyond it the oldest are forgotten."""
_PER_HEADER = 128
"""What a pair of byte strings takes beside their bytes."""


class Heads:
    """One request's, and the last answer's that its attempts got from upstream."""

    __slots__ = ("_kept_by", "method", "query", "raw_path", "request", "response", "size", "ticket")

    def __init__(self, ticket: int, scope: Mapping[str, Any], kept_by: Remembered | None = None) -> None:
        self.ticket = ticket
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.request: Headers = scope["headers"]
        self.response: Headers = []
        self.size = len(self.raw_path) + len(self.query) + _taken_by(self.request)
        """Bytes, about."""
        self._kept_by = kept_by

    def answered(self, headers: Headers) -> None:
        """An attempt got these from upstream."""
        grown = _taken_by(headers) - _taken_by(self.response)
        self.response = headers
        self.size += grown
        if self._kept_by is not None:
            self._kept_by.grew(grown)

    def forget(self) -> None:
        """It isn't remembered any more, and what becomes of it is nobody's concern."""
        self._kept_by = None


class Remembered:
    """A ring by ticket number, so that each new one takes the place of one long gone; at most so many, and at most so
    many bytes."""

    def __init__(self, kept: int = REQUESTS_KEPT, bytes_kept: int = BYTES_KEPT) -> None:
        self._ring: list[Heads | None] = [None] * kept
        self._bytes_kept = bytes_kept
        self._newest = 0
        self._oldest = 0
        """No ticket before this one is remembered."""
        self.size = 0
        """Bytes of all, about."""

    def add(self, ticket: int, scope: Mapping[str, Any]) -> Heads:
        """A request came and has this ticket, a higher one than all before it."""
        slot = ticket % len(self._ring)
        before = self._ring[slot]
        if before is not None:
            self._drop(before.ticket)
        heads = self._ring[slot] = Heads(ticket, scope, self)
        self._newest = ticket
        self._oldest = max(self._oldest, ticket - len(self._ring) + 1)
        self.grew(heads.size)
        return heads

    def grew(self, size: int) -> None:
        """One that is remembered takes so many bytes more."""
        self.size += size
        while self.size > self._bytes_kept and self._oldest <= self._newest:
            self._drop(self._oldest)
            self._oldest += 1

    def find(self, ticket: int) -> Heads | None:
        """None where it is forgotten."""
        heads = self._ring[ticket % len(self._ring)]
        return heads if heads is not None and heads.ticket == ticket else None

    def _drop(self, ticket: int) -> None:
        heads = self.find(ticket)
        if heads is not None:
            self._ring[ticket % len(self._ring)] = None
            self.size -= heads.size
            heads.forget()


def _taken_by(headers: Headers) -> int:
    return size_of(headers) + _PER_HEADER * len(headers)
