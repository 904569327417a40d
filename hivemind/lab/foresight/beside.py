"""Work beside the rest of a program, in a process of its own that has everything because it is forked."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from hivemind.errors import HiveMindError

T = TypeVar("T")
ENDED = "a simulating process ended by itself; is there enough memory?"


def cores() -> int:
    """Return how many processes can compute at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def can_fork() -> bool:
    """Return whether forked processes are of use. On macOS they may crash in the system's libraries."""
    return sys.platform == "linux" and cores() > 1


class Beside(Generic[T]):
    """Work that has begun, and whose result can be asked for."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: tuple[T] | None = None
        self._receiver: Connection | None = None
        if not can_fork():
            return
        context = multiprocessing.get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)
        gc.freeze()  # a collection in the other process would copy the memory page by page
        try:
            self._process = context.Process(target=_work, args=(work, sender), daemon=True)
            self._process.start()
        finally:
            gc.unfreeze()
        sender.close()

    def result(self) -> T:
        """Wait for the result, or where processes can't be forked do the work now; the same one each time.

        Raises: HiveMindError: the process ended by itself, or what the work raised.
        """
        if self._found is None:
            self._found = (self._received(),)
        return self._found[0]

    def _received(self) -> T:
        if self._receiver is None:
            return self._work()
        try:
            found, error = self._receiver.recv()
        except EOFError:
            raise HiveMindError(ENDED) from None
        self._process.join()
        if error is not None:
            raise error
        result: T = found
        return result

    def cancel(self) -> None:
        """End the work, whose result isn't wanted."""
        if self._receiver is not None:
            self._process.kill()
            self._process.join()


def ends_with_parent() -> None:
    """Make this forked process end with the one that it is forked from, however that ends; leave Ctrl-C to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _work(work: Callable[[], T], sender: Connection) -> None:
    ends_with_parent()
    try:
        sender.send((work(), None))
    except HiveMindError as error:
        sender.send((None, error))
    except MemoryError:
        os._exit(1)  # `result` says so
