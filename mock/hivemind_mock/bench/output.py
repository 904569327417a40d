"""What benchmarks write: tables, the file that `--json` names, and a line of progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hivemind.errors import UsageError


class JsonOutput:
    """Where `--json FILE` writes to: a file, standard output for `-`, or (None) nowhere."""

    def __init__(self, text: str | None) -> None:
        """Create the file now rather than after minutes of work. Raises: UsageError: it can't be written."""
        self.replaces_tables = text == "-"
        """The JSON goes to standard output, in place of the tables."""
        self._path = None if text is None or self.replaces_tables else Path(text)
        if self._path is not None:
            try:
                self._path.touch()
            except OSError as error:
                raise UsageError(f"--json: can't write {text}: {error.strerror}") from None

    def write(self, data: bytes) -> None:
        """Write the data to where `--json` says."""
        if self._path is not None:
            self._path.write_bytes(data)
        elif self.replaces_tables:
            sys.stdout.write(data.decode())


def show_progress(text: str) -> None:
    """Replace the line of progress on a terminal; an empty text removes it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def format_table(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return columns as wide as their widest cell; the first `left` are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
