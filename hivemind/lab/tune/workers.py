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
from functools import cache, partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

from hivemind.errors import HiveMindError, UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording, load
from hivemind.lab.simulate.simulation import Faults, simulate
from hivemind.prices import Prices
from hivemind.scheduler.types import Price

_NICE = 10


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """One simulation."""

    recording: int
    """The index of the recording."""
    changes: tuple[Change, ...]
    seed: int = 0
    faults: Faults = "drawn"


Paths = Path | tuple[Path, ...]
"""A journal, or several that are read as one."""
Runs = Callable[[Sequence[SimulationJob]], list[Figures | None]]
"""Simulates jobs and returns their figures in order; None: the changes don't go together."""


@contextmanager
def workers(paths: Sequence[Paths]) -> Iterator[Runs]:
    """Start a process for each core, which simulate jobs; each loads recordings when needed.

    Raises: HiveMindError: a process died.
    """
    others = frozenset(multiprocessing.active_children())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(cores, context, initializer=_initialise)
    try:
        yield partial(_run, pool, paths)
    except BaseException:
        # Results are useless now, and shutdown would wait for ever for a process that died while starting.
        for process in frozenset(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _run(pool: ProcessPoolExecutor, paths: Sequence[Paths], jobs: Sequence[SimulationJob]) -> list[Figures | None]:
    futures: list[Future[Figures | None]] = []
    try:
        with _sigint_blocked():
            futures = [pool.submit(simulate_job, paths, job) for job in jobs]
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


def simulate_job(paths: Sequence[Paths], job: SimulationJob) -> Figures | None:
    """Return the figures of a job; None: its changes don't go together. A process reads each recording once."""
    recording = _recording(paths[job.recording])
    try:
        return simulate(recording, job.changes, seed=job.seed, faults=job.faults, price=_price())
    except UsageError:
        return None


@cache
def _recording(paths: Paths) -> Recording:
    return load(paths, _price())


@cache
def _price() -> Price:
    prices = Prices()
    prices.load()
    return prices.cost


def _initialise() -> None:
    """Initialise a worker process: low priority, no Ctrl-C of its own, and no life without its parent."""
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
