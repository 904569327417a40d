"""Zstandard, which Python has since 3.14."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["decompressed", "zstd"]


def decompressed(data: bytes, most: int) -> bytes:
    """Return what was compressed by Zstandard. Raises: ValueError: it wasn't, isn't whole or is longer than `most`."""
    decoder = zstd.ZstdDecompressor()
    try:
        plain = decoder.decompress(data, most)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from None
    if not decoder.eof:
        raise ValueError(f"longer than {most} bytes, or not whole")
    return plain
