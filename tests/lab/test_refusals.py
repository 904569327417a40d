"""Refusals without a cause in the models are known by coming with more in flight than others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from lab.kit import recorded, served

from hivemind.lab.fit.failures import Failures
from hivemind.lab.fit.load import Load
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.trace.steps import TracedAttempt
from hivemind.lab.tune.promise import larger_by, unexplained
from hivemind.records import replace
from hivemind.scheduler.types import Failure, FailureKind

OVERLOADED, BROKEN = Failure(FailureKind.OVERLOADED, True, 529), Failure(FailureKind.SERVER_ERROR, True, 502)


@pytest.fixture
def provider(tmp_path: Path) -> FittedProvider:
    """A provider that served a request."""
    (found,) = recorded(tmp_path, served(1.0, 1, "a")).providers.values()
    return found


def failed(
    provider: FittedProvider, taken: Sequence[int], refused: Sequence[int], failure: Failure = OVERLOADED
) -> FittedProvider:
    """The provider with attempts that were answered, and others that failed by chance, each with so many in flight."""
    (step,) = provider.failures.requests

    def attempt(in_flight: int, how: Failure | None) -> TracedAttempt:
        return TracedAttempt(1.0, in_flight, duration_s=1.0, failure=how, complete=True)

    request = replace(step, unrefused=[attempt(each, None) for each in taken])
    chance = [(request, attempt(each, failure)) for each in refused]
    failures: Failures = replace(provider.failures, requests=[request], chance=chance)
    return replace(provider, failures=failures)


def test_a_hidden_limit(provider: FittedProvider) -> None:
    """What was refused with more in flight than was ever answered has a cause that isn't known."""
    assert unexplained([failed(provider, [1, 2, 3] * 20, [4, 4, 5, 6])]) == 4


@pytest.mark.parametrize(
    ("refused", "failure"),
    [([1, 2, 3, 3, 2, 1], OVERLOADED), ([4, 5], OVERLOADED), ([4, 4, 5, 6], BROKEN)],
    ids=["at any load", "two", "not refused"],
)
def test_chance(provider: FittedProvider, refused: list[int], failure: Failure) -> None:
    """Refusals at any load, fewer than three, and failures that are no refusals are chance."""
    assert unexplained([failed(provider, [1, 2, 3] * 20, refused, failure)]) == 0


def test_a_known_cause(provider: FittedProvider) -> None:
    """Where the fit has refusals grow with the load, simulations have them too."""
    found = failed(provider, [1, 2, 3] * 20, [4, 4, 5, 6])
    by_load = replace(found.failures, load=Load(-2.0, 1.0, 1.0))
    assert unexplained([replace(found, failures=by_load)]) == 0


def test_ranks() -> None:
    """Equal numbers are no larger; of five against five that are all smaller the statistic is the textbook's."""
    assert larger_by([2, 2, 2], [2, 2]) == 0
    assert larger_by([], [1, 2]) == 0
    assert larger_by([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]) == pytest.approx(12.5 / (25 * 11 / 12) ** 0.5)
