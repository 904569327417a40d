"""Taps: the common part of reading beside the stream. A dialect provides a :class:`Reader` for its events. A tap
decodes the content encoding, splits the stream into records, and ensures that unreadable data doesn't delay the
reply and long data doesn't hold the event loop.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from itertools import chain

import msgspec

from hivemind.providers.base import Facts, Headers, Steps, StreamForm, Tap, TapState
from hivemind.providers.encoding import Decoder, decoder_for, header
from hivemind.providers.errors import carries_error, classify_event
from hivemind.providers.failing import failed_finish, failure_in_reply
from hivemind.providers.frames import FrameSplitter
from hivemind.providers.outline import SLICE, Outline
from hivemind.providers.sse import MAX_LINES, ArraySplitter, LineSplitter, Splitter, SseSplitter

MAX_PRELUDE = 64 * 1024
"""Bytes after which a stream counts as begun even without recognised content, so nothing is held for ever."""
SHORT_WHOLE = 256 * 1024
"""Largest whole reply, decoded, in bytes, that is kept and read at its end; a longer one is outlined."""
LONG_RECORD = 128 * 1024
"""Size in bytes from which a record's outline is read instead. A shorter record takes 5 ms at worst."""
STEP_RECORDS = 256
"""Records per step, which takes about a millisecond."""
MOST_RECORDS = 1_000_000
"""Most records of a stream that are read from large pieces, in which no provider sends tokens."""
UNPARSED = 32
"""Events of content that are counted by their length, as the one before them, until one is parsed again."""
_RECORD_BYTES = 2 * 1024
"""A record counts once more per this many bytes."""
_DECODING = 16
"""Cost of decoding a piece, in records."""
_SPLITTING = 256
"""Highest cost of splitting a slice, in records."""

FRAMES_TYPE = "application/vnd.amazon.eventstream"
_NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")

_JSON = frozenset(
    (b"content-type", value)
    for value in (b"application/json", b"application/json; charset=utf-8", b"application/json; charset=UTF-8")
)
"""Headers about a body of JSON as it is, in the usual spellings."""
_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry|error)?:")
_UNTOLD = re.compile(
    rb"(?:\xef(?:\xbb\xbf?)?)?\s*(?:d|da|dat|data|e|ev|eve|even|event|er|err|erro|error|i|id|r|re|ret|retr|retry)?"
)
"""The beginning of a reply that may become an event stream."""
_VAGUE_TYPES = ("", "text/plain", "application/octet-stream", "application/stream+json")
"""Media types of streams that servers don't describe."""


class Reader(ABC):
    """Reader of one dialect's events, with the state of one reply.

    Of several like events in a row, one is parsed, and of the others the length is enough.
    """

    __slots__ = ("_rest", "state", "unparsed")

    finish = b""
    """The member of a whole reply, in quotes, that says why it ended; empty: none does."""

    def __init__(self) -> None:
        self.state = TapState()
        self.unparsed = 0
        """Events that :meth:`skim` may still take until one is parsed again."""
        self._rest = 0
        """Bytes of the event parsed last that aren't content."""

    def skim(self, record: bytes) -> bool:
        """Take a record by its length. Return whether that was enough; else nothing is done."""
        size = self.content_size(record)
        if not size:
            return False
        self.unparsed -= 1
        if size > self._rest:
            self.state.output_chars += size - self._rest
        return True

    def read(self, record: bytes) -> None:
        """Read one SSE block, or one JSON object of the other forms. Never raises."""
        if self.unparsed and self.skim(record):
            return
        state = self.state
        if state.error is not None and not state.content_started:  # `failed`, where each event costs
            return
        before = state.output_chars
        self.record(record)
        chars = state.output_chars - before
        size = self.content_size(record) if chars and state.content_started else 0
        self._rest = size - chars
        self.unparsed = UNPARSED if size else 0

    @abstractmethod
    def record(self, record: bytes) -> None:
        """Parse one SSE block, or one JSON object of the other forms. Never raises."""

    def content_size(self, record: bytes) -> int:
        """Return the length, without random padding, of a record like the one parsed last that can't tell more than how
        much content came, once some has; 0 for any other, and for more than one."""
        return 0

    def is_part_of_stream(self, *, is_json: bool) -> bool:
        """Whether a JSON document that came alone is a part of the dialect's own stream, so that the end marker is
        missing. `is_json`: the reply says that it is JSON."""
        return False

    @abstractmethod
    def whole(self, body: bytes) -> None:
        """Read a whole JSON reply (decoded) without an error."""

    def watch(self, body: bytes) -> None:  # noqa: B027 - optional
        """Note what a whole JSON reply, or the object in an event, says of work that goes on after it."""

    def closed(self) -> None:  # noqa: B027 - optional
        """Handle the clean end of the stream, which completes a reply only without an end marker of its own."""


