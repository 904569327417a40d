"""Incremental splitting of server-sent events (WHATWG HTML, section 9.2) and of the two JSON stream forms. A
splitter takes bytes cut anywhere and returns complete records. It keeps at most one incomplete record of bounded
size; a larger one is dropped, and splitting resumes at the next.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Protocol

from msgspec import Struct, field

MAX_RECORD = 16 * 1024 * 1024
"""Largest record in bytes; images in a closing event take a few megabytes."""
MAX_LINES = 2000
"""Most lines of one event; more than indented JSON needs."""
_COMMENTS = re.compile(rb"(?<=\n\n)(?::[^\n]*+\n\n)++")
"""A run of comments between events, removed together, as there may be thousands."""
_MANY_COMMENTS = 4096
"""Shortest piece in bytes that is searched for them."""
_BOM = b"\xef\xbb\xbf"
_PREFILL = re.compile(rb"^:[^\r\n]*?\b(\d{1,9})/(\d{1,9})[ \t\r]*$", re.M)
"""A comment with how much of the prompt was read: mlx-lm's `: keepalive 2048/7218`."""
_ONLY_COMMENTS = re.compile(rb"(?:(?::[^\r\n]*+)?+[\r\n])++")
_BARE_ERROR = b'{"error"'
"""How an error begins that stands in a stream without a field."""
_SPACE = b" \t\r\n" + _BOM
_OUTSIDE = re.compile(rb'["{}]')
_IN_STRING = re.compile(rb'["\\]')
"""What a string in JSON is searched for; else :data:`_OUTSIDE`."""
_BETWEEN = re.compile(rb'["{}\[\]]')
"""What is searched for between objects."""


class Splitter(Protocol):
    """Splitter of a decoded stream into records."""

    slice_bytes: int
    """Most bytes per call; all separators take about a millisecond."""
    separator: bytes
    """The usual end of a record."""
    ends: tuple[bytes, ...]
    """Every end of a record that another record can follow."""

    @property
    def is_between(self) -> bool:
        """Whether what comes next begins a record."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the records that these bytes complete."""

    def end(self) -> list[bytes]:
        """Return a last record without separator at the end of the stream."""


