"""Common parts of the JSON dialects: classifying answers, and the headers of our own errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import msgspec

from hivemind.providers import verdict
from hivemind.providers.base import Facts, Headers, StreamForm, Tap
from hivemind.scheduler.types import Failure

LONGEST_RETRY_AFTER_S = 60
"""Claude Code gives up at once if asked to wait longer."""
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses of our own refusals that the client should retry."""
_JSON = b"application/json"


def retry_seconds(status: int, retry_after_s: float | None) -> int | None:
    """Return the Retry-After of a refusal: whole seconds from 1 to :data:`LONGEST_RETRY_AFTER_S`, None for none.

    A 429 always has one, because Codex doesn't retry one without it.
    """
    if retry_after_s is None:
        return 1 if status == 429 else None
    if math.isnan(retry_after_s):
        return 1
    return math.ceil(min(max(retry_after_s, 1.0), LONGEST_RETRY_AFTER_S))


def encode(value: object) -> bytes:
    """Return compact JSON on one line."""
    return msgspec.json.encode(value)


def failure_status(failure: Failure) -> int:
    """Return the failure's own status, or 502 if the upstream gave none."""
    return failure.status if failure.status is not None else 502


class JsonDialect(ABC):
    """A dialect whose requests and errors are JSON. Satisfies :class:`hivemind.providers.base.Dialect`."""

    name: str
    form = StreamForm.SSE
    """The form of its streams."""

    @abstractmethod
    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        """Read a request. Never raises."""

    def is_opaque(self, headers: Headers) -> bool:
        """Whether this kind of body isn't read; only `plain` has such."""
        return False

    @abstractmethod
    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        """Return a tap for one reply."""

    @abstractmethod
    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        """Return an error of our own as the body of an answer."""

    @abstractmethod
    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """Return an error of our own as the end of a stream already answered with 200."""

    @abstractmethod
    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        """Return an upstream's error answer as the end of a stream already answered with 200."""

    @abstractmethod
    def keepalive(self, client: str) -> bytes:
        """Return bytes that this client ignores between events."""

    def classify(self, status: int, headers: Headers, body: bytes, now_wall_s: float) -> Failure | None:
        return verdict.classify(status, headers, body, now_wall_s)

    def refusal(
        self, status: int, reason: str, message: str, retry_after_s: float | None
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        retry_s = retry_seconds(status, retry_after_s)
        temporary = retry_s is not None or status in RETRYABLE
        headers = [(b"content-type", _JSON), (b"x-should-retry", b"true" if temporary else b"false")]
        if retry_s is not None:
            headers.append((b"retry-after", str(retry_s).encode()))
        return headers, self.error_body(status, reason, message, retry_s)

    def stream_headers(self, facts: Facts) -> list[tuple[bytes, bytes]]:
        media = b"application/x-ndjson" if self.form is StreamForm.NDJSON else b"text/event-stream; charset=utf-8"
        return [(b"content-type", media), (b"cache-control", b"no-cache")]
