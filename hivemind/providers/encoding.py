"""Content encodings, decoded in a copy beside the traffic: identity, gzip, deflate, br, zstd and chains of them.

Nothing here raises on bad input. Output is bounded, so that a few hostile bytes can't exhaust memory, and produced
in small steps, so that an event loop can run other work between them.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import brotli
from msgspec import Struct, field

from hivemind.providers.base import Headers

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd  # the zstandard package can't limit its output

MAX_DECODED = 64 * 1024 * 1024
"""Total output of a decoder in bytes, intermediate codings of a chain included; the rest is left unread."""
MAX_ENCODINGS = 4
"""Longest chain of codings that is decoded."""
PIECE = 64 * 1024
"""Output of one step in bytes; brotli may exceed it by half."""
_SLICE = 16 * 1024
"""Input of a coding per call, in bytes."""
_STEP_BYTES = 4096
"""Output bytes per allowed step: empty members cost time and produce nothing."""
_FREE_STEPS = 64
"""Steps that are always allowed, for small limits."""
_LONGEST_HEADER = 256
"""Characters of a Content-Encoding header that are read."""
_ZSTD_WINDOW_LOG = 23
"""RFC 9659: a zstd content coding may require a window of at most 8 MiB."""
_IS_BROKEN = "the content encoding is broken"
_BROKEN = (zlib.error, brotli.error, zstd.ZstdError, EOFError)


class _TooMuch(Exception):
    """The output exceeded its bound."""


class _Unpacker(Protocol):
    """Decoder of one coding."""

    more: bool
    """It has pending output, which must be taken before more input is given."""

    def step(self, data: bytes) -> bytes:
        """Return the output of one step, which may be empty. Raises the library's own error."""


class _Zlib(Struct):
    """gzip (RFC 1952) of one or more members, or deflate with its zlib header (RFC 1950) or, as often sent, without."""

    _gzip: bool
    _inflate: zlib._Decompress | None = None
    _rest: bytes = b""
    _members: int = 0
    _over: bool = False
    more: bool = False

    def step(self, data: bytes) -> bytes:
        if self._rest:
            data = self._rest + data
        self.more = False
        if self._over:
            return b""
        inflate = self._inflate = self._inflate or self._begin(data)
        if inflate is None:
            self._rest = data
            return b""
        try:
            piece = inflate.decompress(data, PIECE)
        except zlib.error:
            if not self._members:
                raise
            self._over = True  # padding after the last member
            return b""
        if inflate.eof:
            self._inflate = None
            self._members += 1
            self._over = not self._gzip
            self._rest = inflate.unused_data if self._gzip else b""
            self.more = bool(self._rest)
        else:
            self._rest = inflate.unconsumed_tail
            self.more = len(piece) == PIECE or bool(self._rest)  # a full output may not be all of it
        return piece

    def _begin(self, data: bytes) -> zlib._Decompress | None:
        """Distinguish zlib from raw deflate by the two header bytes, once both have arrived."""
        if self._gzip:
            return zlib.decompressobj(31)
        if len(data) < 2:
            return None
        wrapped = data[0] & 0x0F == 8 and (data[0] * 256 + data[1]) % 31 == 0
        return zlib.decompressobj(15 if wrapped else -15)


class _Brotli(Struct):
    _decompressor: brotli.Decompressor = field(default_factory=brotli.Decompressor)
    more: bool = False

    def step(self, data: bytes) -> bytes:
        if self._decompressor.is_finished():
            self.more = False
            return b""
        piece: bytes = self._decompressor.process(data, output_buffer_limit=PIECE)
        # It may accept input while it still has output; only an empty result means that it is drained.
        self.more = bool(piece) or not self._decompressor.can_accept_more_data()
        return piece


class _Zstd(Struct):
    """zstd (RFC 8878) of one or more frames."""

    _frame: zstd.ZstdDecompressor | None = None
    _rest: bytes = b""
    more: bool = False

    def step(self, data: bytes) -> bytes:
        frame = self._frame = self._frame or zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        piece = frame.decompress(self._rest or data, max_length=PIECE)
        if frame.eof:
            self._frame, self._rest = None, frame.unused_data
            self.more = bool(self._rest)
        else:
            self._rest = b""
            self.more = not frame.needs_input
        return piece


_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW_LOG}


