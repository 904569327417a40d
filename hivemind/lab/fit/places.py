"""A provider's limit of requests in process at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from hivemind.lab.trace.steps import RequestAttempt, TracedAttempt
from hivemind.records import replace
from hivemind.scheduler.types import Failure


class Places(Struct, frozen=True):
    """So many requests are in process at once; one more is refused."""

    most: int
    refusals: tuple[TracedAttempt, ...]
    """The recorded refusals that it explains."""
    failure: Failure
    """How it refuses."""

    def times(self, by: float) -> Places:
        """Return so many times as many places."""
        return replace(self, most=max(1, round(self.most * by)))

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        refused = self.failure.status or "refusals"
        yield f"{refused}s came from a limit of about {self.most} in flight"


def in_process(sent: Sequence[RequestAttempt], ends_at: float, *, late_s: float = 0.0) -> Iterator[int]:
    """Yield the number in process at the beginning of each attempt, itself included, in order of their beginnings.

    `ends_at`: when the recording ended, and with it what has no recorded end; `late_s`: places are free so long after
    the end of an attempt.
    """
    moments = [(one.granted_at, 1, not one.uncharged) for _, one in sent]
    moments += [
        (one.granted_at + one.duration_s + late_s if one.end_number else ends_at, 0, True)
        for _, one in sent
        if not one.uncharged
    ]
    moments.sort(key=lambda moment: moment[:2])
    count = 0
    for _, begins, takes in moments:
        if begins:
            yield count + 1
            count += takes
        else:
            count -= 1
