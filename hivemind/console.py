"""Plain lines instead of a screen, written so that a terminal or pipe that stops reading can't stop the traffic, and
that nothing in them is obeyed by a terminal but what we put there."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import sys
import textwrap
import threading
import unicodedata
from collections import deque
from collections.abc import Iterator
from typing import Any, TextIO, cast

_WAITING_LINES = 1000
_HELD_LINES = 200
_NARROWEST = 20
"""Columns of the narrowest terminal that lines are broken for."""
_OURS = re.compile(r"(\x1b\[[0-9;]*m|\r?\x1b\[K|\x1b\[\d+F\x1b\[J)")
"""What we tell a terminal ourselves: colours, a line that is written anew, several that are."""
_ENDS = re.compile(r"(\r?\n|\t)")


def printable(text: str, instead: str = "?") -> str:
    """A text from elsewhere on one line, without what a terminal would obey or show in another order."""
    if text.isprintable():
        return text
    return "".join(letter if _shows(letter) else instead for letter in text)


def _shows(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"  # blanks other than the one of ASCII


def print_note(text: str) -> None:
    """Print a line that isn't part of the output on standard error."""
    print(f"hivemind: {printable(text)}", file=sys.stderr, flush=True)


def show_progress(text: str) -> None:
    """Replace the line of progress on a terminal; an empty text removes it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def json_text(data: bytes) -> str:
    """JSON laid out for people, what isn't printable written as escapes, which mean the same."""
    import msgspec

    text = msgspec.json.format(data, indent=2).decode()
    if text.replace("\n", "").isprintable():
        return text
    return "".join(letter if letter == "\n" or _shows(letter) else _escaped(letter) for letter in text)


def print_json(value: object) -> int:
    """Print a value as JSON, a path as its text. Return the exit code 0, for commands that end so."""
    import msgspec  # on demand: most commands print no JSON

    print(json_text(msgspec.json.encode(value, enc_hook=str)))
    return 0


def _escaped(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


class Guarded:
    """A stream of text that lets no control character through: names, notes and errors come from agents, providers,
    recordings and proxies elsewhere, and a terminal obeys what it is given.

    Only line ends and tabs pass, and on a terminal what we tell it ourselves.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._own = _OURS if stream.isatty() else None

    def write(self, text: str) -> int:
        """Write it, `?` in place of each such character."""
        if not text.replace("\n", "").isprintable():
            text = self._cleaned(text)
        return self._stream.write(text)

    def _cleaned(self, text: str) -> str:
        parts = [text] if self._own is None else self._own.split(text)
        for place in range(0, len(parts), 2):  # between them stands what is ours
            pieces = _ENDS.split(parts[place])
            pieces[::2] = map(printable, pieces[::2])
            parts[place] = "".join(pieces)
        return "".join(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Standard output and standard error as :class:`Guarded`, for a whole program."""
    with (
        contextlib.redirect_stdout(cast(TextIO, Guarded(sys.stdout))),
        contextlib.redirect_stderr(cast(TextIO, Guarded(sys.stderr))),
    ):
        yield


def open_streams() -> None:
    """Open the standard streams that are closed, or other files would have their numbers and get what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the lowest number that is free is its own
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _broken(text: str, room: int | None) -> str:
    """Return the lines in several where they are longer than that; a word, as an address may be, stays whole."""
    if room is None or len(text) <= room:
        return text
    rows: list[str] = []
    for line in text.split("\n"):
        fits = len(_OURS.sub("", line)) <= room
        rows += (
            [line]
            if fits
            else textwrap.wrap(line, room, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
        )
    return "\n".join(rows)


class Console:
    """A stream of lines with a thread of its own. Lines that nobody reads are dropped and counted, never waited for.

    While a screen owns the terminal, :meth:`hold` keeps the newest lines back until :meth:`release`.
    Has `write` and `flush`, so that a logging handler can write to it. A terminal gets long lines broken between words.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._queue: queue.Queue[str | None] = queue.Queue(_WAITING_LINES)
        self._held: deque[str] | None = None
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, daemon=True, name="hivemind-console")
        self._thread.start()

    @property
    def room(self) -> int | None:
        """The columns of the terminal; None: it is none."""
        if not self._stream.isatty():
            return None
        try:
            return max(_NARROWEST, os.get_terminal_size(self._stream.fileno()).columns)
        except (OSError, ValueError):
            return None

    def write(self, text: str) -> int:
        """Queue text for the stream, or keep it back while a screen is up."""
        if self._held is not None:
            self._held.append(text)
            return len(text)
        try:
            if self._dropped:
                lines = "1 line was" if self._dropped == 1 else f"{self._dropped:,} lines were"
                self._queue.put_nowait(f"({lines} not read in time)\n")
                self._dropped = 0
            self._queue.put_nowait(text)
        except queue.Full:
            self._dropped += 1
        return len(text)

    def line(self, text: str) -> None:
        """Write one line."""
        self.write(text + "\n")

    def flush(self) -> None:
        """The thread does that."""

    def hold(self) -> None:
        """Keep everything back: the screen has the terminal."""
        if self._held is None:
            self._held = deque(maxlen=_HELD_LINES)

    def release(self) -> None:
        """Write what was kept back, and everything from now on."""
        held, self._held = self._held, None
        for text in held or ():
            self.write(text)

    def close(self, timeout_s: float = 1.0) -> bool:
        """Write what is left; False where the stream doesn't take it. Blocks, at most twice
        `timeout_s`."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (text := self._queue.get()) is not None:
            try:
                self._stream.write(_broken(text, self.room))
                if self._queue.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                return  # the other end is gone