_UNPACKERS: dict[str, Callable[[], _Unpacker]] = {
    "gzip": partial(_Zlib, True),
    "x-gzip": partial(_Zlib, True),
    "deflate": partial(_Zlib, False),
    "br": _Brotli,
    "zstd": _Zstd,
}


class Decoder:
    """Incremental decoder of a body. `failed` says why the rest can't be read; empty while it can."""

    __slots__ = ("_chain", "_left", "_limit", "_steps_left", "_waiting", "failed", "more")

    def __init__(self, encodings: list[str], limit: int = MAX_DECODED) -> None:
        known = len(encodings) <= MAX_ENCODINGS and all(name in _UNPACKERS for name in encodings)
        self.failed = "" if known else "the content encoding isn't one of gzip, deflate, br and zstd"
        self.more = False
        """Input of :meth:`first` is still undecoded; `steps(b"")` continues."""
        self._chain = [_UNPACKERS[name]() for name in reversed(encodings)] if known else []
        self._limit = self._left = limit
        self._steps_left = limit // _STEP_BYTES + _FREE_STEPS
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        """Return the decoded bytes of the next piece; empty after a failure."""
        plain = b"".join(self.steps(data))
        return b"" if self.failed else plain

    def first(self, data: bytes) -> bytes:
        """Return the first step's output for the next piece, which is all of it in a stream of small events."""
        if self.failed:
            return b""
        if len(self._chain) > 1 or len(data) > _SLICE:
            self._waiting, self.more = data, True
            return b""
        try:
            piece = self._chain[0].step(data)
        except _BROKEN:
            self.failed = _IS_BROKEN
            return b""
        self._left -= len(piece)
        self.more = self._chain[0].more or self._left < 0
        return piece

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces of about :data:`PIECE` bytes, some empty, each in little time. Output
        before a failure is valid."""
        if self.failed:
            return
        if self._waiting:
            data, self._waiting = self._waiting + data, b""
        self.more = False
        self._steps_left += len(self._chain)  # as many as needed, in a stream of small flushed events
        try:
            if self._left < 0:
                raise _TooMuch
            if self._chain[0].more:
                yield from self._through(0, b"")
            for at in range(0, len(data), _SLICE):
                yield from self._through(0, data[at : at + _SLICE])
        except _TooMuch:
            self.failed = f"the body unpacks to more than {self._limit / (1 << 20):g} MiB"
        except _BROKEN:
            self.failed = _IS_BROKEN

    def _through(self, stage: int, data: bytes) -> Iterator[bytes]:
        unpacker = self._chain[stage]
        last = stage == len(self._chain) - 1
        while True:
            piece = unpacker.step(data)
            self._left -= len(piece)
            self._steps_left -= 1
            if self._left < 0 or self._steps_left < 0:
                raise _TooMuch
            if last or not piece:
                yield piece
            else:
                yield from self._through(stage + 1, piece)
            if not unpacker.more:
                return
            data = b""


def header(headers: Headers, name: bytes) -> str:
    """Return a header's value, several joined by commas; empty if absent."""
    return ",".join([value.decode("latin-1") for key, value in headers if key == name]).strip()


def is_encoded(headers: Headers) -> bool:
    """Return whether these are the headers of an encoded body."""
    return b"content-encoding" in dict(headers)


def decoder_for(headers: Headers, limit: int = MAX_DECODED) -> Decoder | None:
    """Return a decoder for a body with these headers, or None if it isn't encoded."""
    stated = header(headers, b"content-encoding")
    if not stated:
        return None
    if len(stated) > _LONGEST_HEADER:
        return Decoder([stated])
    names = [name for item in stated.lower().split(",") if (name := item.strip()) not in ("", "identity")]
    return Decoder(names, limit) if names else None


def decode_body(headers: Headers, body: bytes, limit: int = MAX_DECODED) -> bytes:
    """Return a complete body, decoded; empty if it can't be read."""
    decoder = decoder_for(headers, limit)
    return body if decoder is None else decoder.feed(body)


def pack(body: bytes) -> bytes:
    """Return a body compressed, as it is kept. Takes milliseconds for a megabyte; other threads run meanwhile."""
    return zstd.compress(body)


def unpack(packed: bytes) -> bytes:
    """Return what :func:`pack` has compressed."""
    return zstd.decompress(packed)
