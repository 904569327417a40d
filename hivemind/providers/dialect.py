"""The interface of the dialects and their common parts. A request's body is read completely if it is short, as an
outline if it is long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain

import msgspec

from hivemind.providers.base import Facts, Headers, Steps, StreamForm, Tap, TapState
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.encoding import decode_body, decoder_for, is_encoded
from hivemind.providers.errors import ErrorObject, error_object
from hivemind.providers.outline import SHORT, Outline, is_object
from hivemind.providers.taps import Reader, form_of, is_short_json, read_whole, tap_for
from hivemind.providers.work import BatchReader, JobReader
from hivemind.records import replace
from hivemind.scheduler.types import Failure

REFUSAL_HEADER = b"x-hivemind-refusal"
"""On a refusal of our own: its reason, for programs; status and text are chosen for the client."""
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses of our own refusals that the client should retry."""
_TELLING = RETRYABLE - {408, 500}
"""Of these the ones that always say when: some clients end at one that doesn't, others use up their tries."""

_DONE = object()
_STEP_PIECES = 4
"""Decoded pieces per step."""


def encode(value: object) -> bytes:
    """Return compact JSON on one line."""
    return msgspec.json.encode(value)


def failure_status(failure: Failure) -> int:
    """Return the failure's own status, or 502 if the upstream gave none."""
    return failure.status if failure.status is not None else 502


_READERS: dict[str, Callable[[], Reader]] = {
    "batch": BatchReader,
    "video": partial(JobReader, "video"),
    "job": partial(JobReader, "job"),
}
"""By what a request begins, where that says more of its reply than its dialect."""


def failure_text(failure: Failure) -> str:
    """Return our own words for an answer that says nothing itself, such as a page."""
    return f"HiveMind: the upstream answered {failure.message}"


def _is_done(steps: Steps | None) -> bool:
    """Return whether work is done, or is by its first step, which takes about a millisecond at most."""
    return steps is None or next(steps, _DONE) is _DONE