class StreamTap:
    """A tap that reads a stream record by record."""

    __slots__ = (
        "_blind",
        "_decoder",
        "_direct",
        "_document",
        "_is_json",
        "_many",
        "_passed",
        "_slice",
        "_splitter",
        "_unsure",
        "between",
        "ends",
        "reader",
        "separator",
        "state",
    )

    def __init__(self, reader: Reader, splitter: Splitter, decoder: Decoder | None, *, is_json: bool = False) -> None:
        """`is_json`: the reply says that it is JSON."""
        self.state = reader.state
        self.reader = reader
        self._splitter = splitter
        self._slice = splitter.slice_bytes
        self._direct = -1 if decoder is not None else self._slice
        """Largest piece in bytes that is read directly."""
        self._decoder = decoder
        self._is_json = is_json
        self._document: bytes | None = None
        """The only record so far, if it may be a JSON document in place of a stream."""
        self._unsure = not isinstance(splitter, ArraySplitter)
        """What comes may yet be a document."""
        self.separator = splitter.separator
        self.ends = splitter.ends
        self.between = False
        """The next piece begins with a record."""
        self._passed = 0
        self._many = 0
        self._blind = False

    @property
    def is_between(self) -> bool:
        return self._splitter.is_between and not self._blind

    def feed(self, data: bytes) -> Steps | None:
        size = len(data)
        if size > self._direct:
            return self._indirectly(data)
        end = self.separator
        if self.between and self.reader.unparsed and data.endswith(end) and self.reader.skim(data[: -len(end)]):
            return None
        return self._plain(data, size)

    def end(self) -> Steps | None:
        records = self._splitter.end()
        if records and self._unsure:
            records = self._judged(records)
        if (records and len(records[0]) > LONG_RECORD) or len(self._document or b"") > LONG_RECORD:
            return self._last(records)
        for record in records:
            self.reader.read(record)
        self._close(self._document)
        return None

    def _judged(self, records: list[bytes]) -> list[bytes]:
        """Return the records to read, of which at most one has come before: the only one may be a document.

        JSON on several lines is split by its objects instead of lines.
        """
        if records[0] in (b"{", b"[") and isinstance(self._splitter, LineSplitter):
            lines = [*records, *self._splitter.end()]
            self._splitter = ArraySplitter()
            self._slice, self.ends, self._unsure = self._splitter.slice_bytes, (), False
            return self._splitter.feed(b"\n".join(lines))
        only = self._document is None and len(records) == 1
        may_be = only and (self._is_json or records[0].startswith((b"{", b"[")))
        self._document = records[0].removesuffix(b"data: [DONE]") if may_be else None  # 9router puts one behind it
        self._unsure = may_be
        self.between = self.between and not may_be  # so that the next record comes here too
        return records

    def _plain(self, data: bytes, size: int) -> Steps | None:
        """Read a short decoded piece; `size` is what it adds to the bytes that have passed."""
        records = self._splitter.feed(data)
        self.between = self._splitter.is_between
        if self._unsure and records:
            records = self._judged(records)
        if records and (len(records) > STEP_RECORDS or len(records[0]) > LONG_RECORD):
            return self._rest(records, size)
        read = self.reader.read
        for record in records:
            read(record)
        if not self.state.content_started:
            self._pass(size)
        return None

    def _indirectly(self, data: bytes) -> Steps | None:
        """Read an encoded or long piece."""
        if self._blind:
            return None
        if self._decoder is None:
            return self._in_steps((data,), 0)
        plain = self._decoder.first(data)
        if self._decoder.more or self._decoder.failed or len(plain) > self._slice:
            return self._in_steps(chain((plain,), self._decoder.steps(b"")), len(data))
        return self._plain(plain, len(data) + len(plain))

    def _in_steps(self, pieces: Iterable[bytes], size: int) -> Steps:
        """Read plain pieces; `size` is their encoded size, if they were encoded."""
        self.between = False
        work = 0
        for piece in pieces:
            size += len(piece)
            work += _DECODING
            for at in range(0, len(piece), self._slice):
                part = piece[at : at + self._slice]
                work += _SPLITTING * len(part) // self._slice
                records = self._splitter.feed(part)
                if records and self._unsure:
                    records = self._judged(records)
                work = yield from self._read(records, work)
                if self._blind:
                    return
                if work >= STEP_RECORDS:
                    work = 0
                    yield
            if work >= STEP_RECORDS:  # for empty pieces
                work = 0
                yield
        if self._decoder is not None and self._decoder.failed:
            self._give_up(self._decoder.failed)
        elif not self.state.content_started:
            self._pass(size)

    def _rest(self, records: list[bytes], size: int) -> Steps:
        yield from self._read(records, 0)
        if not self.state.content_started:
            self._pass(size)

    def _last(self, records: list[bytes]) -> Steps:
        yield from self._read(records, 0)
        document = self._document
        if document is not None and len(document) > LONG_RECORD:
            document = yield from shortened(document)
        self._close(document)

    def _read(self, records: list[bytes], work: int) -> Generator[None, None, int]:
        """Read records in steps, the first of which begins with this cost. Return the cost of the last step."""
        self._many += len(records)
        if self._many > MOST_RECORDS:
            self._give_up("the stream has too many events")
            return work
        for record in records:
            if self.state.failed:
                break
            if len(record) <= LONG_RECORD:
                self.reader.read(record)
            elif record := (yield from shortened(record)):
                self.reader.record(record)
            work += 1 + len(record) // _RECORD_BYTES
            if work >= STEP_RECORDS:
                work = 0
                yield
        return work

    def _give_up(self, why: str) -> None:
        """Stop reading; the reply continues."""
        self._direct = -1
        self._blind, self.between = True, False
        self.state.content_started = not self.state.failed
        self.state.gave_up = why

    def _pass(self, size: int) -> None:
        self._passed += size
        self.state.content_started = self._passed > MAX_PRELUDE and self.state.error is None

    def _close(self, document: bytes | None) -> None:
        """Handle the end; `document` is what came in place of a stream, or its outline."""
        state = self.state
        if self._blind:
            state.complete = True  # only its framing is known
            return
        self.reader.closed()
        if state.complete or state.error is not None or self.reader.is_part_of_stream(is_json=self._is_json):
            return
        if isinstance(self._splitter, ArraySplitter):
            state.document = state.complete = self._splitter.is_document
        elif document is not None:
            state.document = state.complete = True
            read_whole(self.reader, document)


