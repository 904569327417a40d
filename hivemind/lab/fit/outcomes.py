"""Which attempts failed, as the explanations of failures take it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Outcome(NamedTuple):
    """How one attempt ended that neither places nor rate limits refused."""

    at: float
    """When it began."""
    failed: bool
    in_flight: int
    """Requests in flight when it began, itself included."""


def log_likelihood(outcomes: Sequence[Outcome], shares: Sequence[float]) -> float:
    """Return the log-likelihood of outcomes by the share that was expected to fail of each."""
    return math.fsum(
        math.log(max(1e-9, share if one.failed else 1.0 - share)) for one, share in zip(outcomes, shares, strict=True)
    )


def share_failed(outcomes: Sequence[Outcome]) -> float:
    """Return the share that failed, never quite 0 or 1."""
    return (sum(one.failed for one in outcomes) + 0.5) / (len(outcomes) + 1.0)
