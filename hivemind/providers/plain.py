"""Everything that generates nothing we know of: model lists, files, probes, other servers' own paths."""

from __future__ import annotations

from hivemind.scheduler.types import Failure

from .base import Facts, Headers, Tap
from .dialect import JsonDialect, failure_status
from .openai_errors import error_body
from .tapping import BlindTap


class Plain(JsonDialect):
    """Passed through as it is; errors of our own in the shape that most servers share."""

    name = "plain"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        return Facts(size_chars=len(body), inference=False)

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return BlindTap()

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return error_body(status, reason, message)

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        return b"data: " + error_body(status, reason, message) + b"\n\n"

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        return self.stream_error(failure_status(failure), failure.kind.value, failure.message)

    def keepalive(self, client: str) -> bytes:
        return b"\n"
