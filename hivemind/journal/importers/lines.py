"""Files that other programs wrote, packed ones too, and their lines."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec

from hivemind.errors import UsageError
from hivemind.journal.codec import BOM
from hivemind.journal.importers.told import Tale
from hivemind.journal.read.reader import opened
from hivemind.packing import zstd

T = TypeVar("T")
LONGEST = 64 << 20
"""Bytes of a line that is read: a request with pictures has a few MB."""
_HALF = b"\\ud"
_BLANK = b"\0 \t\r\n"
"""What a line may begin with: where power failed, a file has zeros."""
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError)


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A file to read, unpacked if gzip or zstd packed it; Codex does so with old rollouts, where that is enabled.

    Raises: UsageError: it can't be read, or not to its end.
    """
    with opened(path) as file:
        magic = file.read(4)
        file.seek(0)
        try:
            if magic[:2] == b"\x1f\x8b":
                yield cast("IO[bytes]", gzip.GzipFile(fileobj=file))
            elif magic == b"\x28\xb5\x2f\xfd":
                yield io.BufferedReader(zstd.ZstdFile(file))
            else:
                yield file
        except _DAMAGED:
            raise UsageError(f"{path}: can't be unpacked to its end") from None


def beginning(path: Path, length: int) -> bytes:
    """Read so many bytes, or as many as there are. Raises: UsageError: the file can't be read."""
    found = b""
    with unpacked(path) as file:
        try:
            while len(found) < length and (more := cast("io.BufferedIOBase", file).read1(length - len(found))):
                found += more
        except _DAMAGED:
            if not found:
                raise
    return found


def decoded(text: bytes, decoder: msgspec.json.Decoder[T], tale: Tale) -> T | None:
    """What a line holds; None: nothing that can be read, which is counted."""
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        if _HALF in text.lower():  # of a pair of surrogates: programs in JavaScript cut texts anywhere
            found: T = msgspec.convert(json.loads(text), decoder.type)
            return found
    except (ValueError, RecursionError):
        pass
    tale.skip("lines that aren't whole, or not of its form")
    return None


def lines(path: Path, tale: Tale) -> Iterator[bytes]:
    """Every line but empty and too long ones. Raises: UsageError: the file can't be read."""
    with unpacked(path) as file:
        try:
            yield from _lines(file, tale)
        except _DAMAGED:
            tale.skip("the rest of a file that can't be unpacked to its end")


def _lines(file: IO[bytes], tale: Tale) -> Iterator[bytes]:
    first = True
    while text := file.readline(LONGEST):
        if len(text) == LONGEST and not text.endswith(b"\n"):
            tale.skip(f"a line of more than {LONGEST >> 20} MiB")
            while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            continue
        text = (text.removeprefix(BOM) if first else text).strip(_BLANK)
        first = False
        if text:
            yield text
