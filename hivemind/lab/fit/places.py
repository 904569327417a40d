"""A provider's limit of requests in process at once, fitted to its refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hivemind.lab.trace.steps import RequestAttempt, TracedAttempt
from hivemind.scheduler.types import Failure, FailureKind


@dataclass(frozen=True, slots=True)
class Places:
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


def fit_places(taken: Sequence[RequestAttempt]) -> Places | None:
    """Fit the number of places to attempts in order of their beginnings; None: refusals don't depend on it."""
    most = _most_in_process(taken)
    if most is None:
        return None
    over = tuple(one for one, n in in_process(taken) if one.failed_as(FailureKind.OVERLOADED) and n > most)
    return Places(most, over, Failure(FailureKind.OVERLOADED, True, 529, None))


def _most_in_process(taken: Sequence[RequestAttempt]) -> int | None:
    """Return the number in process above which nearly all attempts were refused as overloaded, and few below."""
    over: list[int] = []
    accepted: list[int] = []
    for one, n in in_process(taken):
        if one.failed_as(FailureKind.OVERLOADED):
            over.append(n)
        elif not one.uncharged:
            accepted.append(n)
    if len(over) < 3:
        return None
    for most in range(max(1, min(over) - 1), max(over)):
        above = sum(1 for each in accepted if each > most)
        refused = sum(1 for each in over if each > most)
        if refused >= 0.6 * len(over) and above <= 0.05 * (above + refused):
            return most
    return None


def in_process(taken: Sequence[RequestAttempt]) -> Iterator[tuple[TracedAttempt, int]]:
    """Yield each attempt with the number in process at its beginning, itself included; refused ones don't count."""
    moments = [(one.granted_at, 1, one) for _, one in taken]
    moments += [(one.granted_at + one.duration_s, 0, one) for _, one in taken if not one.uncharged]
    moments.sort(key=lambda moment: moment[:2])
    in_process = 0
    for _, begins, one in moments:
        if not begins:
            in_process -= 1
            continue
        yield one, in_process + 1
        in_process += not one.uncharged
