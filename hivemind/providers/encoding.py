"""Content encodings, decoded in a copy beside the traffic: identity, gzip, deflate, br, zstd and chains of them.

Nothing here raises on bad input, and what comes out is bounded, so that a few hostile bytes can't fill the memory.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import brotli
import zstandard

from .base import Headers

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

MAX_DECODED = 64 * 1024 * 1024
"""Bytes a decoder gives in all; a body that unpacks to more is left unread."""
MAX_ENCODINGS = 4
"""Longest chain that is taken seriously."""
_PIECE = 64 * 1024
_ZSTD_WINDOW = 8 * 1024 * 1024
"""RFC 9659: the most that a zstd content coding may ask of its decoder."""


class _TooMuch(Exception):
    """The output passed its bound."""


class _Unpacker(Protocol):
    """One coding. Raises its library's own error on bad input and :class:`_TooMuch` beyond the bound."""

    def feed(self, data: bytes, limit: int) -> bytes:
        """Decode the next bytes into at most `limit`."""


class _Zlib:
    """gzip (RFC 1952) of one or more members, or deflate with its zlib header (RFC 1950) or, as often sent, without."""

    __slots__ = ("_gzip", "_head", "_inflate", "_members")

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(31) if gzip else None
        self._head = b""
        self._members = 0

    def feed(self, data: bytes, limit: int) -> bytes:
        out: list[bytes] = []
        while data:
            inflate = self._inflate or self._begin(data)
            if inflate is None:
                break
            if self._head:
                data, self._head = self._head, b""
            try:
                piece = inflate.decompress(data, limit + 1)
            except zlib.error:
                if self._members:
                    break  # padding after the last member
                raise
            limit -= len(piece)
            if limit < 0:
                raise _TooMuch
            out.append(piece)
            data = inflate.unconsumed_tail if not inflate.eof else self._next_member(inflate)
        return b"".join(out)

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
            return b""
        self._members += 1
        self._inflate = zlib.decompressobj(31)
        return inflate.unused_data


class _Brotli:
    __slots__ = ("_decompressor",)

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def feed(self, data: bytes, limit: int) -> bytes:
        out: list[bytes] = []
        while not self._decompressor.is_finished():
            piece: bytes = self._decompressor.process(data, output_buffer_limit=_PIECE)
            limit -= len(piece)
            if limit < 0:
                raise _TooMuch
            # It may say that it can take more while it still holds output back; only silence means that it's empty.
            if not piece and self._decompressor.can_accept_more_data():
                break
            out.append(piece)
            data = b""
        return b"".join(out)


class _Sink(io.BytesIO):
    """Takes at most `limit` bytes between two calls of :meth:`take`."""

    limit = 0

    def write(self, data: Buffer, /) -> int:
        written = super().write(data)
        if self.tell() > self.limit:
            raise _TooMuch
        return written

    def take(self) -> bytes:
        data = self.getvalue()
        self.seek(0)
        self.truncate()
        return data


class _Zstd:
    """zstd through the writing interface, the one of its library that hands output on in pieces that can be refused."""

    __slots__ = ("_sink", "_writer")

    def __init__(self) -> None:
        self._sink = _Sink()
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._writer = decompressor.stream_writer(self._sink, write_size=_PIECE, closefd=False)

    def feed(self, data: bytes, limit: int) -> bytes:
        self._sink.limit = limit
        self._writer.write(data)
        return self._sink.take()


_UNPACKERS: dict[str, Callable[[], _Unpacker]] = {
    "gzip": lambda: _Zlib(gzip=True),
    "x-gzip": lambda: _Zlib(gzip=True),
    "deflate": lambda: _Zlib(gzip=False),
    "br": _Brotli,
    "zstd": _Zstd,
}


class Decoder:
    """Decodes a body as it comes. `failed` is set, for good, when the bytes can't be read or unpack to too much."""

    __slots__ = ("_chain", "_left", "failed")

    def __init__(self, encodings: list[str], limit: int = MAX_DECODED) -> None:
        known = len(encodings) <= MAX_ENCODINGS and all(name in _UNPACKERS for name in encodings)
        self.failed = not known
        self._chain = [_UNPACKERS[name]() for name in reversed(encodings)] if known else []
        self._left = limit

    def feed(self, data: bytes) -> bytes:
        """The plain bytes that the next encoded ones give; empty after a failure."""
        if self.failed:
            return b""
        try:
            for unpacker in self._chain:
                data = unpacker.feed(data, self._left)
        except (_TooMuch, zlib.error, brotli.error, zstandard.ZstdError):
            self.failed = True
            return b""
        self._left -= len(data)
        return data


def header(headers: Headers, name: bytes) -> str:
    """A header's value, several joined by commas; empty where absent."""
    return ",".join([value.decode("latin-1") for key, value in headers if key == name]).strip()


def decoder_for(headers: Headers, limit: int = MAX_DECODED) -> Decoder | None:
    """A decoder for a body with these headers, or None where it comes as it is."""
    stated = header(headers, b"content-encoding")
    if not stated:
        return None
    names = [name for item in stated.lower().split(",") if (name := item.strip()) not in ("", "identity")]
    return Decoder(names, limit) if names else None


def decode_body(headers: Headers, body: bytes, limit: int = MAX_DECODED) -> bytes:
    """A whole body without its content encoding; empty where it can't be read."""
    decoder = decoder_for(headers, limit)
    return body if decoder is None else decoder.feed(body)
