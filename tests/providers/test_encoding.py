"""Content encodings: exact whatever the cuts, silent on garbage, bounded on bombs."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
import zstandard

from hivemind.providers.encoding import Decoder, decode_body, decoder_for, header

TEXT = b"the quick brown fox jumps over the lazy dog " * 40


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODED = {
    "gzip": gzip.compress(TEXT, mtime=0),
    "x-gzip": gzip.compress(TEXT, mtime=0),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT, mtime=0)),
    "deflate, identity, zstd": zstandard.compress(zlib.compress(TEXT)),
}


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("encoding", ENCODED)
def test_decodes_whatever_the_cuts(encoding: str, step: int) -> None:
    """Every coding, and chains in the order in which they were applied, come out whole from pieces of any size."""
    decoder = decoder_for([(b"content-encoding", encoding.encode())])
    assert decoder is not None
    data = ENCODED[encoding]
    assert b"".join(decoder.feed(data[at : at + step]) for at in range(0, len(data), step)) == TEXT
    assert not decoder.failed


@pytest.mark.parametrize("step", [1, 10_000])
def test_deflate_without_its_header(step: int) -> None:
    """Servers that send raw deflate under that name are understood."""
    decoder, data = Decoder(["deflate"]), raw_deflate(TEXT)
    assert b"".join(decoder.feed(data[at : at + step]) for at in range(0, len(data), step)) == TEXT


def test_gzip_of_several_members() -> None:
    """Members follow one another without a seam, and padding after the last is no failure."""
    decoder = Decoder(["gzip"])
    data = gzip.compress(b"one ", mtime=0) + gzip.compress(b"two", mtime=0) + b"\0\0\0\0"
    assert decoder.feed(data) == b"one two"
    assert not decoder.failed


def test_zstd_of_several_frames() -> None:
    """Frames follow one another without a seam."""
    assert Decoder(["zstd"]).feed(zstandard.compress(b"one ") + zstandard.compress(b"two")) == b"one two"


@pytest.mark.parametrize("value", [b"", b"identity", b" , identity"])
def test_identity_needs_no_decoder(value: bytes) -> None:
    """Bytes that come as they are cost nothing."""
    assert decoder_for([(b"content-encoding", value)]) is None


def test_unknown_coding_fails() -> None:
    """A coding that isn't known, or a chain without end, is left unread."""
    assert Decoder(["compress"]).failed
    assert Decoder(["gzip"] * 9).failed
    assert decode_body([(b"content-encoding", b"compress")], b"data") == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_bounded(coding: str) -> None:
    """Output beyond the limit fails the decoder for good instead of filling the memory."""
    zeros = bytes(1_000_000)
    packed = {
        "gzip": gzip.compress(zeros),
        "deflate": zlib.compress(zeros),
        "br": brotli.compress(zeros),
        "zstd": zstandard.compress(zeros),
    }[coding]
    decoder = Decoder([coding], limit=999_999)
    assert decoder.feed(packed) == b""
    assert decoder.failed
    assert decoder.feed(packed) == b""
    assert Decoder([coding], limit=1_000_000).feed(packed) == zeros


def test_the_limit_counts_the_whole_body() -> None:
    """A body can't stay under the limit by coming in pieces."""
    decoder = Decoder(["gzip"], limit=15)
    member = gzip.compress(b"0123456789", mtime=0)
    assert decoder.feed(member) == b"0123456789"
    assert decoder.feed(member) == b""
    assert decoder.failed


def test_a_huge_zstd_window_is_refused() -> None:
    """A frame that asks for more window than HTTP allows (RFC 9659) isn't given it."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = packer.compress(TEXT) + packer.flush()
    decoder = Decoder(["zstd"])
    assert decoder.feed(frame) == b""
    assert decoder.failed


def test_header_joins_repeated_lines() -> None:
    """Repeated header lines are one list (RFC 9110, section 5.3)."""
    headers = [(b"content-encoding", b"gzip"), (b"x", b"y"), (b"content-encoding", b"br")]
    assert header(headers, b"content-encoding") == "gzip,br"
    assert decode_body(headers, brotli.compress(gzip.compress(TEXT))) == TEXT
