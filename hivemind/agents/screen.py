"""A terminal's last lines kept up to date, with what happened scrolling by above them; or plain lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TextIO

from hivemind.agents.progress import BatchProgress, Ink, clean, live
from hivemind.console import Console

_MOST_LINES = 16
"""In place; what happened is to be seen too."""


class Screen:
    """Lines on a stream. Written by a thread of its own, so that a terminal that stands still holds nobody up.

    Has `write` and `flush`, so that log lines can go through it and don't tear what is shown.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str], size: Callable[[], tuple[int, int]]) -> None:
        terminal = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        self.live = terminal
        self.ink = Ink(terminal and not environ.get("NO_COLOR"))
        self._size = size
        self._stream = stream
        self._closed = False
        self._console = Console(stream)
        self._shown: list[str] = []

    def say(self, text: str, tone: str = "") -> None:
        """A line that stays; that something starts (`start`) is seen anyway where there is more than lines."""
        if self._closed:
            print(clean(text), file=self._stream, flush=True)
        elif tone != "start" or not self.live:
            self._put([self.ink(clean(text), tone)], self._shown)

    def show(self, standing: BatchProgress | None) -> None:
        """What is to be seen now, in place of what was; nothing where that can't be done, or (None) any more."""
        if standing is None:
            self._put([], [])
        elif self.live:
            width, height = self._size()
            self._put([], live(standing, max(20, width - 1), max(3, min(_MOST_LINES, height - 2)), self.ink))

    def close(self) -> None:
        """Take away what was only for the moment, and see that all is written."""
        self._put([], [])
        self._console.close()
        self._closed = True

    def write(self, text: str) -> int:
        """Whole lines of somebody else's."""
        self._put(text.splitlines(), self._shown)
        return len(text)

    def flush(self) -> None:
        """The thread does that."""

    def _put(self, stay: list[str], shown: list[str]) -> None:
        if not stay and shown == self._shown:
            return
        # Back to where the old lines begin, and everything from there on is cleared.
        back = f"\x1b[{len(self._shown)}F\x1b[J" if self._shown else ""
        self._shown = shown
        self._console.write(back + "".join(f"{line}\n" for line in [*stay, *shown]))


def size_of(stream: TextIO) -> Callable[[], tuple[int, int]]:
    """What tells how wide and how high a terminal is, each time anew."""

    def size() -> tuple[int, int]:
        try:
            found = os.get_terminal_size(stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        return found.columns or 80, found.lines or 24

    return size
