"""What ends the program: the first signal asks, the second one insists."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stop(asyncio.Event):
    """Set by the first SIGINT, SIGTERM or SIGHUP, which also calls :attr:`on_stop`."""

    on_stop: Callable[[], None] | None = None

    def ask(self) -> None:
        """As the first signal does."""
        if not self.is_set():
            self.set()
            if self.on_stop is not None:
                self.on_stop()


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """A stop, from now until the context is left; enter it before anything that takes long to start.

    After the first SIGINT or SIGTERM both are the system's again, so a second one ends the process at once, whatever
    the loop is doing. A hang-up never counts as the second: shells send it more than once.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    insistent = (signal.SIGINT, signal.SIGTERM)

    def on_signal(number: signal.Signals) -> None:
        if number in insistent or stop.is_set():
            for each in insistent:
                loop.remove_signal_handler(each)
                signal.signal(each, signal.SIG_DFL)
        stop.ask()

    for number in (*insistent, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in (*insistent, signal.SIGHUP):
            loop.remove_signal_handler(number)
