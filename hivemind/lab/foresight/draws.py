"""Draws: simulations with other fits that the recording allows as well, and with other luck.

A simulation with the recorded luck shows what a change does to this very run. Draws show what it does on average, and
how far two runs of the same differ. Of a long recording a part is drawn from: luck matters less the longer a run is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct

from hivemind.journal.figures import Figures
from hivemind.lab.fit.provider import draw_providers
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.part import sliced
from hivemind.processes import on_cores
from hivemind.records import replace
from hivemind.scheduler.types import Price

MOST_DRAWS, LEAST_DRAWS = 12, 6
WHOLE, PART = 1600, 800
"""A recording of at most so many requests is drawn from as a whole; of a longer one parts of about so many are.

Parts begin without a backlog, so they mustn't be short: of one hour of fifty agents the total wait with another
setting was foretold 11 % too high by parts of 800, and 29 % by parts of 600.
"""
_WORK = 6000
"""Requests simulated for all draws of one change together, as far as the least number of draws allows."""
_OF_ONE = 2
"""Draws from one part, which show luck apart from what differs between parts."""


class Job(Struct, frozen=True):
    """One simulation of a prediction."""

    changes: tuple[Change, ...]
    draw: int | None = None
    """The number of the draw; None: the recorded luck."""


Runs = Callable[[Recording, Sequence[Job], Price | None], list[Figures]]
"""Simulates jobs and returns their figures in order."""


class Drawn(Struct, frozen=True):
    """The draws of a prediction, pairwise: a pair has the same fit and seed."""

    before: tuple[Figures, ...]
    """With the recorded settings."""
    after: tuple[Figures, ...]
    share: float
    """Of the recording, by requests, that was drawn from."""
    parts: tuple[int, ...]
    """By draw, the part of the recording that it simulates."""


def draws_of(recording: Recording) -> int:
    """Return how many draws a prediction takes."""
    requests = len(recording.trace.requests)
    drawn = requests if requests <= WHOLE else PART
    return max(LEAST_DRAWS, min(MOST_DRAWS, _WORK // (2 * max(1, drawn))))


def carry_out(
    recording: Recording, job: Job, price: Price | None = None, parts: dict[int, Recording] | None = None
) -> Figures:
    """Return the figures of a job. `parts`: those that were cut already, to which this adds its own.

    Raises: UsageError: its changes don't go together.
    """
    if job.draw is None:
        return simulate(recording, job.changes, price=price)
    parts, number = {} if parts is None else parts, part_of(recording, job.draw)
    drawn = parts.get(number) or parts.setdefault(number, part_drawn_from(recording, job.draw))
    rng = random.Random(f"fit {job.draw}")
    drawn = replace(drawn, providers=draw_providers(drawn.providers, rng))
    return simulate(drawn, job.changes, seed=job.draw, faults="drawn", price=price)


def one_by_one(recording: Recording, jobs: Sequence[Job], price: Price | None) -> list[Figures]:
    """Simulate jobs in this process."""
    parts: dict[int, Recording] = {}
    return [carry_out(recording, job, price, parts) for job in jobs]


def on_all_cores(
    recording: Recording, jobs: Sequence[Job], price: Price | None, done: Callable[[int, int], object] = lambda *_: None
) -> list[Figures]:
    """Simulate jobs in a process for each core.

    `done` is told after each how many are done, of how many.

    Raises: UsageError: the changes of a job don't go together. HiveMindError: a process ended by itself.
    """
    parts: dict[int, Recording] = {}
    add_parts(parts, recording, jobs)
    return on_cores(partial(carry_out, recording, price=price, parts=parts), jobs, done)


def remembering(runs: Runs, unchanged: dict[Job, Figures]) -> Runs:
    """Return `runs` of one recording that simulates jobs without changes once: `unchanged` has those that were.

    Each question about a recording compares with them.
    """

    def simulated(recording: Recording, jobs: Sequence[Job], price: Price | None) -> list[Figures]:
        left = list(dict.fromkeys(job for job in jobs if job not in unchanged))
        found = dict(zip(left, runs(recording, left, price), strict=True))
        unchanged.update((job, figures) for job, figures in found.items() if not job.changes)
        return [found[job] if job in found else unchanged[job] for job in jobs]

    return simulated


def add_parts(parts: dict[int, Recording], recording: Recording, jobs: Iterable[Job]) -> None:
    """Cut the parts of a recording that the draws among jobs simulate, by their numbers, but for those that are there.

    Done before processes are forked, so that each needn't cut its own.
    """
    for draw in (job.draw for job in jobs if job.draw is not None):
        number = part_of(recording, draw)
        if number not in parts:
            parts[number] = part_drawn_from(recording, draw)


def part_of(recording: Recording, draw: int) -> int:
    """Return which part of a recording a draw simulates."""
    parts = _parts(recording)
    return draw // _OF_ONE * 7919 % parts


def part_drawn_from(recording: Recording, draw: int) -> Recording:
    """Return the part of a recording that a draw simulates."""
    parts = _parts(recording)
    if parts == 1:
        return recording
    requests = recording.trace.requests
    length = len(requests) // parts
    first = part_of(recording, draw) * length
    began_at = requests[first].at
    ended_at = next((each.at for each in islice(requests, first + length, None)), recording.trace.ends_at + 1.0)
    return replace(recording, trace=sliced(recording.trace, began_at, ended_at))


def _parts(recording: Recording) -> int:
    requests = len(recording.trace.requests)
    return 1 if requests <= WHOLE else requests // PART
