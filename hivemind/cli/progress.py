"""The progress of long work on standard error: a live line on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from hivemind.console import print_note
from hivemind.text.table import width

CLEAR_LINE = "\r\x1b[K"
"""One of the sequences that :mod:`hivemind.console` lets through."""
FIRST_S, EVERY_S = 5.0, 15.0
"""Without a terminal, nothing is said of what takes no longer than this; then a line is written this often."""


class Progress:
    """Says what is being done, as a context."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live = sys.stderr.isatty()
        self._next = clock() + FIRST_S

    def tell(self, text: str) -> None:
        """Show this, where it is time to."""
        if self._live:
            print(f"{CLEAR_LINE}{text[: (width() or 80) - 1]}", end="", file=sys.stderr, flush=True)
        elif self._clock() >= self._next:
            self._next = self._clock() + EVERY_S
            print_note(text)

    def reading(self, done: int, of: int) -> None:
        """Say how many files are read."""
        self.tell(f"reading, {done:,} of {of:,} files...")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
