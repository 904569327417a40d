"""A terminal driver that never waits for the terminal.

Textual's driver puts each frame into a queue of thirty and waits, on the event loop, while that is full: a terminal
that stops reading (a sleeping ssh session, a paused multiplexer) would stop every stream of the proxy. This one says
whether the last frame has left, before which the screen paints no other. Should the queue be full all the same, it
drops frames, and repaints everything once the terminal reads again.

Where the terminal is gone, it raises a SIGHUP: the system sends that only to a session's first process, which may not
pass it on (`make run`), and without it the thread that reads keys would read nothing for ever.

It uses private names of Textual's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import signal
import sys
import termios
import threading
import time
from typing import Any, TextIO

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

_LOOK_EVERY_S = 0.1
_FLUSH_EVERY_S = 0.02
_LOOK_FOR_TERMINAL_EVERY_S = 1.0
_STALLED_S = 2.0
"""A band of a frame takes less on a line of 4 kB/s."""


class TerminalBack(Message):
    """The terminal reads again, after frames were dropped."""

    def __init__(self, stalled_s: float) -> None:
        super().__init__()
        self.stalled_s = stalled_s


async def closed(app: App[Any], timeout_s: float) -> bool:
    """Wait, off the loop, until an ended app reads no more keys and the terminal has received all output.

    Return False where the terminal is stuck: then whatever writes to it blocks, an orderly exit of Python included.
    """
    driver = getattr(app, "_driver", None)
    return await asyncio.to_thread(_join, timeout_s, getattr(driver, "keys", None), _writer(driver))


async def freed(app: App[Any], timeout_s: float) -> bool:
    """Do as :func:`closed`, for a stuck terminal: discard the output that it hasn't read, repeatedly, until there is
    room for the few bytes that restore it. It receives them when it reads again, even after this process has ended."""
    driver = app._driver
    if not isinstance(driver, LossyDriver) or driver._writer_thread is None:
        return True
    latest = time.monotonic() + timeout_s
    discarded = False
    while not await asyncio.to_thread(_join, _FLUSH_EVERY_S, driver._writer_thread):
        if time.monotonic() > latest:
            return False
        discarded = True
        with contextlib.suppress(termios.error):
            termios.tcflush(driver.fileno, termios.TCOFLUSH)
            # The system doesn't wake a writer after a flush, but it does when output goes on after a stop.
            termios.tcflow(driver.fileno, termios.TCOOFF)
            termios.tcflow(driver.fileno, termios.TCOON)
    if discarded:
        # The writer may have written its last bytes between a look at it and a flush, which then discarded them.
        driver.restore_again()
    return True


def _writer(driver: object) -> threading.Thread | None:
    return getattr(driver, "_writer_thread", None)


def _join(timeout_s: float, *threads: threading.Thread | None) -> bool:
    """Wait for the threads to end; return whether all did in time."""
    latest = time.monotonic() + timeout_s
    for thread in filter(None, threads):
        thread.join(max(0.0, latest - time.monotonic()))
    return not any(thread is not None and thread.is_alive() for thread in threads)


class _Ending(threading.Event):
    """Stays set once it is: a driver's input ends only once, and the thread that reads it may look late."""

    def clear(self) -> None:
        pass


class _Watched:
    """The terminal's file, of which is known whether something written to it hasn't left yet."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.busy = False
        self.took_s = 0.0
        """For how long the last writes took until all had left."""
        self._began_s = 0.0

    def write(self, text: str) -> int:
        if not self.busy:
            self.busy, self._began_s = True, time.monotonic()
        return self._file.write(text)

    def flush(self) -> None:
        self._file.flush()
        self.took_s, self.busy = time.monotonic() - self._began_s if self.busy else 0.0, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class LossyDriver(LinuxDriver):
    """Textual's driver, which drops frames rather than wait."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Textual writes to standard error; where that is a file, the screen belongs on standard output.
        if sys.__stderr__ is None or not sys.__stderr__.isatty():
            self._file = sys.__stdout__
        self._file = self._watched = _Watched(self._file)  # type: ignore[arg-type,assignment]  # a file to Textual
        self.exit_event = _Ending()
        self.keys: threading.Thread | None = None
        """Reads the keyboard, and may still run for a moment after input was disabled."""
        self.dropped = 0
        self.at_end = ""
        """Written before the terminal is restored."""
        self._behind_since: float | None = None
        self._closing = False
        self._restoring = ""
        """All that was written since the screen is being left."""
        self._host_loop = asyncio.get_running_loop()

    def start_application_mode(self) -> None:
        """Show the screen, and see from time to time whether the terminal is still there."""
        super().start_application_mode()  # type: ignore[no-untyped-call]  # of Textual
        self._host_loop.call_later(_LOOK_FOR_TERMINAL_EVERY_S, self._look_for_terminal)

    def _look_for_terminal(self) -> None:
        if self._closing:
            return
        terminal = select.poll()
        terminal.register(self.fileno, 0)  # a hang-up is told whatever is asked for
        if any(events & select.POLLHUP for _, events in terminal.poll(0)):
            signal.raise_signal(signal.SIGHUP)
            return
        self._host_loop.call_later(_LOOK_FOR_TERMINAL_EVERY_S, self._look_for_terminal)

    @property
    def ready(self) -> bool:
        """Whether all that was written has left, so that another frame won't wait behind it: on a slow line a key would
        else be answered after all frames before it."""
        writer = self._writer_thread
        if writer is not None and (self._watched.busy or writer._queue.qsize()):
            return False
        stalled_s, self._watched.took_s = self._watched.took_s, 0.0
        if stalled_s >= _STALLED_S:
            self._app.post_message(TerminalBack(stalled_s))
        return True

    def write(self, data: str) -> None:
        writer = self._writer_thread
        if writer is None:
            return
        if self._behind_since is not None and not self._closing:
            self.dropped += 1
            return
        if self._closing:
            self._restoring += data
        try:
            writer._queue.put_nowait(data)
        except queue.Full:
            self.dropped += 1
            if not self._closing:
                self._behind_since = time.monotonic()
                # In a way that is safe for the input thread, which writes too.
                self._host_loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        writer = self._writer_thread
        if self._closing or writer is None or self._behind_since is None:
            return
        if writer._queue.qsize():
            self._host_loop.call_later(_LOOK_EVERY_S, self._look)
            return
        stalled_s = time.monotonic() - self._behind_since
        self._behind_since = None
        self._app.post_message(TerminalBack(stalled_s))

    def disable_input(self) -> None:
        """Stop reading keys, without waiting for the thread on the loop as Textual does; see :func:`closed`."""
        self.keys, self._key_thread = self._key_thread or self.keys, None
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Leave the screen; queued frames make room for what restores the terminal."""
        self._closing = True
        if self._writer_thread is not None and self._behind_since is not None:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._writer_thread._queue.get_nowait()
        if self.at_end:
            self.write(self.at_end)
        super().stop_application_mode()

    def restore_again(self) -> None:
        """After the writer's end: discard what the terminal hasn't read, and write what restores it once more."""
        if self._file is None:
            return
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(self.fileno, termios.TCOFLUSH)
            os.write(self._file.fileno(), self._restoring.encode())

    def close(self) -> None:
        """Let the writer end after what is queued; :func:`closed` waits for it."""
        if self._writer_thread is not None:
            with contextlib.suppress(queue.Full):
                self._writer_thread._queue.put_nowait(None)
