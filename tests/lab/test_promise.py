"""The interval of a promised gain."""

from __future__ import annotations

import math
import random

import pytest

from hivemind.lab.foresight.ranges import Evidence, Range
from hivemind.lab.tune.promise import gained


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
