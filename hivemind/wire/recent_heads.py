"""The heads of the newest requests and of their answers, as they came, to be shown on demand.

On the path of a request only references are kept. Each head is bounded, but two thousand large ones would still take
hundreds of megabytes, so their total is bounded too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hivemind.redaction.heads import masked_headers, masked_target, secrets_of
from hivemind.wire.headers import Headers
from hivemind.wire.request_head import size_of
from hivemind.world.request_view import REQUESTS_KEPT, RequestDetail

BYTES_KEPT = 16 << 20
"""Bytes of all heads together, with their overhead; beyond it the oldest are dropped."""
_PER_HEADER = 128
"""Overhead of a pair of byte strings."""


class Heads:
    """The head of one request, and of the last answer that its attempts got from upstream."""

    __slots__ = ("_kept_by", "method", "query", "raw_path", "request", "response", "size", "ticket")

    def __init__(
        self, ticket: int, scope: Mapping[str, Any], kept_by: RecentHeads | None = None, size: int = 0
    ) -> None:
        self.ticket = ticket
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.request: Headers = scope["headers"]
        self.response: Headers = []
        self.size = size
        """Approximate bytes."""
        self._kept_by = kept_by

    def set_response(self, headers: Headers) -> None:
        """Keep the headers that an attempt got from upstream."""
        grown = _size(headers) - (_size(self.response) if self.response else 0)
        self.response = headers
        self.size += grown
        if self._kept_by is not None:
            self._kept_by.add_size(grown)

    def detach(self) -> None:
        """Stop counting towards the bytes that are kept."""
        self._kept_by = None

    def added_to(self, detail: RequestDetail, own_secrets: Iterable[str] = ()) -> RequestDetail:
        """Return the detail with these heads, credentials masked; `own_secrets` are the proxy's own."""
        found = secrets_of(self, own_secrets)
        method, path = masked_target(self, found)
        return replace(
            detail,
            method=method,
            path=path,
            request_headers=masked_headers(self.request, found),
            response_headers=masked_headers(self.response, found),
        )


class RecentHeads:
    """Heads by ticket, the oldest first; bounded in number and bytes."""

    def __init__(self, kept: int = REQUESTS_KEPT, bytes_kept: int = BYTES_KEPT) -> None:
        self._by_ticket: OrderedDict[int, Heads] = OrderedDict()
        self._kept = kept
        self._bytes_kept = bytes_kept
        self.size = 0
        """Approximate bytes of all heads."""

    def add(self, ticket: int, scope: Mapping[str, Any], size: int) -> Heads:
        """Keep the head of a request, of :func:`size_of_head`; its ticket number is higher than all before it."""
        heads = self._by_ticket[ticket] = Heads(ticket, scope, self, size)
        self.add_size(heads.size)
        return heads

    def add_size(self, size: int) -> None:
        """Count more bytes, and drop the oldest heads beyond the limits."""
        self.size += size
        while self._by_ticket and (self.size > self._bytes_kept or len(self._by_ticket) > self._kept):
            _, oldest = self._by_ticket.popitem(last=False)
            self.size -= oldest.size
            oldest.detach()

    def find(self, ticket: int) -> Heads | None:
        """Return a request's heads; None where they were dropped."""
        return self._by_ticket.get(ticket)


def size_of_head(scope: Mapping[str, Any]) -> int:
    """Return about how many bytes the head of a request takes in memory."""
    return len(scope["raw_path"]) + len(scope["query_string"]) + _size(scope["headers"])


def _size(headers: Headers) -> int:
    return size_of(headers) + _PER_HEADER * len(headers)
