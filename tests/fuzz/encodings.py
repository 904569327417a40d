"""Content encodings: cut anywhere they decode to the same, to no more than allowed, and to what the libraries say."""

from __future__ import annotations

import gzip
import zlib

import brotli
import zstandard
from fuzz.kit import choices, pieces, require, target

from hivemind.providers.encoding import PIECE, decoder_for

_NAMES = (b"gzip", b"deflate", b"br", b"zstd", b"gzip, br", b"zstd, gzip", b"identity, GZIP", b"x-gzip, deflate, zstd")
_LIMIT = 256 * 1024
_SLACK = 2 * PIECE


def _decoded(encoding: bytes, parts: list[bytes]) -> tuple[bytes, str]:
    decoder = decoder_for([(b"content-encoding", encoding)], _LIMIT)
    require(decoder is not None, "no decoder", encoding)
    found = b""
    for part in parts:
        if decoder is not None:
            # As a tap does: the first step at once, the others one by one.
            found += decoder.first(part)
            if decoder.more and not decoder.failed:
                found += b"".join(decoder.steps(b""))
    return found, decoder.failed if decoder is not None else ""


def _plain(encoding: bytes, data: bytes) -> bytes | None:
    """Return what the libraries decode it to; None where they don't, or would decode it to too much."""
    try:
        if encoding == b"gzip":
            return gzip.decompress(data)
        if encoding == b"br":
            return bytes(brotli.decompress(data))
        if encoding == b"zstd":
            return zstandard.ZstdDecompressor().decompress(data, _LIMIT)
    except (OSError, EOFError, zlib.error, brotli.error, zstandard.ZstdError, MemoryError):
        pass
    return None


@target("encodings", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x78\x9c", b"\x00\x00\xff\xff", b"\x03\x00", b"\x01\x00"])
def encodings(data: bytes) -> None:
    which, body = choices(data, 2)
    encoding = _NAMES[which[0] % len(_NAMES)]
    whole, failed = _decoded(encoding, [body])
    cut, cut_failed = _decoded(encoding, pieces(body, which[1] or 1))
    require(len(whole) <= _LIMIT + _SLACK, "too much", len(whole))
    require(len(cut) <= _LIMIT + _SLACK, "too much", len(cut))
    if not failed:
        # Of a gzip member with damage behind a sound one, pieces give more than the whole.
        require(not cut_failed and cut.startswith(whole), "cuts change the result", encoding, cut_failed)
        expected = _plain(encoding, body) if len(whole) < _LIMIT else None
        if expected is not None and len(expected) < _LIMIT:
            # Of several frames, the library reads the first. Python's gzip skips zeros between members, as on tapes;
            # clients of HTTP end there.
            same = whole.startswith(expected) if encoding == b"zstd" else whole == expected
            same = same or (b"\0\x1f\x8b" in body and expected.startswith(whole))
            require(same, "not what the library decodes", encoding, whole[:50], expected[:50])
