"""What is remembered of a request's heads, joined to its detail; made when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hivemind.redaction.heads import masked_headers, masked_target, secrets_of
from hivemind.wire.recent_heads import Heads
from hivemind.world.request_view import RequestDetail


def with_heads(detail: RequestDetail, heads: Heads, known: Iterable[str] = ()) -> RequestDetail:
    """The detail with what is remembered of the heads, credentials masked; `known` are credentials of our own."""
    found = secrets_of(heads, known)
    method, path = masked_target(heads, found)
    return replace(
        detail,
        method=method,
        path=path,
        request_headers=masked_headers(heads.request, found),
        response_headers=masked_headers(heads.response, found),
    )
