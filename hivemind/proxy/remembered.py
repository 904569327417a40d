"""The heads of the newest requests and of their answers, as they came, should somebody want to look at one.

On the path of a request only references are kept. What is shown is made on demand, by :mod:`.masking`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hivemind.requests import REQUESTS_KEPT

from .headers import Headers


class Heads:
    """One request's, and the last answer's that its attempts got from upstream."""

    __slots__ = ("method", "query", "raw_path", "request", "response", "ticket")

    def __init__(self, ticket: int, scope: Mapping[str, Any]) -> None:
        self.ticket = ticket
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.request: Headers = scope["headers"]
        self.response: Headers = []


class Remembered:
    """A ring by ticket number, so that each new one takes the place of one long gone."""

    def __init__(self, kept: int = REQUESTS_KEPT) -> None:
        self._ring: list[Heads | None] = [None] * kept

    def add(self, ticket: int, scope: Mapping[str, Any]) -> Heads:
        """A request came and has this ticket."""
        heads = Heads(ticket, scope)
        self._ring[ticket % len(self._ring)] = heads
        return heads

    def find(self, ticket: int) -> Heads | None:
        """None where it is forgotten."""
        heads = self._ring[ticket % len(self._ring)]
        return heads if heads is not None and heads.ticket == ticket else None
