"""Simulations in worker processes, one for each core."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

from hivemind.errors import HiveMindError, UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.whatif import Faults, simulate
from hivemind.prices import Prices

_NICE = 10


@dataclass(frozen=True, slots=True)
class Job:
    """One simulation."""

    recording: int
    """The index of the recording."""
    changes: tuple[Change, ...]
    seed: int = 0
    faults: Faults = "drawn"


Runs = Callable[[Sequence[Job]], list[Figures | None]]
"""Simulates jobs and returns their figures in order; None: the changes don't go together."""


@contextmanager
def workers(paths: Sequence[Path]) -> Iterator[Runs]:
    """Start a process for each core, which simulate jobs; each loads recordings when needed.

    Raises: HiveMindError: a process died.
    """
    others = frozenset(multiprocessing.active_children())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(cores, context, initializer=_initialise, initargs=(tuple(paths),))
    try:
        yield partial(_run, pool)
    except BaseException:
        # Results are useless now, and shutdown would wait for ever for a process that died while starting.
        for process in frozenset(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _run(pool: ProcessPoolExecutor, jobs: Sequence[Job]) -> list[Figures | None]:
    futures: list[Future[Figures | None]] = []
    try:
        with _sigint_blocked():
            futures = [pool.submit(_simulated, job) for job in jobs]
        return [future.result() for future in futures]
    except BrokenExecutor:
        raise HiveMindError("a simulating process ended by itself; is there enough memory?") from None
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT here and in child processes started meanwhile.

    In a terminal Ctrl-C goes to all processes; one that is still starting would die with a traceback.
    """
    resource_tracker.ensure_running()  # started later, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Simulator:
    """Simulates the jobs of one process, with each recording read once."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._recordings: dict[int, Recording] = {}
        prices = Prices()
        prices.load()
        self._price = prices.cost

    def run(self, job: Job) -> Figures | None:
        """Return the figures of a job; None: its changes don't go together."""
        recording = self._recordings.get(job.recording)
        if recording is None:
            recording = self._recordings[job.recording] = load(self._paths[job.recording], self._price)
        try:
            return simulate(recording, job.changes, seed=job.seed, faults=job.faults, price=self._price)
        except UsageError:
            return None


_simulator: Simulator


def _initialise(paths: tuple[Path, ...]) -> None:
    """Initialise a worker process: low priority, no Ctrl-C of its own, and no life without its parent."""
    global _simulator
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    _simulator = Simulator(paths)


def _exit_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _simulated(job: Job) -> Figures | None:
    return _simulator.run(job)
