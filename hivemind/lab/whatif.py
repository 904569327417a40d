"""What other settings would have done with the same traffic: the real scheduler, in virtual time, on a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hivemind.lab.figures import Figures, Price
from hivemind.lab.recording import Recording
from hivemind.scheduler.events import Event

Faults = Literal["recorded", "drawn"]
"""`recorded`: each request meets the faults that it met; `drawn`: faults (and latencies) are drawn anew from what was
fitted, by a seed."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that is to have another value."""

    name: str
    """As in the settings: `aimd.beta`, `max_concurrency`, `retry.max_attempts`, `features.admission` …"""
    value: float | bool | str | None

    def __str__(self) -> str:
        shown = f"{self.value:g}" if isinstance(self.value, float) else str(self.value).lower()
        return f"{self.name}={shown}"


def parse_changes(texts: Sequence[str]) -> tuple[Change, ...]:
    """Changes as a command line has them, `NAME=VALUE` each.

    Raises: UsageError: with the name that was meant, or the range that is right.
    """
    raise NotImplementedError


def simulate(
    recording: Recording,
    changes: Sequence[Change] = (),
    *,
    seed: int = 0,
    faults: Faults = "recorded",
    price: Price | None = None,
    tell: Callable[[Event], object] | None = None,
) -> Figures:
    """Run a recording's traffic through the scheduler with these changes, and count what came of it.

    The same arguments give the same figures. `tell` is called with each event as it happens, on the clock of the
    recording. Takes up to some seconds and reads no clock; not for an event loop.

    Raises: UsageError: the changes don't go together.
    """
    raise NotImplementedError
