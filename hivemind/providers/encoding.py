"""Content encodings, decoded in a copy beside the traffic: identity, gzip, deflate, br, zstd and chains of them.

Nothing here raises on bad input. What comes out is bounded, so that a few hostile bytes can't fill the memory, and
comes in small steps, so that whoever decodes on the event loop can give way between them.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import brotli

from .base import Headers

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd  # zstandard, which httpx wants, can't be told to stop after so many bytes

MAX_DECODED = 64 * 1024 * 1024
"""Bytes a decoder gives in all, those between the codings of a chain included; what unpacks to more is left unread."""
MAX_ENCODINGS = 4
"""Longest chain that is taken seriously."""
PIECE = 64 * 1024
"""Bytes of one step's output; brotli may give half as much again."""
_SLICE = 16 * 1024
"""Bytes of input that a coding takes at a time."""
_STEP_BYTES = 4096
"""A decoder may take a step for so many bytes of its limit: empty members cost time and give nothing."""
_FREE_STEPS = 64
"""And for so many more, so that short limits hold too."""
_LONGEST_HEADER = 256
"""Characters of a Content-Encoding header that are read."""
_ZSTD_WINDOW_LOG = 23
"""RFC 9659: a zstd content coding may ask its decoder for a window of 8 MiB at most."""
_BROKEN = (zlib.error, brotli.error, zstd.ZstdError, EOFError)


class _TooMuch(Exception):
    """The output passed its bound."""


class _Unpacker(Protocol):
    """One coding."""

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Decode the next bytes, a little at each step; a step may give nothing. Raises its library's own error."""


class _Zlib:
    """gzip (RFC 1952) of one or more members, or deflate with its zlib header (RFC 1950) or, as often sent, without."""

    __slots__ = ("_gzip", "_head", "_inflate", "_members", "_over")

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(31) if gzip else None
        self._head = b""
        self._members = 0
        self._over = False

    def steps(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            yield from self._unpack(part)

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        more = not self._over
        while more:
            inflate = self._inflate or self._begin(data)
            if inflate is None:
                return
            if self._head:
                data, self._head = self._head, b""
            try:
                piece = inflate.decompress(data, PIECE)
            except zlib.error:
                if not self._members:
                    raise
                self._over = True  # padding after the last member
                return
            yield piece
            if inflate.eof:
                data = self._next_member(inflate)
                more = bool(data)
            else:
                data = inflate.unconsumed_tail
                more = bool(data) or len(piece) == PIECE  # it may hold output back that no further input is for

    def _begin(self, data: bytes) -> zlib._Decompress | None:
        """Tell zlib from raw deflate by the two header bytes, as soon as both are there."""
        self._head += data
        if len(self._head) < 2:
            return None
        first, second = self._head[0], self._head[1]
        wrapped = first & 0x0F == 8 and (first * 256 + second) % 31 == 0
        self._inflate = zlib.decompressobj(15 if wrapped else -15)
        return self._inflate

    def _next_member(self, inflate: zlib._Decompress) -> bytes:
        if not self._gzip:
            self._over = True
            return b""
        self._members += 1
        self._inflate = zlib.decompressobj(31)
        return inflate.unused_data


class _Brotli:
    __slots__ = ("_decompressor",)

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def steps(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            while not self._decompressor.is_finished():
                piece: bytes = self._decompressor.process(part, output_buffer_limit=PIECE)
                yield piece
                # It may say that it can take more while it still holds output back; only silence means that it's empty.
                if not piece and self._decompressor.can_accept_more_data():
                    break
                part = b""


class _Zstd:
    """zstd (RFC 8878) of one or more frames."""

    __slots__ = ("_frame",)

    def __init__(self) -> None:
        self._frame: zstd.ZstdDecompressor | None = None

    def steps(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            more = bool(part)
            while more:
                frame = self._frame = self._frame or zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
                yield frame.decompress(part, max_length=PIECE)
                if frame.eof:
                    part, self._frame = frame.unused_data, None
                    more = bool(part)
                else:
                    part = b""
                    more = not frame.needs_input


_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW_LOG}


def _slices(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _SLICE] for at in range(0, len(data), _SLICE))


_UNPACKERS: dict[str, Callable[[], _Unpacker]] = {
    "gzip": lambda: _Zlib(gzip=True),
    "x-gzip": lambda: _Zlib(gzip=True),
    "deflate": lambda: _Zlib(gzip=False),
    "br": _Brotli,
    "zstd": _Zstd,
}


class Decoder:
    """Decodes a body as it comes. `failed` says, for good, why the bytes can't be read; empty while they can."""

    __slots__ = ("_chain", "_left", "_limit", "_steps_left", "failed")

    def __init__(self, encodings: list[str], limit: int = MAX_DECODED) -> None:
        known = len(encodings) <= MAX_ENCODINGS and all(name in _UNPACKERS for name in encodings)
        self.failed = "" if known else "the content encoding isn't one of gzip, deflate, br and zstd"
        self._chain = [_UNPACKERS[name]() for name in reversed(encodings)] if known else []
        self._limit = self._left = limit
        self._steps_left = limit // _STEP_BYTES + _FREE_STEPS

    def feed(self, data: bytes) -> bytes:
        """The plain bytes that the next encoded ones give; empty after a failure."""
        plain = b"".join(self.steps(data))
        return b"" if self.failed else plain

    def steps(self, data: bytes) -> Iterator[bytes]:
        """The same in pieces of about :data:`PIECE` bytes, some of them empty: each takes little time, so give way
        between them. What came before a failure was good."""
        if self.failed:
            return
        self._steps_left += len(self._chain)  # as many as it takes, in a stream of small events that each is flushed
        try:
            yield from self._through(0, data)
        except _TooMuch:
            self.failed = f"the body unpacks to more than {self._limit / (1 << 20):g} MiB"
        except _BROKEN:
            self.failed = "the content encoding is broken"

    def _through(self, stage: int, data: bytes) -> Iterator[bytes]:
        last = stage == len(self._chain) - 1
        for piece in self._chain[stage].steps(data):
            self._left -= len(piece)
            self._steps_left -= 1
            if self._left < 0 or self._steps_left < 0:
                raise _TooMuch
            if last or not piece:
                yield piece
            else:
                yield from self._through(stage + 1, piece)


def header(headers: Headers, name: bytes) -> str:
    """A header's value, several joined by commas; empty where absent."""
    return ",".join([value.decode("latin-1") for key, value in headers if key == name]).strip()


def decoder_for(headers: Headers, limit: int = MAX_DECODED) -> Decoder | None:
    """A decoder for a body with these headers, or None where it comes as it is."""
    stated = header(headers, b"content-encoding")
    if not stated:
        return None
    if len(stated) > _LONGEST_HEADER:
        return Decoder([stated])
    names = [name for item in stated.lower().split(",") if (name := item.strip()) not in ("", "identity")]
    return Decoder(names, limit) if names else None


def decode_body(headers: Headers, body: bytes, limit: int = MAX_DECODED) -> bytes:
    """A whole body without its content encoding; empty where it can't be read."""
    decoder = decoder_for(headers, limit)
    return body if decoder is None else decoder.feed(body)
