"""Content encodings: answers compressed piece by piece, request bodies decoded."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@dataclass(frozen=True, slots=True)
class Encoder:
    """Compresses one body; every piece can be decoded as soon as it has arrived."""

    name: bytes
    piece: Callable[[bytes], bytes]
    end: Callable[[], bytes]


def encoder(name: str, accepted: bytes) -> Encoder | None:
    """An encoder for the content encoding, None for identity or where the client's `accept-encoding` lacks it."""
    offers = {offer.split(b";")[0].strip() for offer in accepted.lower().split(b",")}
    return _ENCODERS[name]() if name in _ENCODERS and name.encode() in offers else None


def decode(body: bytes, encoding: bytes) -> bytes:
    """A request body without its content encoding. Raises ValueError for what can't be decoded."""
    try:
        if encoding in (b"gzip", b"deflate"):
            return zlib.decompress(body, zlib.MAX_WBITS | 32)
        if encoding == b"br":
            return bytes(brotli.decompress(body))
        if encoding == b"zstd":
            return zstd.decompress(body)
    except (zlib.error, brotli.error, zstd.ZstdError) as error:
        raise ValueError(f"request body is not valid {encoding.decode()}") from error
    if encoding in (b"", b"identity"):
        return body
    raise ValueError("unsupported content-encoding")


def _gzip() -> Encoder:
    stream = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return Encoder(
        b"gzip", lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH), lambda: stream.flush()
    )


def _brotli() -> Encoder:
    stream = brotli.Compressor(quality=4)
    return Encoder(b"br", lambda data: stream.process(data) + stream.flush(), lambda: stream.finish())


def _zstd() -> Encoder:
    stream = zstd.ZstdCompressor()
    return Encoder(
        b"zstd",
        lambda data: stream.compress(data, stream.FLUSH_BLOCK),
        lambda: stream.flush(),
    )


_ENCODERS = {"gzip": _gzip, "br": _brotli, "zstd": _zstd}