def shortened(record: bytes) -> Generator[None, None, bytes]:
    """Return a long record with its outline instead of its JSON; empty if it can't be read."""
    outline = Outline()
    if record[:64].lstrip().startswith(b"{"):
        yield from outline.look_at((record,))
        return b"" if outline.failed else outline.end()
    name = b""
    at = 0
    for _ in range(MAX_LINES):
        if at > len(record):
            return b"" if outline.failed else b"event: %b\ndata: %b" % (name, outline.end())
        end = record.find(b"\n", at)
        end = len(record) if end < 0 else end
        if record.startswith(b"data:", at):
            yield from outline.look_at(record[start : start + SLICE] for start in range(at + 5, end, SLICE))
        elif record.startswith(b"event:", at):
            name = record[at + 6 : min(end, at + 100)].strip()
        at = end + 1
    return b""


class WholeTap:
    """A tap that reads a whole reply at its end: completely if short, as an outline if long."""

    __slots__ = ("_decoder", "_kept", "_outline", "_parts", "_reader", "state")

    ends: tuple[bytes, ...] = ()
    is_between = False

    def __init__(self, reader: Reader, decoder: Decoder | None) -> None:
        self.state = reader.state
        self._reader = reader
        self._decoder = decoder
        self._parts: list[bytes] = []
        self._kept = 0
        self._outline: Outline | None = None

    def feed(self, data: bytes) -> Steps | None:
        self.state.content_started = True
        if self._decoder is None and self._outline is None:
            self._kept += len(data)
            self._parts.append(data)
            return None if self._kept <= SHORT_WHOLE else self._outlined()
        return self._in_steps(data)

    def end(self) -> Steps | None:
        self.state.complete = True
        if self._decoder is not None and self._decoder.failed:
            self.state.gave_up = self._decoder.failed
        elif self._outline is None:
            self._read(b"".join(self._parts))
        elif self._outline.failed:
            self.state.gave_up = self._outline.failed if self._outline.is_json else ""  # sound and other media
        else:
            self._read(self._outline.end())
        self._parts.clear()
        return None

    def _in_steps(self, data: bytes) -> Steps:
        if self._outline is not None and self._outline.failed:
            return
        work = 0
        for piece in (data,) if self._decoder is None else self._decoder.steps(data):
            self._kept += len(piece)
            self._parts.append(piece)
            work += _DECODING
            if self._outline is not None or self._kept > SHORT_WHOLE:
                yield from self._outlined()
                if self._outline is not None and self._outline.failed:
                    return
            if work >= STEP_RECORDS:
                work = 0
                yield

    def _outlined(self) -> Steps:
        if self._outline is None:
            self._outline = Outline()
        parts, self._parts = self._parts, []
        yield from self._outline.look_at(parts)

    def _read(self, body: bytes) -> None:
        if body:
            read_whole(self._reader, body)