class Dialect(ABC):
    """The wire format of one API. Stateless; one instance each."""

    name: str
    """`anthropic`, `openai_chat`, `openai_responses`, `google`, `ollama`, `bedrock`, `stateless`, `plain`."""
    form = StreamForm.SSE
    """The form of its streams."""
    reader: type[Reader]

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        """Read a request. `path` has no prefixes of ours; `body` is as sent, a compressed one is decoded in a copy.
        Never raises; unreadable fields keep their default."""
        return self.request_facts(path, query, decode_body(headers, body) if is_encoded(headers) else body)

    def facts_in_steps(self, path: str, query: str, headers: Headers, body: bytes) -> Generator[None, None, Facts]:
        """Return :meth:`facts` of a long or encoded body, in bounded memory and in steps; other work can run between
        them. Parts that can't be read are omitted, :attr:`Facts.unread` says why, and the size is an estimate."""
        decoder = decoder_for(headers)
        if self.is_opaque(headers) or (decoder is None and not is_object(body)):
            return self.facts(path, query, headers, body)  # a form or a file, of which only the length is known
        pieces = iter((body,)) if decoder is None else decoder.steps(body)
        short = yield from _short(pieces)
        if isinstance(short, bytes):
            if decoder is None or not decoder.failed:
                return self.request_facts(path, query, short or b"{}")
            return replace(self.request_facts(path, query, b"{}"), size_chars=len(body), unread=decoder.failed)
        outline = Outline()
        yield from outline.look_at(chain(short, pieces))
        facts = self.request_facts(path, query, outline.end())
        if facts.begins not in (None, "background"):
            return facts
        undecoded = decoder.failed if decoder is not None else ""
        if undecoded or outline.failed:
            why = undecoded or (outline.failed if outline.is_json else "")
            return replace(facts, size_chars=max(outline.size, len(body)), unread=why)
        return replace(facts, size_chars=outline.size - outline.payload)

    @abstractmethod
    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        """Return :meth:`facts` of a decoded body."""

    def can_ask_usage(self, headers: Headers, body: bytes) -> bool:
        """Whether a request for a stream can ask for its usage, and doesn't say whether it wants it."""
        return False

    def is_opaque(self, headers: Headers) -> bool:
        """Whether :meth:`facts` doesn't read this kind of body, such as sound and images."""
        return False

    def tap(self, headers: Headers, facts: Facts) -> Tap:
        """Return a tap for one reply, by its content type and content encoding (identity, gzip, deflate, br, zstd)."""
        return tap_for(self._reader_of(facts), headers, facts)

    def read_reply(self, headers: Headers, facts: Facts, body: bytes) -> TapState | None:
        """Return what a whole reply says, as a tap does; `headers` are those about its body. None where it comes in
        pieces or takes several steps to read."""
        if facts.form is not StreamForm.WHOLE:
            return None
        if is_short_json(headers, body):
            reader = self._reader_of(facts)
            reader.state.content_started = reader.state.complete = True
            if body:
                read_whole(reader, body)
            return reader.state
        if form_of(headers, facts.form) is not StreamForm.WHOLE:
            return None
        tap = self.tap(headers, facts)
        return tap.state if _is_done(tap.feed(body)) and _is_done(tap.end()) else None

    def _reader_of(self, facts: Facts) -> Reader:
        reader = _READERS.get(facts.begins or "", self.reader)()
        state = reader.state
        state.tier, state.model, state.watches = facts.tier, facts.model, facts.begins is not None
        return reader

    @abstractmethod
    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        """Return an error of our own as the body of an answer."""

    @abstractmethod
    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        """Return an error of our own as the last events of a stream already answered with 200, as the dialect's
        clients raise it; a temporary one so that a client of that form asks again."""

    def failure_event(self, failure: Failure, body: bytes, form: TryAgain = UNKNOWN) -> bytes:
        """Return an upstream's error answer (classified; `body` decoded) as an event of a stream already answered
        with 200, keeping the provider's error object if there is one."""
        error = error_object(body)
        if error is None:
            return self.stream_error(failure_status(failure), failure.kind.value, failure_text(failure), form)
        return self.upstream_error(failure, error)

    def upstream_error(self, failure: Failure, error: ErrorObject) -> bytes:
        """Return a provider's error object as an event of a stream; one of our own where its form is unknown."""
        return self.stream_error(failure_status(failure), failure.kind.value, failure_text(failure))

    @abstractmethod
    def keepalive(self, client: str) -> bytes:
        """Return bytes that can be sent repeatedly into a stream before its first event, by client
        (:attr:`hivemind.providers.clients.Client.name`)."""

    def refusal(
        self, status: int, reason: str, message: str, retry_after_s: float | None, form: TryAgain = UNKNOWN
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return an error of our own in the provider's format, in the form after which the client asks again if that
        can help: headers (content-type, x-should-retry, the reason, retry-after; RetryInfo in the body for Google) and
        body. `reason` is neutral: `circuit_open`, `queue_full`, `wait_too_long`, `draining`, `too_many_agents` …"""
        telling = retry_after_s is not None or status in _TELLING
        retry_s = form.delay_s(retry_after_s) if telling else None
        temporary = telling or status in RETRYABLE
        headers = [
            (b"content-type", b"application/json"),
            (b"x-should-retry", b"true" if temporary else b"false"),
            (REFUSAL_HEADER, reason.encode()),
        ]
        if retry_s is not None:
            headers.append((b"retry-after", str(retry_s).encode()))
        return headers, self.error_body(status, reason, message, retry_s)

    def stream_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of a 200 sent before the upstream answered (content-type, cache-control …)."""
        media = b"application/x-ndjson" if self.form is StreamForm.NDJSON else b"text/event-stream; charset=utf-8"
        return [(b"content-type", media), (b"cache-control", b"no-cache")]


def _short(pieces: Iterator[bytes]) -> Generator[None, None, bytes | list[bytes]]:
    """Return a short body, or the first pieces of a long one."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > SHORT:
            return parts
        if len(parts) % _STEP_PIECES == 0:
            yield
    return b"".join(parts)
