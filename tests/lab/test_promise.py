"""What a tuning promises: the interval of the gain, and nothing where refusals have no cause in the models."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from lab.kit import recorded, served

from hivemind.lab.fit.failures import Failures
from hivemind.lab.fit.load import Load
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.foresight.ranges import Evidence, Range
from hivemind.lab.trace.steps import TracedAttempt
from hivemind.lab.tune.promise import gained, larger_by, unexplained
from hivemind.records import replace
from hivemind.scheduler.types import Failure, FailureKind


def gain(own: float, pairs: list[float], *, error: float = 0.0) -> Range:
    """The gain of a run and of pairs of draws, each as a logarithm."""
    after = [100 * math.exp(-each) for each in pairs]
    found = gained(Evidence(100.0, 100 * math.exp(-own), [100.0] * len(pairs), after, 1.0, [0] * len(pairs), error))
    assert found is not None
    return found


def test_many_draws_are_no_surer() -> None:
    """The interval is that of a run: however many draws agree on the mean, a run differs as they do."""
    rng = random.Random(1)
    few, many = (gain(0.2, [rng.gauss(0.2, 0.1) for _ in range(count)]) for count in (12, 400))
    assert many.high - many.low == pytest.approx(few.high - few.low, rel=0.3)
    assert many.value == pytest.approx(-math.expm1(-0.2), abs=0.02)
    assert 0 < many.low < 0.06


def test_a_large_gain_is_sure_to_be_one() -> None:
    """Where draws and recorded luck agree, models may be wrong by a share of the gain: at least half of it is sure."""
    small, large = (gain(middle, [middle - 0.01, middle + 0.01] * 6) for middle in (0.1, 1.0))
    assert large.high - large.low > small.high - small.low
    assert -math.log(1 - large.low) > 0.5
    assert small.low > 0.02


def test_what_makes_it_unsure() -> None:
    """Draws that disagree with the recorded luck, and models that are off on what they haven't seen, widen it."""
    pairs = [0.19, 0.21] * 6
    agreed, disagreed, off = gain(0.2, pairs), gain(0.1, pairs), gain(0.2, pairs, error=0.4)
    assert disagreed.value < agreed.value
    assert disagreed.low < agreed.low
    assert off.value == pytest.approx(agreed.value)
    assert off.low < agreed.low


def test_too_little_for_shares() -> None:
    """Of a figure that is too small no share is promised."""
    assert gained(Evidence(4.0, 3.0, [4.0] * 4, [3.0] * 4, 1.0, [0] * 4, 0.0)) is None


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
