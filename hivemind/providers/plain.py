"""Paths without a dialect: other servers' APIs, and those of known providers with other formats (images, sound,
assistants). Their content is unknown, so it is forwarded unchanged and at once, and the cost is estimated from
the size.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, Steps, StreamForm, Tap
from hivemind.providers.dialect import Dialect, failure_status
from hivemind.providers.encoding import decode_body, header
from hivemind.providers.openai_common import error_body, openai_usage
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import BlindTap, Reader, tap_for
from hivemind.scheduler.types import Failure, Usage

BYTES_PER_CHAR = 250
"""Bytes of media that count as one character of a prompt, so a megabyte (a minute of sound, a photograph) counts
as about a thousand tokens."""
_TEXT = ("application/json", "text/", "application/x-www-form-urlencoded")
_TAPPED = ("application/json", "text/event-stream", "application/x-ndjson", "application/jsonl")
"""Media types of replies that may contain usage."""


class _Request(Struct):
    model: Raw = Raw()
    max_tokens: Raw = Raw()
    max_tokens_to_sample: Raw = Raw()
    max_output_tokens: Raw = Raw()


class _Reply(Struct):
    usage: Raw = Raw()
    response: Raw = Raw()
    message: Raw = Raw()


class _CacheCounts(Struct):
    cache_creation_input_tokens: Raw = Raw()
    cache_read_input_tokens: Raw = Raw()


_request = json_fields.decoder(_Request)
_reply = json_fields.decoder(_Reply)
_cache_counts = json_fields.decoder(_CacheCounts)


class PlainReader(Reader):
    """Reader of a `usage` object as in OpenAI's and Anthropic's APIs, at the top level of a reply or event, or in
    its `response` or `message`. The last one counts."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        if b'"usage"' in record:
            self.whole(fields(record)[1] or record)

    def whole(self, body: bytes) -> None:
        found = json_fields.read(_reply, body)
        if found is None:
            return
        inner = json_fields.read(_reply, found.response) or json_fields.read(_reply, found.message)
        usage = _usage(found.usage) or (_usage(inner.usage) if inner else None)
        if usage is not None:
            self.state.usage, self.state.usage_final = usage, True

    def closed(self) -> None:
        """Complete, since the end marker is unknown."""
        self.state.complete = True


class PlainTap:
    """A tap whose reply begins with its first byte and whose errors aren't classified."""

    __slots__ = ("_inner", "state")

    def __init__(self, inner: Tap) -> None:
        self._inner = inner
        self.state = inner.state

    def feed(self, data: bytes) -> Steps | None:
        self.state.content_started = True
        return self._inner.feed(data)

    def end(self) -> Steps | None:
        rest = self._inner.end()
        if rest is not None:
            return self._ended(rest)
        self._settle()
        return None

    def _ended(self, rest: Steps) -> Steps:
        yield from rest
        self._settle()

    def _settle(self) -> None:
        self.state.error, self.state.complete = None, True


class Plain(Dialect):
    """Dialect of unknown paths, with errors in OpenAI's format, which most servers share."""

    name = "plain"

    def is_opaque(self, headers: Headers) -> bool:
        media = header(headers, b"content-type").lower()
        return bool(media) and not media.startswith(_TEXT)

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        """Mark as stateful: an attempt that reached the upstream isn't repeated, since its effect is unknown."""
        if self.is_opaque(headers):
            return Facts(
                size_chars=len(body) // BYTES_PER_CHAR, continues_state=True, unmetered=True, form=StreamForm.ANY
            )
        plain = decode_body(headers, body)
        found = json_fields.read(_request, plain) or _Request()
        limits = (found.max_tokens, found.max_tokens_to_sample, found.max_output_tokens)
        most = [count for limit in limits if (count := json_fields.count(limit)) is not None]
        return Facts(
            model=json_fields.text(found.model),
            size_chars=size_chars(plain),
            max_output_tokens=most[0] if most else None,
            continues_state=True,
            unmetered=True,
            form=StreamForm.ANY,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        media = header(headers, b"content-type").lower()
        return PlainTap(tap_for(PlainReader(), headers, facts)) if media.startswith(_TAPPED) else BlindTap()

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return error_body(status, reason, message)

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        return b"data: " + error_body(status, reason, message) + b"\n\n"

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        return self.stream_error(failure_status(failure), failure.kind.value, failure.message)

    def keepalive(self, client: str) -> bytes:
        return b"\n"


def _usage(raw: Raw) -> Usage | None:
    found = openai_usage(raw)
    if found is None or (counts := json_fields.read(_cache_counts, raw)) is None:
        return found
    written, read = (
        json_fields.count(counts.cache_creation_input_tokens),
        json_fields.count(counts.cache_read_input_tokens),
    )
    # Anthropic's input tokens exclude cached ones, so these are added.
    return Usage(
        found.input_tokens,
        found.cache_read_tokens + (read or 0),
        found.cache_write_tokens + (written or 0),
        found.output_tokens,
    )