class _Buffer(Struct):
    """The incomplete end of a stream; no byte is searched twice for a separator."""

    _separator: bytes
    _data: bytearray = field(default_factory=bytearray)
    _seen: int = 0
    _dropping: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the next record has come."""
        return not (self._data or self._dropping)

    def feed(self, data: bytes) -> list[bytes]:
        """Return records ended by the separator, without it."""
        if not self._data and data.endswith(self._separator) and not self._dropping:
            return data.split(self._separator)
        buffer = self._data
        buffer += data
        overlap = len(self._separator) - 1
        first = buffer.find(self._separator, max(0, self._seen - overlap))
        if first < 0:
            self._seen = len(buffer)
            if len(buffer) > MAX_RECORD:
                self._dropping = True
                del buffer[: len(buffer) - overlap]
                self._seen = len(buffer)
            return []
        # The first may be long and is copied once; all others are within these bytes.
        with memoryview(buffer) as view:
            record, after = bytes(view[:first]), bytes(view[first + len(self._separator) :])
        *records, rest = after.split(self._separator)
        if self._dropping:
            self._dropping = False
        else:
            records.insert(0, record)
        self._data = bytearray(rest)
        self._seen = len(rest)
        return records

    def end(self) -> bytes:
        """Return the remaining bytes."""
        rest = b"" if self._dropping else bytes(self._data)
        self._data.clear()
        self._seen = 0
        return rest


class SseSplitter(Struct):
    """Splitter of an event stream into blocks: the lines of one event, joined by LF. Comments between events are
    blocks of their own, or omitted if there are many."""

    slice_bytes: int = 16 * 1024

    separator: bytes = b"\n\n"
    ends: tuple[bytes, ...] = (b"\n\n", b"\r\n\r\n", b"\r\r")
    _buffer: _Buffer = field(default_factory=partial(_Buffer, b"\n\n"))
    _head: bytes = b""
    _started: bool = False
    _cr: bool = False

    @property
    def is_between(self) -> bool:
        return self._started and not self._cr and self._buffer.is_empty

    def feed(self, data: bytes) -> list[bytes]:
        if not self._started:
            data = self._skip_bom(data)
        if self._cr and data:
            data = data[1:] if data[0] == 0x0A else data
            self._cr = False
        if b"\r" in data:
            self._cr = data[-1] == 0x0D
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if len(data) > _MANY_COMMENTS and b"\n\n:" in data:
            data = _COMMENTS.sub(b"", data)
        return [block.strip(b"\n") for block in self._buffer.feed(data) if block and block != b"\n"]

    def _skip_bom(self, data: bytes) -> bytes:
        self._head += data
        if len(self._head) < len(_BOM) and _BOM.startswith(self._head):
            return b""
        self._started = True
        data, self._head = self._head, b""
        return data.removeprefix(_BOM)

    def end(self) -> list[bytes]:
        block = (self._head + self._buffer.end()).strip(b"\n")
        return [block] if block else []


def fields(block: bytes) -> tuple[bytes, bytes]:
    """Return the event name (empty if absent) and the data of one block; both empty if it has too many lines.

    An error in a field `error` (llama.cpp until 2025), or without any, is an event `error`.
    """
    if block.startswith(b"data: ") and b"\n" not in block:
        return b"", block[6:]
    name = b""
    data: list[bytes] = []
    lines = block.split(b"\n", MAX_LINES)
    if len(lines) > MAX_LINES:
        return b"", b""
    for line in lines:
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value
        elif key == b"error" or (key == _BARE_ERROR and block.startswith(_BARE_ERROR)):
            return b"error", block if key == _BARE_ERROR else value
    return name, data[0] if len(data) == 1 else b"\n".join(data)


def is_sign_of_life(data: bytes) -> bool:
    """Whether this is nothing but whole comments and empty lines."""
    return data[:1] in b":\r\n" and _ONLY_COMMENTS.fullmatch(data) is not None


def prefill_in(comments: bytes) -> tuple[int, int] | None:
    """Return how many tokens of the prompt the server has read, and of how many, where its last comment says so."""
    found = _PREFILL.findall(comments)
    read, total = map(int, found[-1]) if found else (0, 0)
    return (read, total) if read <= total and total else None


class LineSplitter(Struct):
    """Splitter of newline-delimited JSON into lines."""

    slice_bytes: int = 16 * 1024

    separator: bytes = b"\n"
    ends: tuple[bytes, ...] = (b"\n",)
    _buffer: _Buffer = field(default_factory=partial(_Buffer, b"\n"))

    @property
    def is_between(self) -> bool:
        return self._buffer.is_empty

    def feed(self, data: bytes) -> list[bytes]:
        return [line for record in self._buffer.feed(data) if (line := record.strip())]

    def end(self) -> list[bytes]:
        line = self._buffer.end().strip()
        return [line] if line else []


class ArraySplitter(Struct):
    """Splitter of a JSON array into its objects; a bare object counts as an array of one."""

    slice_bytes: int = 4 * 1024

    separator: bytes = b","
    ends: tuple[bytes, ...] = ()
    _object: bytearray = field(default_factory=bytearray)
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False
    _dropping: bool = False
    _arrays: int = 0
    """Arrays around what comes that aren't within an object."""
    _objects: int = 0
    _first: bytes = b""
    """The first byte that isn't white space."""
    is_between: bool = False
    """Never: a comma doesn't end an object."""

    @property
    def is_document(self) -> bool:
        """Whether what came so far is one document, as far as objects, arrays and strings tell."""
        if self._depth or self._arrays or self._in_string or not self._first:
            return False
        return self._first != b"{" or self._objects == 1

    def feed(self, data: bytes) -> list[bytes]:
        if not self._first:
            self._first = data.lstrip(_SPACE)[:1]
        records: list[bytes] = []
        start = 0
        at = 1 if self._escaped and data else 0
        self._escaped = self._escaped and not data
        while found := (_IN_STRING if self._in_string else _OUTSIDE if self._depth else _BETWEEN).search(data, at):
            at = found.end()
            token = data[at - 1]
            if token == 0x22:
                self._in_string = not self._in_string
            elif token == 0x5C:
                self._escaped = at == len(data)
                at += 1
            elif token == 0x7B:
                if self._depth == 0:
                    start = at - 1
                self._depth += 1
            elif token == 0x5B:
                self._arrays += 1
            elif token == 0x5D:
                self._arrays -= 1
            elif self._depth:
                self._depth -= 1
                if self._depth == 0:
                    self._objects += 1
                    self._keep(data[start:at])
                    records.extend(self._take())
        if self._depth:
            self._keep(data[start:])
        return records

    def _keep(self, part: bytes) -> None:
        if self._dropping:
            return
        self._object += part
        if len(self._object) > MAX_RECORD:
            self._dropping = True
            self._object.clear()

    def _take(self) -> list[bytes]:
        records = [] if self._dropping else [bytes(self._object)]
        self._object = bytearray()
        self._dropping = False
        return records

    def end(self) -> list[bytes]:
        return []
