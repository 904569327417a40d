"""Replies from upstream: what counts as an answer, and reading no more of one than is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.taps import form_of
from hivemind.upstream.base import UpstreamResponse
from hivemind.wire.headers import Headers, value

_STREAMED = (b"text/event-stream", b"application/x-ndjson", b"application/stream+json", b"application/jsonl")
_MEDIA = re.compile(rb"[a-z0-9][a-z0-9.+-]{0,40}/[a-z0-9][a-z0-9.+-]{0,40}")


@dataclass(frozen=True, slots=True)
class FailedReply:
    """A reply that counts as a failure, passed on unless a retry brings a better one."""

    response: UpstreamResponse
    body: bytes
    """The part that was read."""
    stream: bool = False
    """There may be more to read."""
    cut: bool = False
    """It ended before its own end marker."""


async def read_up_to(response: UpstreamResponse, limit: int) -> tuple[bytes, bool]:
    """Return about `limit` bytes of the body at most, and whether that is all of it.

    Raises: Truncated, UpstreamTimeout.
    """
    parts: list[bytes] = []
    size = 0
    while size < limit:
        data = await response.read()
        if not data:
            return b"".join(parts), True
        parts.append(data)
        size += len(data)
    return b"".join(parts), False


def in_pieces(headers: Headers, facts: Facts) -> bool:
    """Whether a reply comes in pieces that are passed on one by one, rather than as a whole that may be held."""
    if facts.form is StreamForm.ANY or _media(headers) in _STREAMED:
        return True
    return facts.stream and form_of(headers, facts.form) is not StreamForm.WHOLE


def mismatch_of(status: int, headers: Headers, facts: Facts) -> str:
    """Return in a few words what came in place of an answer; empty where it is one.

    A redirect is never an answer. Where a stream was requested, neither is a reply without a body, nor a page: of a
    captive portal, or a gateway's login. Servers without streams send a whole reply in JSON.
    """
    if status >= 300:
        return mismatch_text(status, headers, stream=facts.stream)
    if not facts.stream or (status not in (204, 205) and not _is_page(headers, facts)):
        return ""
    return mismatch_text(status, headers, stream=True)


def mismatch_text(status: int, headers: Headers, *, stream: bool) -> str:
    """Return such as `302, not a stream` or `200 text/html, not a stream`."""
    media = _media(headers) if status < 300 else b""
    what = f"{status} {media.decode()}" if _MEDIA.fullmatch(media) else str(status)
    return f"{what}, not {'a stream' if stream else 'an answer'}"


def _is_page(headers: Headers, facts: Facts) -> bool:
    media = _media(headers)
    if media in _STREAMED or media.endswith(b"json"):
        return False
    return form_of(headers, facts.form) is StreamForm.WHOLE


def _media(headers: Headers) -> bytes:
    content_type = value(headers, b"content-type") or b""
    return content_type.partition(b";")[0].strip().lower()
