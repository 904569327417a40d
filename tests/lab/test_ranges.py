"""Intervals of predicted figures."""

from __future__ import annotations

import math
import random

import pytest

from hivemind.lab.foresight.ranges import Evidence, changed, difference


def test_what_changes_nothing_has_only_the_luck_of_two_runs() -> None:
    """The value is what was recorded, and the interval as wide as draws differ."""
    draws = [90.0, 100.0, 110.0, 95.0, 105.0]
    found = changed(Evidence(100.0, 100.0, draws, draws, 1.0, [0] * 5, 0.0))
    assert found.value == pytest.approx(100.0)
    assert found.low < 90
    assert found.high > 110
    unchanged = difference(Evidence(100.0, 100.0, draws, draws, 1.0, [0] * 5, 0.04))
    assert unchanged is not None
    assert (unchanged.low, unchanged.value, unchanged.high) == pytest.approx((0.0, 0.0, 0.0))


def test_intervals_hold_nine_of_ten() -> None:
    """Where a run is luck alone, so many of the runs that really come are within the interval."""
    rng = random.Random(1)
    held = 0
    for _ in range(2000):
        one = [math.exp(rng.gauss(4, 0.1)) for _ in range(22)]
        found = changed(Evidence(one[0], one[0], one[1:11], one[11:21], 1.0, [0] * 10, 0.0))
        held += found.low <= one[21] <= found.high
    assert 0.86 < held / 2000 < 0.94


def test_a_bias_of_the_model_cancels() -> None:
    """Draws that are all twice as long as the recording say by what share a change alters it."""
    found = changed(Evidence(100.0, 80.0, [200.0] * 4, [160.0] * 4, 1.0, [0] * 4, 0.0))
    assert found.value == pytest.approx(80.0)


def test_luck_matters_less_where_a_part_was_drawn_from() -> None:
    """Of ten times as much the spread is a tenth of the variance, and the sum is scaled up."""
    whole = changed(Evidence(100.0, 100.0, [9.0, 10.0, 11.0], [9.0, 10.0, 11.0], 1.0, [0] * 3, 0.0, least=0.1))
    part = changed(Evidence(100.0, 100.0, [9.0, 10.0, 11.0], [9.0, 10.0, 11.0], 0.1, [0] * 3, 0.0, least=0.1))
    assert part.high - part.low < (whole.high - whole.low) / 2.5


def test_what_differs_between_parts_is_no_luck() -> None:
    """Draws from a slow and a quick part of a recording, each twice with the same figure, are without luck."""
    found = changed(Evidence(100.0, 100.0, [10, 10, 30, 30], [10, 10, 30, 30], 0.2, [0, 0, 3, 3], 0.0, least=0.1))
    assert (found.low, found.high) == pytest.approx((100.0, 100.0))


def test_small_counts_are_compared_by_difference() -> None:
    """None at all stays none, and the interval isn't empty where draws have some."""
    found = changed(Evidence(0.0, 0.0, [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], 1.0, [0] * 3, 0.04))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high > 1
    assert difference(Evidence(0.0, 0.0, [0.0, 1.0], [0.0, 1.0], 1.0, [0] * 2, 0.04)) is None