class UnsureTap:
    """A tap of a reply that says it is whole: its first bytes tell whether it is an event stream nevertheless."""

    __slots__ = ("_first", "_headers", "_inner", "_reader", "_told", "state")

    def __init__(self, reader: Reader, headers: Headers) -> None:
        self.state = reader.state
        self._reader = reader
        self._headers = headers
        self._inner: Tap = WholeTap(reader, decoder_for(headers))
        self._first = b""
        self._told = False

    @property
    def ends(self) -> tuple[bytes, ...]:
        return self._inner.ends

    @property
    def is_between(self) -> bool:
        return self._inner.is_between

    def feed(self, data: bytes) -> Steps | None:
        if self._told:
            return self._inner.feed(data)
        first = self._first = self._first + data if self._first else data
        decoder = decoder_for(self._headers)
        if decoder is not None:
            first = next((piece for piece in decoder.steps(first) if piece.strip()), b"")
        readable = decoder is None or not decoder.failed
        if readable and len(self._first) < MAX_PRELUDE and _UNTOLD.fullmatch(first):
            return None
        self._told = True
        if begins_stream(first):
            self.state.streamed = True
            self._inner = StreamTap(self._reader, SseSplitter(), decoder_for(self._headers))
        data, self._first = self._first, b""
        return self._inner.feed(data)

    def end(self) -> Steps | None:
        first = self._inner.feed(self._first) if self._first else None
        return self._inner.end() if first is None else self._end_after(first)

    def _end_after(self, steps: Steps) -> Steps:
        yield from steps
        yield from self._inner.end() or ()


def begins_stream(data: bytes) -> bool:
    """Return whether the first bytes of a reply are those of an event stream."""
    return _EVENTS.match(data) is not None


def begins_otherwise(data: bytes) -> bool:
    """Return whether the first bytes of a reply aren't those of a document: white space, or an event stream."""
    return data[:1] != b"{" and (data.isspace() or begins_stream(data))


def is_short_json(headers: Headers, body: bytes) -> bool:
    """Return whether a whole reply is read by :func:`read_whole`; `headers` are those about the body."""
    return len(headers) == 1 and headers[0] in _JSON and len(body) <= SHORT_WHOLE and not begins_otherwise(body)


def read_whole(reader: Reader, body: bytes) -> None:
    """Read a whole reply in JSON, decoded."""
    state = reader.state
    if state.watches:
        reader.watch(body)
    if carries_error(body):
        if state.watches:  # it may have failed after some work
            reader.whole(body)
        state.error = classify_event(body)
        return
    reader.whole(body)
    state.usage_final = state.usage is not None
    if state.usage is not None and state.usage.output_tokens:
        state.error = failed_finish(body, reader.finish)
        return
    state.error = failure_in_reply(body, reader.finish)
    if state.usage is None and _is_cut(body):
        state.complete = False


def _is_cut(body: bytes) -> bool:
    """Return whether a body is blank or ends within its JSON. Other mistakes in it, such as NaN, are left to its
    reader."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return not body.strip()
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return "truncated" in str(error)
    return False


def feed_through(tap: Tap, data: bytes) -> None:
    """Feed bytes to a tap and run all steps at once, where no other work waits."""
    for _ in tap.feed(data) or ():
        pass


def end_through(tap: Tap) -> None:
    """Close a tap and run all steps at once."""
    for _ in tap.end() or ():
        pass


def _media(headers: Headers) -> str:
    return header(headers, b"content-type").partition(";")[0].strip().lower()


def form_of(headers: Headers, expected: StreamForm) -> StreamForm:
    """Return the form of a reply by its content type, or as the request expected."""
    media = _media(headers)
    if media == "text/event-stream":
        return StreamForm.SSE
    if media in _NDJSON_TYPES:
        return StreamForm.NDJSON
    if media == FRAMES_TYPE:
        return StreamForm.FRAMES
    if expected is StreamForm.FRAMES:
        return StreamForm.WHOLE
    if expected not in (StreamForm.SSE, StreamForm.NDJSON) or media in _VAGUE_TYPES:
        return expected
    # A JSON object is a line of NDJSON too.
    return expected if media == "application/json" and expected is StreamForm.NDJSON else StreamForm.WHOLE


def tap_for(reader: Reader, headers: Headers, facts: Facts) -> Tap:
    """Return the tap for a reply's content type and encoding."""
    form = form_of(headers, facts.form)
    if form in (StreamForm.WHOLE, StreamForm.ANY):
        return UnsureTap(reader, headers)
    is_json = _media(headers) == "application/json"
    splitter: Splitter = SseSplitter()
    if form is StreamForm.NDJSON:
        splitter = LineSplitter()
    elif form is StreamForm.JSON_ARRAY:
        splitter = ArraySplitter()
    elif form is StreamForm.FRAMES:
        splitter = FrameSplitter(takes_ours=facts.form is form)
    return StreamTap(reader, splitter, decoder_for(headers), is_json=is_json)
