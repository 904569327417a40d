"""What other settings would have done with the same traffic: the real scheduler, in virtual time, on a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from hivemind.lab.changes import Change as Change
from hivemind.lab.changes import parse_changes as parse_changes
from hivemind.lab.figures import Figures, Price
from hivemind.lab.recording import Recording
from hivemind.scheduler.events import Event

Faults = Literal["recorded", "drawn"]
"""`recorded`: each request meets the faults that it met; `drawn`: faults (and latencies) are drawn anew from what was
fitted, by a seed."""


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
