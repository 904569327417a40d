"""Simulations on every core: processes that hold the recordings, and are asked for one run at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from hivemind.errors import HiveMindError, UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.whatif import Faults, simulate
from hivemind.lab.tune.overrides import Change
from hivemind.prices import Prices
from hivemind.scheduler.types import Price

_NICE = 10


@dataclass(frozen=True, slots=True)
class Job:
    """One run to simulate."""

    recording: int
    """Which of the recordings, from 0."""
    changes: tuple[Change, ...]
    seed: int = 0
    faults: Faults = "drawn"


Runs = Callable[[Sequence[Job]], list[Figures | None]]
"""Simulates jobs; the results are in their order, None where the changes don't go together."""


class Workers:
    """A process for each core, as a context manager. Each reads the recordings for itself, at its first job."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._others = frozenset(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(
            _cores(),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(tuple(paths),),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # What they compute is of no use any more, and one that died while it began would be waited for in vain.
            for process in frozenset(multiprocessing.active_children()) - self._others:
                process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, jobs: Sequence[Job]) -> list[Figures | None]:
        """See :data:`Runs`. Raises: HiveMindError: a process died."""
        futures: list[Future[Figures | None]] = []
        try:
            with _undisturbed():
                futures = [self._pool.submit(_simulated, job) for job in jobs]
            return [future.result() for future in futures]
        except BrokenExecutor:
            raise HiveMindError("a simulating process ended by itself; is there memory enough?") from None
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until this is over, and those who are born meanwhile never hear of it: in a terminal it goes to all
    processes, and one that it met while it was beginning would die with a traceback."""
    resource_tracker.ensure_running()  # which would let the signal through, once it has started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Desk:
    """What a simulating process has at hand."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._recordings: dict[int, Recording] = {}
        prices = Prices()
        prices.load()
        self._price = prices.cost

    def simulated(self, job: Job) -> Figures | None:
        recording = self._recordings.get(job.recording)
        if recording is None:
            recording = self._recordings[job.recording] = load(self._paths[job.recording], self._price)
        return simulated(recording, job, self._price)


_desks: list[_Desk] = []
"""The one of this process, once it has one."""


def _begin(paths: tuple[Path, ...]) -> None:
    """Ctrl-C is the parent's business, an orphan has none, and the traffic of a proxy goes first."""
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _desks.append(_Desk(paths))


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _simulated(job: Job) -> Figures | None:
    return _desks[0].simulated(job)


def simulated(recording: Recording, job: Job, price: Price) -> Figures | None:
    """One job; None: its changes don't go together."""
    try:
        return simulate(recording, job.changes, seed=job.seed, faults=job.faults, price=price)
    except UsageError:
        return None
