"""Plain lines instead of a screen, written so that a terminal or pipe that stops reading can't stop the traffic."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from typing import TextIO

_WAITING_LINES = 1000
_HELD_LINES = 200


class Console:
    """A stream of lines with a thread of its own. Lines that nobody reads are dropped and counted, never waited for.

    While a screen owns the terminal, :meth:`hold` keeps the newest lines back until :meth:`release`.
    Has `write` and `flush`, so that a logging handler can write to it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._queue: queue.Queue[str | None] = queue.Queue(_WAITING_LINES)
        self._held: deque[str] | None = None
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, daemon=True, name="hivemind-console")
        self._thread.start()

    def write(self, text: str) -> int:
        """Queue text for the stream, or keep it back while a screen is up."""
        if self._held is not None:
            self._held.append(text)
            return len(text)
        try:
            if self._dropped:
                self._queue.put_nowait(f"({self._dropped} lines were not read in time)\n")
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
                self._stream.write(text)
                if self._queue.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                return  # the other end is gone, and with it whoever could be told
