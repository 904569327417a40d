"""Simulations on all cores, in processes that have the recording because they are forked from this one."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

from hivemind.errors import HiveMindError
from hivemind.journal.figures import Figures
from hivemind.lab.foresight.beside import ENDED, can_fork, cores, ends_with_parent
from hivemind.lab.foresight.draws import Job, carry_out, parts_drawn_from
from hivemind.lab.simulate.recording import Recording
from hivemind.scheduler.types import Price

_FEW = 3
"""So few jobs aren't worth a process."""
_given: tuple[Recording, Price | None, dict[int, Recording]] | None = None
"""In a worker, what its jobs are about."""


def on_all_cores(
    recording: Recording, jobs: Sequence[Job], price: Price | None, done: Callable[[int, int], object] = lambda *_: None
) -> list[Figures]:
    """Simulate jobs in a process for each core; in this one where processes can't be forked.

    `done` is told after each how many are done, of how many.

    Raises: UsageError: the changes of a job don't go together. HiveMindError: a process ended by itself.
    """
    found: list[Figures] = []
    parts = parts_drawn_from(recording, jobs)
    if not can_fork() or len(jobs) < _FEW:
        for job in jobs:
            found.append(carry_out(recording, job, price, parts))
            done(len(found), len(jobs))
        return found
    context = multiprocessing.get_context("fork")
    others = frozenset(multiprocessing.active_children())
    gc.freeze()  # a collection in a worker would copy the recording's memory page by page
    try:
        with ProcessPoolExecutor(min(cores(), len(jobs)), context, _begin, (recording, price, parts)) as pool:
            futures = [pool.submit(_carry_out, job) for job in jobs]
            try:
                for future in futures:
                    found.append(future.result())
                    done(len(found), len(jobs))
            except BaseException:
                # Nothing is to wait for what they compute. Futures aren't cancelled, since the pool fails those itself.
                for process in frozenset(multiprocessing.active_children()) - others:
                    process.kill()
                raise
    except BrokenExecutor:
        raise HiveMindError(ENDED) from None
    finally:
        gc.unfreeze()
    return found


def _begin(recording: Recording, price: Price | None, parts: dict[int, Recording]) -> None:
    global _given
    _given = recording, price, parts
    gc.disable()  # a simulation leaves few cycles behind, and the process ends with its last one
    ends_with_parent()


def _carry_out(job: Job) -> Figures:
    assert _given is not None
    recording, price, parts = _given
    return carry_out(recording, job, price, parts)
