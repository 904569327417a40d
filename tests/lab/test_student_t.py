"""Quantiles of Student's t."""

from __future__ import annotations

import pytest

from hivemind.lab.student_t import t_quantile


@pytest.mark.parametrize(
    ("degrees", "alpha", "expected"),
    [
        (1, 0.05, 12.706),
        (1, 0.1, 6.314),
        (2, 0.01, 9.925),
        (9, 0.05, 2.262),
        (30, 0.001, 3.646),
        (120, 0.05, 1.980),
        (200, 0.05, 1.972),
    ],
)
def test_quantiles(degrees: int, alpha: float, expected: float) -> None:
    """They are those of the usual tables."""
    assert t_quantile(degrees, alpha) == pytest.approx(expected, abs=0.001)


def test_more_freedom_is_narrower() -> None:
    """Quantiles fall with the degrees of freedom, and stay above the normal distribution's."""
    values = [t_quantile(degrees, 0.05) for degrees in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 1.96
