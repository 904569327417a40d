"""Signals of a runner whose command has the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

_FROM_THE_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_CAUGHT = (*_FROM_THE_KEYBOARD, signal.SIGTERM, signal.SIGHUP)


class Foreground:
    """While a command runs, signals are its business: those that come to the runner alone are passed on, and the
    runner waits until the command has ended, whatever it makes of them. Before and after that they cancel the task
    that this was made in."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self.number = 0
        """Of the signal that cancelled the task."""
        self.before_stopping: Callable[[], object] = _nothing
        """Called when the runner is about to be stopped by Ctrl-Z, until it is continued."""

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """From here to the end of the context."""
        loop = asyncio.get_running_loop()
        for number in _CAUGHT:
            loop.add_signal_handler(number, self._came, number)
        stops = signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        if stops:
            loop.add_signal_handler(signal.SIGTSTP, self._stop)
        try:
            yield
        finally:
            for number in (*_CAUGHT, *([signal.SIGTSTP] if stops else [])):
                loop.remove_signal_handler(number)

    @contextlib.contextmanager
    def given_to(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """While this process runs."""
        self._process = process
        try:
            yield
        finally:
            self._process = None

    def _came(self, number: signal.Signals) -> None:
        if self._process is None:
            self.number = number
            self._task.cancel()
        elif number not in _FROM_THE_KEYBOARD or not _has_the_terminal():
            self._process.send_signal(number)

    def _stop(self) -> None:
        """As if the signal hadn't been caught: whether it stops us depends on who started us."""
        self.before_stopping()
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)


def _nothing() -> None:
    """Where nobody wants to know."""


def _has_the_terminal() -> bool:
    """Whether a key of the terminal reaches this process, and with it the command: both are in one process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
