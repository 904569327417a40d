"""Lines of files that other programs wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hivemind.journal.codec import BOM
from hivemind.journal.importers.told import Tale
from hivemind.journal.read.reader import opened

LONGEST = 64 << 20
"""Bytes of a line that is read: a request with pictures has a few MB."""


def lines(path: Path, tale: Tale) -> Iterator[bytes]:
    """Every line but empty and too long ones. Raises: UsageError: the file can't be read."""
    with opened(path) as file:
        first = True
        while text := file.readline(LONGEST):
            if len(text) == LONGEST and not text.endswith(b"\n"):
                tale.skip(f"a line of more than {LONGEST >> 20} MiB")
                while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                    pass
                continue
            text = text.removeprefix(BOM) if first else text
            first = False
            if text.strip():
                yield text
