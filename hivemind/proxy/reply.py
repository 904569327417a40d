"""Replies from upstream: what counts as an answer, reading no more of one than is needed, and holding back what another
attempt may still replace."""

from __future__ import annotations

import re

from msgspec import Struct

from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.clients import TryAgain
from hivemind.providers.dialect import encode
from hivemind.providers.encoding import Decoder, decode_body
from hivemind.providers.errors import MAX_ERROR_BODY, carries_error, classify, error_object
from hivemind.providers.failing import error_in
from hivemind.providers.sse import SseSplitter, fields
from hivemind.providers.taps import FRAMES_TYPE, form_of
from hivemind.proxy.asgi import StepRunner
from hivemind.proxy.response_writer import ResponseWriter
from hivemind.scheduler.admission.retry import MAX_PAUSE_S
from hivemind.scheduler.types import Failure, FailureKind
from hivemind.settings import Origin
from hivemind.upstream.base import Truncated, UpstreamResponse
from hivemind.wire.links import Links
from hivemind.wire.request_head import Headers, value, without

_STREAMED = (
    b"text/event-stream",
    b"application/x-ndjson",
    b"application/stream+json",
    b"application/jsonl",
    FRAMES_TYPE.encode(),
)
_MEDIA = re.compile(rb"[a-z0-9][a-z0-9.+-]{0,40}/[a-z0-9][a-z0-9.+-]{0,40}")

_ASKS_AGAIN = (b"retry-after", b"retry-after-ms", b"x-should-retry")
_REFUSALS = (FailureKind.RATE_LIMITED, FailureKind.OVERLOADED)
LINKS_WITHIN = 256 << 10
"""Bytes of a document that is held, and in which links are rewritten."""
_MOST_DECODED = 4 << 20
"""Bytes of such a document, decoded."""
_ENCODED = (b"content-length", b"content-encoding", b"content-md5", b"content-digest")
_ABOUT_BODY = (b"content-type", b"content-encoding", b"content-length")


class FailedReply(Struct, frozen=True):
    """A reply that counts as a failure, passed on unless a retry brings a better one."""

    response: UpstreamResponse
    body: bytes
    """The part that was read."""
    stream: bool = False
    """There may be more to read."""


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


def failure_of_reply(response: UpstreamResponse, body: bytes, origin: Origin, wall: float) -> Failure:
    """Return what an error status counts as; `wall` is the time in seconds since the epoch."""
    failure = classify(response.status, response.headers, body, wall, origin.host.lower())
    return failure or Failure(FailureKind.CLIENT_ERROR, False, response.status)


def nothing_ran(failure: Failure, response: UpstreamResponse | None) -> bool:
    """Return whether a failed attempt surely did nothing: it didn't arrive, or was refused in place of an answer."""
    if failure.kind is FailureKind.CONNECT:
        return True
    return failure.kind in _REFUSALS and response is not None and response.status >= 400


def with_links(links: Links, headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    """Return headers and body of a whole answer with links that lead through us, decoded where it has any."""
    text = decode_body(headers, body, _MOST_DECODED) if is_json(headers) else b""
    found = links.in_body(text)
    if found is text:
        return headers, body
    return [*without(headers, *_ENCODED), (b"content-length", b"%d" % len(found))], found


def may_hold_links(headers: Headers) -> bool:
    """Return whether a reply is to be held until it is whole, because it may be a short document with links."""
    length = value(headers, b"content-length") or b""
    return is_json(headers) and length != b"0" and (not length.isdigit() or int(length) <= LINKS_WITHIN)


def is_json(headers: Headers) -> bool:
    """Return whether a reply says that it is a JSON document."""
    media = _media(headers)
    return media == b"application/json" or media.endswith(b"+json")


def retryable_form(failure: Failure, reply: FailedReply, form: TryAgain) -> tuple[int, Headers, bytes] | None:
    """Return status, headers and body of an upstream's temporary failure so that a client of this form asks again: with
    a Retry-After that it obeys, and an overload under another name where it would end at that; the provider's words
    stay. None: it is passed on as it is.

    A longer pause than :data:`MAX_PAUSE_S` means a quota, at which clients should end.
    """
    if failure.delay_s is not None and failure.delay_s > MAX_PAUSE_S:
        return None
    status, headers, body = reply.response.status, reply.response.headers, reply.body
    if reply.stream or form.counts_overload:
        body = decode_body(headers, body, MAX_ERROR_BODY)
        headers = [pair for pair in headers if pair[0] not in _ABOUT_BODY]
    if reply.stream:
        # An error event before any content. Most SDKs ask again after a status alone.
        status, body = failure.status or 503, error_event(body)
        if not body:
            return None
    if form.counts_overload and (status == 529 or b"overloaded_error" in body):
        status, body = 503, _not_overloaded(body)
    if reply.stream or form.counts_overload:
        headers.append((b"content-type", b"application/json"))
    headers = [pair for pair in headers if pair[0] not in (b"retry-after", b"retry-after-ms")]
    return status, [*headers, (b"retry-after", str(form.delay_s(failure.delay_s)).encode())], body


def final_form(failure: Failure, reply: FailedReply, form: TryAgain) -> tuple[int, Headers, bytes]:
    """Return status, headers and body of a refusal that no further attempt helps, so that a client of this form ends:
    without a Retry-After that it would wait for, and as a status where it came as an event. Of the statuses every
    client that was measured ends at 400 alone."""
    headers = [each for each in reply.response.headers if each[0] not in _ASKS_AGAIN]
    status, body = reply.response.status, reply.body
    if status < 400 and (event := error_event(decode_body(headers, body, MAX_ERROR_BODY)) if reply.stream else body):
        status, body = failure.status or 429, event
        headers = [each for each in headers if each[0] not in _ABOUT_BODY or not reply.stream]
        headers += [(b"content-type", b"application/json")] if reply.stream else []
    return status if form.obeys_hint else 400, [*headers, (b"x-should-retry", b"false")], body


def error_event(body: bytes) -> bytes:
    """Return the error in a stream's events, which has the form of an answer's body; empty: there is none."""
    splitter = SseSplitter()
    data = (fields(block)[1] for block in [*splitter.feed(body), *splitter.end()])
    return next(filter(carries_error, map(error_in, data)), b"")


def _not_overloaded(body: bytes) -> bytes:
    error = error_object(body)
    return body if error is None else encode({"type": "error", "error": {**error, "type": "api_error"}})


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


async def write(writer: ResponseWriter, decoder: Decoder | None, data: bytes, steps: StepRunner) -> None:
    """Send the bytes, decoded where the client's head promised no encoding; without a decoder they go unchanged.

    Raises: Truncated: they can't be decoded, so the response can't continue.
    """
    if decoder is None:
        await writer.write(data)
        return
    first = True
    for piece in decoder.steps(data):
        if not first:
            await steps.yield_to_others()
        first = False
        if piece:
            await writer.write(piece)
    if decoder.failed:
        raise Truncated(f"the stream can't be decoded: {decoder.failed}")
