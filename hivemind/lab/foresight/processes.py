"""Simulations on all cores, in processes that have the recording because they are forked from this one."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

from hivemind.errors import HiveMindError
from hivemind.journal.figures import Figures
from hivemind.lab.foresight.draws import Job, carry_out, one_by_one
from hivemind.lab.simulate.recording import Recording
from hivemind.scheduler.types import Price

_FEW = 3
"""So few jobs aren't worth a process."""
_given: tuple[Recording, Price | None] | None = None
"""In a worker, what its jobs are about."""


def on_all_cores(recording: Recording, jobs: Sequence[Job], price: Price | None) -> list[Figures]:
    """Simulate jobs in a process for each core; in this one where processes can't be forked.

    Raises: UsageError: the changes of a job don't go together. HiveMindError: a process ended by itself.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    # On macOS a forked process may crash in the system's libraries.
    if sys.platform != "linux" or cores < 2 or len(jobs) < _FEW:
        return one_by_one(recording, jobs, price)
    context = multiprocessing.get_context("fork")
    gc.freeze()  # a collection in a worker would copy the recording's memory page by page
    try:
        with ProcessPoolExecutor(min(cores, len(jobs)), context, _begin, (recording, price)) as pool:
            try:
                return list(pool.map(_carry_out, jobs))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenExecutor:
        raise HiveMindError("a simulating process ended by itself; is there enough memory?") from None
    finally:
        gc.unfreeze()


def _begin(recording: Recording, price: Price | None) -> None:
    global _given
    _given = recording, price
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c is for the process that waits for this one


def _carry_out(job: Job) -> Figures:
    assert _given is not None
    recording, price = _given
    return carry_out(recording, job, price)
