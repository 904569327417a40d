"""Events encoded as JSON on the loop, and lines between them that are still to be made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hivemind.journal.codec import Encoded, each_line_of, lines_of
from hivemind.journal.write.writer import DeferredLines, made

_WORK_S, REST_S = 0.0005, 0.0003
"""The thread works so long, then yields the interpreter lock."""
_HEAD = 32
"""About how long a line's beginning is."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some events in order."""

    events: Encoded
    between: Sequence[tuple[int, DeferredLines]] = ()
    """Each with how many of the events stand before it."""

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.events[0]) + len(self.between)

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        kinds, values = self.events
        return len(values) + _HEAD * len(kinds) + sum(later.weight for _, later in self.between)


def let_others() -> None:
    """Let other threads run."""
    time.sleep(REST_S)


def joined(batches: Sequence[Batch]) -> bytes:
    """Return the lines of all batches. Takes long with many lines between events; call it in a thread."""
    lines: list[bytes] = []
    begun = time.monotonic()
    for batch in batches:
        if not batch.between:
            lines.append(lines_of(batch.events))
            continue
        done, plain = 0, each_line_of(batch.events)
        for place, later in batch.between:
            lines += plain[done:place]
            lines.append(made(later))
            done = place
            if time.monotonic() - begun > _WORK_S:
                let_others()
                begun = time.monotonic()
        lines += plain[done:]
    return b"".join(lines)
