"""Taps: what every dialect's reading beside the stream has in common.

A dialect gives a :class:`Reader`, which knows its events; what is here undoes the content encoding, cuts the stream
into records and sees to it that nothing unreadable holds a reply up.
"""

from __future__ import annotations

from typing import Protocol

from .base import Facts, Headers, StreamForm, Tap, TapState
from .encoding import Decoder, decode_body, decoder_for, header
from .errors import carries_error, read_error
from .sse import ArraySplitter, LineSplitter, Splitter, SseSplitter
from .verdict import judge_event

MAX_PRELUDE = 64 * 1024
"""Bytes after which a stream counts as begun even if no content was recognised: nothing is held for ever."""
MAX_WHOLE = 32 * 1024 * 1024
"""Bytes of a whole reply that are kept to read its usage at the end."""

_NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")

_VAGUE_TYPES = ("", "text/plain", "application/octet-stream", "application/stream+json")
"""Media types that servers give a stream which they don't describe."""


class Reader(Protocol):
    """Knows the events of one dialect and keeps the state of one reply."""

    state: TapState

    def record(self, record: bytes) -> None:
        """One SSE block, or one JSON object of the other forms. Never raises."""

    def whole(self, body: bytes) -> None:
        """A whole JSON reply (decoded) that carries no error."""

    def closed(self) -> None:
        """The stream ended cleanly; decide what only that decides."""


class StreamTap:
    """Reads a stream record by record."""

    __slots__ = ("_blind", "_decoder", "_passed", "_reader", "_splitter", "state")

    def __init__(self, reader: Reader, splitter: Splitter, decoder: Decoder | None) -> None:
        self.state = reader.state
        self._reader = reader
        self._splitter = splitter
        self._decoder = decoder
        self._passed = 0
        self._blind = decoder is not None and decoder.failed

    def feed(self, data: bytes) -> None:
        plain = data
        if self._decoder is not None:
            plain = self._decoder.feed(data)
            self._blind = self._decoder.failed
        for record in self._splitter.feed(plain):
            self._reader.record(record)
        if not self.state.content_started:
            self._passed += len(data) if self._decoder is None else len(data) + len(plain)
            self.state.content_started = self._blind or self._passed > MAX_PRELUDE

    def end(self) -> None:
        for record in self._splitter.end():
            self._reader.record(record)
        if self._blind:
            self.state.complete = True  # its framing is all that is known of it
        else:
            self._reader.closed()


class WholeTap:
    """Keeps a copy of a whole reply, bounded, and reads it at the end."""

    __slots__ = ("_headers", "_kept", "_parts", "_reader", "state")

    def __init__(self, reader: Reader, headers: Headers) -> None:
        self.state = reader.state
        self._reader = reader
        self._headers = headers
        self._parts: list[bytes] = []
        self._kept = 0

    def feed(self, data: bytes) -> None:
        self.state.content_started = True
        self._kept += len(data)
        if self._kept <= MAX_WHOLE:
            self._parts.append(data)
        else:
            self._parts.clear()

    def end(self) -> None:
        self.state.complete = True
        body = decode_body(self._headers, b"".join(self._parts))
        self._parts.clear()
        if not body:
            return
        if carries_error(body):
            self.state.error = judge_event(read_error(body))
        else:
            self._reader.whole(body)
            self.state.usage_final = self.state.usage is not None


class BlindTap:
    """For replies that nothing is known of: they begin with their first byte and are complete when they end."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = TapState()

    def feed(self, data: bytes) -> None:
        self.state.content_started = True

    def end(self) -> None:
        self.state.complete = True


def form_of(headers: Headers, expected: StreamForm) -> StreamForm:
    """How a reply really arrives: by its content type, and as the request expected where that says nothing."""
    media = header(headers, b"content-type").partition(";")[0].strip().lower()
    if media == "text/event-stream":
        return StreamForm.SSE
    if media in _NDJSON_TYPES:
        return StreamForm.NDJSON
    if expected not in (StreamForm.SSE, StreamForm.NDJSON) or media in _VAGUE_TYPES:
        return expected
    # An object of JSON is a line of NDJSON too.
    return expected if media == "application/json" and expected is StreamForm.NDJSON else StreamForm.WHOLE


def tap_for(reader: Reader, headers: Headers, facts: Facts) -> Tap:
    """The tap that fits a reply's content type and encoding."""
    form = form_of(headers, facts.form)
    if form in (StreamForm.WHOLE, StreamForm.ANY):
        return WholeTap(reader, headers)
    splitter: Splitter = SseSplitter()
    if form is StreamForm.NDJSON:
        splitter = LineSplitter()
    elif form is StreamForm.JSON_ARRAY:
        splitter = ArraySplitter()
    return StreamTap(reader, splitter, decoder_for(headers))
