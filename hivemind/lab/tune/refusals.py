"""Refusals that the fit leaves to chance although they came with more in flight, so that some limit isn't known.

A simulation refuses no more with more in flight then, and what it gains by that may be lost to refusals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from hivemind.lab.fit.failures import Failures
from hivemind.lab.fit.provider import FittedProvider
from hivemind.scheduler.types import FailureKind

_REFUSED = (FailureKind.OVERLOADED, FailureKind.RATE_LIMITED)
_FEW = 3
"""Fewer refusals tell nothing."""
_SURE = 2.33
"""Standard errors by which refusals come with more in flight in one of a hundred recordings by chance."""


def unexplained(providers: Iterable[FittedProvider]) -> int:
    """Return how many refusals came with more in flight and have no cause in the models."""
    return sum(_unexplained(each.failures) for each in providers)


def _unexplained(failures: Failures) -> int:
    if failures.load is not None:
        return 0
    refused = [one.in_flight for _, one in failures.chance if one.failure is not None and one.failure.kind in _REFUSED]
    taken = [one.in_flight for request in failures.requests for one in request.unrefused if one.failure is None]
    return len(refused) if len(refused) >= _FEW and larger_by(refused, taken) > _SURE else 0


def larger_by(ones: Sequence[int], others: Sequence[int]) -> float:
    """Return by how many standard errors numbers are larger than others, by their ranks (Mann and Whitney's test)."""
    mine, their = Counter(ones), Counter(others)
    below, larger, ties = 0, 0.0, 0
    for value in sorted({*mine, *their}):
        larger += mine[value] * (below + their[value] / 2)
        below += their[value]
        together = mine[value] + their[value]
        ties += together**3 - together
    pairs, count = len(ones) * len(others), len(ones) + len(others)
    variance = pairs / 12 * (count + 1 - ties / (count * (count - 1))) if count > 1 else 0.0
    return (larger - pairs / 2) / math.sqrt(variance) if variance > 0 else 0.0
