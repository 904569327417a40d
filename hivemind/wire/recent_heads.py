"""The heads of the newest requests and of their answers, as they came, to be shown on demand.

On the path of a request only references are kept. Each head is bounded, but two thousand large ones would still take
hundreds of megabytes, so their total is bounded too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.redaction.values import credentials_in, longest_first, masked_headers, masked_method, masked_path
from hivemind.wire.request_head import Headers, size_of
from hivemind.world.snapshot import REQUESTS_KEPT, RequestDetail

BYTES_KEPT = 16 << 20
"""Bytes of all heads together, with their overhead; beyond it the oldest are dropped."""
_PER_HEADER = 128
"""Overhead of a pair of byte strings."""


class Heads(Struct, eq=False):
    """The head of one request, and of the last answer that its attempts got from upstream."""

    ticket: int
    method: str
    raw_path: bytes
    query: bytes
    request: Headers
    response: Headers = field(default_factory=list)
    size: int = 0
    """Approximate bytes, without the response's."""
    kept_by: RecentHeads | None = None
    """Where its bytes count, until it is dropped there."""
    response_size: int = 0

    def set_response(self, headers: Headers) -> None:
        """Keep the headers that an attempt got from upstream."""
        size = sum(map(len, chain.from_iterable(headers))) + _PER_HEADER * len(headers)
        grown, self.response_size = size - self.response_size, size
        self.response = headers
        keeper = self.kept_by
        if keeper is not None:
            keeper.size += grown
            if keeper.size > keeper.bytes_kept:
                keeper.drop_oldest()

    def secrets(self, known: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the credentials in these heads that may be repeated elsewhere, and those `known`; the longest
        first."""
        found = credentials_in(self.request, self.raw_path + b"?" + self.query)
        return longest_first({*known, *found, *credentials_in(self.response, b"")})

    def masked_target(self, secrets: Sequence[str]) -> tuple[str, str]:
        """Return the method, and the path with its query; `secrets` are from :meth:`secrets`."""
        path = masked_path(self.raw_path.decode("latin-1"), self.query.decode("latin-1"), secrets)
        return masked_method(self.method, secrets), path

    def added_to(self, detail: RequestDetail, own_secrets: Iterable[str] = ()) -> RequestDetail:
        """Return the detail with these heads, credentials masked; `own_secrets` are the proxy's own."""
        found = self.secrets(own_secrets)
        method, path = self.masked_target(found)
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
        self.bytes_kept = bytes_kept
        """Most bytes of all heads."""
        self.size = 0
        """Approximate bytes of all heads."""

    def add(self, ticket: int, scope: Mapping[str, Any], size: int) -> Heads:
        """Keep the head of a request, of :func:`size_of_head`; its ticket number is higher than all before it."""
        method, raw_path, query = scope["method"], scope["raw_path"], scope["query_string"]
        heads = Heads(ticket, method, raw_path, query, scope["headers"], [], size, self)
        self._by_ticket[ticket] = heads
        self.size += size
        if self.size > self.bytes_kept or len(self._by_ticket) > self._kept:
            self.drop_oldest()
        return heads

    def drop_oldest(self) -> None:
        """Drop heads until the rest is within the limits."""
        while self._by_ticket and (self.size > self.bytes_kept or len(self._by_ticket) > self._kept):
            _, oldest = self._by_ticket.popitem(last=False)
            self.size -= oldest.size + oldest.response_size
            oldest.kept_by = None

    def find(self, ticket: int) -> Heads | None:
        """Return a request's heads; None where they were dropped."""
        return self._by_ticket.get(ticket)


def size_of_head(scope: Mapping[str, Any]) -> int:
    """Return about how many bytes the head of a request takes in memory."""
    return len(scope["raw_path"]) + len(scope["query_string"]) + _size(scope["headers"])


def _size(headers: Headers) -> int:
    return size_of(headers) + _PER_HEADER * len(headers)
