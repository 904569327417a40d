"""Simulations of several recordings, as a search takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from hivemind.errors import UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.foresight.draws import Job, add_parts, carry_out
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.simulate.recording import Recording
from hivemind.processes import Beside, on_cores
from hivemind.scheduler.types import Price

Located = tuple[int, Job]
"""A job and the index of its recording."""
Runs = Callable[[Sequence[Located]], list[Figures | None]]
"""Simulates jobs and returns their figures in order; None: the changes don't go together."""


@dataclass(slots=True)
class Simulations:
    """Simulations of these recordings, on all cores where processes can be forked, else in this process."""

    recordings: Sequence[Recording]
    price: Price | None
    checks: Sequence[Beside[HeldOut]] = ()
    """The held-out check of each recording, where it has begun."""
    _parts: defaultdict[int, dict[int, Recording]] = field(default_factory=lambda: defaultdict(dict))
    """The parts that were cut for draws, by the index of their recording."""

    def __call__(self, jobs: Sequence[Located]) -> list[Figures | None]:
        """Simulate jobs. Raises: HiveMindError: a process ended by itself."""
        for number, recording in enumerate(self.recordings):
            add_parts(self._parts[number], recording, [job for place, job in jobs if place == number])
        return on_cores(self._simulated, jobs)

    def checked(self) -> list[HeldOut]:
        """Return what the held-out check finds of each recording."""
        return [each.result() for each in self.checks] or [held_out(each) for each in self.recordings]

    def _simulated(self, located: Located) -> Figures | None:
        number, job = located
        try:
            return carry_out(self.recordings[number], job, self.price, self._parts[number])
        except UsageError:
            return None


@contextmanager
def simulations(recordings: Sequence[Recording], price: Price | None) -> Iterator[Simulations]:
    """Begin the held-out checks; in the end they are killed at once, as they may take longer than there is time."""
    checks = [Beside(partial(held_out, each)) for each in recordings]
    try:
        yield Simulations(recordings, price, checks)
    finally:
        for each in checks:
            each.cancel()


def runs_of(simulate: Runs, number: int) -> Callable[[Recording, Sequence[Job], Price | None], list[Figures]]:
    """Return the simulations of one recording, as predictions take them."""

    def simulated(recording: Recording, jobs: Sequence[Job], price: Price | None) -> list[Figures]:
        found = [each for each in simulate([(number, job) for job in jobs]) if each is not None]
        if len(found) < len(jobs):
            raise UsageError("the changes don't go together")
        return found

    return simulated
