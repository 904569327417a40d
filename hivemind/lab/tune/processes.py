"""Simulations of several recordings in worker processes, which have the recordings because they are forked."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from hivemind.errors import HiveMindError, UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.foresight.beside import ENDED, can_fork, cores, ends_with_parent
from hivemind.lab.foresight.draws import Job, carry_out
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.simulate.recording import Recording
from hivemind.scheduler.types import Price

_NICE = 10
_given: tuple[Sequence[Recording], Price | None] = ((), None)
"""In a worker, what its jobs are about."""
_parts: defaultdict[int, dict[int, Recording]] = defaultdict(dict)
"""In a worker, the parts that it has cut for draws, by the index of their recording."""

Located = tuple[int, Job]
"""A job and the index of its recording."""
Runs = Callable[[Sequence[Located]], list[Figures | None]]
"""Simulates jobs and returns their figures in order; None: the changes don't go together."""


@dataclass(slots=True)
class Simulations:
    """Simulations of these recordings, on all cores where processes can be forked, else in this process."""

    recordings: Sequence[Recording]
    price: Price | None
    _pool: ProcessPoolExecutor | None = None
    _checks: list[Future[HeldOut]] = field(default_factory=list)

    def __call__(self, jobs: Sequence[Located]) -> list[Figures | None]:
        """Simulate jobs. Raises: HiveMindError: a process ended by itself."""
        if self._pool is None:
            return [_simulated(self.recordings[number], job, self.price) for number, job in jobs]
        futures = [self._pool.submit(_work, job) for job in jobs]
        try:
            return [each.result() for each in futures]
        except BrokenExecutor:
            raise HiveMindError(ENDED) from None

    def checked(self) -> list[HeldOut]:
        """Return what the held-out check found of each recording, which began when this was made."""
        if self._pool is None:
            return [held_out(each) for each in self.recordings]
        return [each.result() for each in self._checks]


@contextmanager
def simulations(recordings: Sequence[Recording], price: Price | None) -> Iterator[Simulations]:
    """Begin a process for each core, and the held-out checks in them; in the end they are killed at once."""
    if not can_fork():
        yield Simulations(recordings, price)
        return
    others = frozenset(multiprocessing.active_children())
    gc.freeze()  # a collection in a worker would copy the recordings' memory page by page
    pool = ProcessPoolExecutor(cores(), multiprocessing.get_context("fork"), _begin, (recordings, price))
    try:
        with _sigint_blocked():
            checks = [pool.submit(_check, number) for number in range(len(recordings))]
        yield Simulations(recordings, price, pool, checks)
    finally:
        # What they still work on is of no use, and may take longer than there is time.
        for process in frozenset(multiprocessing.active_children()) - others:
            process.kill()
        pool.shutdown(wait=True)
        gc.unfreeze()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT here and in the processes that begin meanwhile.

    In a terminal Ctrl-C goes to all processes; one that is just beginning would die with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def runs_of(simulate: Runs, number: int) -> Callable[[Recording, Sequence[Job], Price | None], list[Figures]]:
    """Return the simulations of one recording, as predictions take them."""
    return partial(_runs_of, simulate, number)


def _runs_of(
    simulate: Runs, number: int, recording: Recording, jobs: Sequence[Job], price: Price | None
) -> list[Figures]:
    found = [each for each in simulate([(number, job) for job in jobs]) if each is not None]
    if len(found) < len(jobs):
        raise UsageError("the changes don't go together")
    return found


def _begin(recordings: Sequence[Recording], price: Price | None) -> None:
    global _given
    _given = recordings, price
    os.nice(_NICE)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ends_with_parent()


def _work(located: Located) -> Figures | None:
    number, job = located
    recordings, price = _given
    return _simulated(recordings[number], job, price, _parts[number])


def _check(number: int) -> HeldOut:
    return held_out(_given[0][number])


def _simulated(
    recording: Recording, job: Job, price: Price | None, parts: dict[int, Recording] | None = None
) -> Figures | None:
    try:
        return carry_out(recording, job, price, parts)
    except UsageError:
        return None
