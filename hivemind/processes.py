"""Work in processes of its own, which have everything because they are forked from this one."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from hivemind.errors import HiveMindError

T = TypeVar("T")
Job = TypeVar("Job")
_FEW = 3
"""So few jobs aren't worth a process."""
_NICE = 10
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGALRM}
"""By which a search is ended."""


def cores() -> int:
    """Return how many processes can compute at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def can_fork() -> bool:
    """Return whether forked processes are of use. On macOS they may crash in the system's libraries."""
    return sys.platform == "linux" and cores() > 1


class _Forked(Generic[T]):
    """A process that sends what `work` yields, one after the other."""

    def __init__(self, work: Callable[[], Iterable[T]]) -> None:
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_send, args=(work, sender), daemon=True)
        gc.freeze()  # a collection in the other process would copy the memory page by page
        # In a terminal Ctrl-C goes to all processes; one that is just beginning would die with a traceback. What a
        # signal's handler raises while Python forks is lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            gc.unfreeze()
        sender.close()

    def receive(self) -> T:
        """Wait for the next result. Raises: HiveMindError: the process ended by itself, or what the work raised."""
        try:
            found, error = self.receiver.recv()
        except EOFError:
            raise HiveMindError("a process that computes ended by itself; is there enough memory?") from None
        if error is not None:
            raise error
        result: T = found
        return result

    def end(self) -> None:
        """End the process, whatever it still works on."""
        self.process.kill()
        self.process.join()
        self.receiver.close()


class Beside(Generic[T]):
    """Work that has begun beside the rest of a program, and whose result can be asked for."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: tuple[T] | None = None
        self._forked = _Forked(partial(map, lambda each: each(), (work,))) if can_fork() else None

    def result(self) -> T:
        """Wait for the result, or where processes can't be forked do the work now; the same one each time.

        Raises: HiveMindError: the process ended by itself, or what the work raised.
        """
        if self._found is None:
            self._found = (self._work() if self._forked is None else self._forked.receive(),)
            self.cancel()
        return self._found[0]

    def cancel(self) -> None:
        """End the work, whose result isn't wanted any more."""
        if self._forked is not None:
            self._forked.end()


def on_cores(
    work: Callable[[Job], T], jobs: Sequence[Job], done: Callable[[int, int], object] = lambda *_: None
) -> list[T]:
    """Return what the work makes of each job, in a process for each core; in this one where they can't be forked.

    `done` is told after each how many are done, of how many. Raises: HiveMindError: a process ended by itself, or what
    the work raised.
    """
    found: dict[int, T] = {}
    if not can_fork() or len(jobs) < _FEW:
        for number, job in enumerate(jobs):
            found[number] = work(job)
            done(len(found), len(jobs))
        return list(found.values())
    count = min(cores(), len(jobs))
    forked = [_Forked(partial(map, work, jobs[first::count])) for first in range(count)]
    left = {each.receiver: (each, iter(range(first, len(jobs), count))) for first, each in enumerate(forked)}
    try:
        while len(found) < len(jobs):
            for receiver in wait(list(left)):
                each, numbers = left[receiver]  # type: ignore[index]  # wait's type allows more than connections
                place = next(numbers, None)
                if place is None:  # it has sent everything, and ended
                    del left[each.receiver]
                    continue
                found[place] = each.receive()
                done(len(found), len(jobs))
    finally:
        for each in forked:
            each.end()
    return [found[number] for number in range(len(jobs))]


def _send(work: Callable[[], Iterable[T]], sender: Connection) -> None:
    """End with the process that this one is forked from, however that ends, and leave Ctrl-C to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    gc.disable()  # a simulation leaves few cycles behind, and the process ends with its last one
    os.nice(_NICE)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    try:
        for each in work():
            sender.send((each, None))
    except HiveMindError as error:
        sender.send((None, error))
    except MemoryError:
        os._exit(1)  # the receiver says so


def _exit_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
