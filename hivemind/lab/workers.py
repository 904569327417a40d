"""Simulations on every core: processes that hold the recordings, and are asked for one run at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hivemind.errors import HiveMindError, UsageError
from hivemind.prices import Prices

from .changes import Change
from .figures import Figures, Price
from .recording import Recording, load
from .whatif import Faults, simulate


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


class TimeIsUp(Exception):
    """The jobs weren't done by the time they had to be."""


class Workers:
    """A process for each core, as a context manager. Each reads the recordings for itself, at its first job."""

    def __init__(self, paths: Sequence[Path], count: int | None = None) -> None:
        self.until: float | None = None
        """On :func:`time.monotonic`: when jobs have to be done; None: whenever."""
        self._pool = ProcessPoolExecutor(
            count or os.process_cpu_count() if hasattr(os, "process_cpu_count") else len(os.sched_getaffinity(0)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(tuple(paths),),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, jobs: Sequence[Job]) -> list[Figures | None]:
        """See :data:`Runs`. Raises: TimeIsUp; HiveMindError: a process died."""
        futures: list[Future[Figures | None]] = []
        try:
            futures = [self._pool.submit(_simulated, job) for job in jobs]
            return [future.result(self._left_s()) for future in futures]
        except TimeoutError:
            raise TimeIsUp from None
        except multiprocessing.ProcessError as error:
            raise HiveMindError(f"a simulating process ended: {error}") from None
        finally:
            for future in futures:
                future.cancel()

    def _left_s(self) -> float | None:
        return None if self.until is None else max(0.0, self.until - time.monotonic())


class _Desk:
    """What a process has."""

    paths: tuple[Path, ...] = ()
    recordings: dict[int, Recording]
    price: Price


def _begin(paths: tuple[Path, ...]) -> None:
    """Ctrl-C is the parent's business, and without a parent there is nothing left to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    prices = Prices()
    prices.load()
    _Desk.paths, _Desk.recordings, _Desk.price = paths, {}, prices.cost


def _end_with(parent: object) -> None:
    parent.join()  # type: ignore[attr-defined]  # multiprocessing's ParentProcess isn't in its type
    os._exit(1)


def _simulated(job: Job) -> Figures | None:
    recording = _Desk.recordings.get(job.recording)
    if recording is None:
        recording = _Desk.recordings[job.recording] = load(_Desk.paths[job.recording], _Desk.price)
    return simulated(recording, job, _Desk.price)


def simulated(recording: Recording, job: Job, price: Price) -> Figures | None:
    """One job; None: its changes don't go together."""
    try:
        return simulate(recording, job.changes, seed=job.seed, faults=job.faults, price=price)
    except UsageError:
        return None
