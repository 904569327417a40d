"""What the long-running commands share: the file that `--json` names, and one line that says how far they are."""

from __future__ import annotations

import sys
from pathlib import Path

from hivemind.errors import UsageError


class JsonTarget:
    """Where `--json FILE` writes to: a file, standard output for `-`, or (None) nowhere."""

    def __init__(self, text: str | None) -> None:
        """The file is tried now rather than after minutes of work.

        Raises: UsageError: it can't be written.
        """
        self.takes_output = text == "-"
        """The JSON goes to standard output, in place of the tables."""
        self._path = None if text is None or self.takes_output else Path(text)
        if self._path is not None:
            try:
                self._path.touch()
            except OSError as error:
                raise UsageError(f"--json: can't write {text}: {error.strerror}") from None

    def write(self, data: bytes) -> None:
        """Write it, where it is wanted."""
        if self._path is not None:
            self._path.write_bytes(data)
        elif self.takes_output:
            sys.stdout.write(data.decode())


def tell_progress(text: str) -> None:
    """Replace the line of progress on a terminal; an empty text takes it away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
