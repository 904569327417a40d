"""The delay before another attempt, and the budget of them all."""

from __future__ import annotations

import math

import pytest

from hivemind.scheduler.admission.retry import Retries, backoff_s
from hivemind.scheduler.config import RetryConfig


@pytest.mark.parametrize(
    ("failures", "draw", "delay_s"),
    [(0, 0.0, 1.0), (1, 0.0, 2.0), (2, 0.0, 4.0), (3, 0.5, 8.5), (4, 0.9, 16.9), (5, 0.0, 30.0), (10_000, 0.9, 30.0)],
)
def test_backoff_doubles_with_jitter_up_to_its_most(failures: int, draw: float, delay_s: float) -> None:
    """Equation 4: min(d_max, d_base * 2^k + U(0, d_base))."""
    assert backoff_s(RetryConfig(base_s=1.0, max_s=30.0), failures, draw) == pytest.approx(delay_s)


def test_the_reserve_may_be_spent_at_once() -> None:
    """So many retries are free before any were earned; the next are put off, each longer than the last."""
    budget = Retries(RetryConfig(budget_reserve=3, budget_rate_per_s=2.0))
    assert [budget.spend(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]


def test_requests_earn_retries() -> None:
    """Five requests at a ratio of a fifth pay for one retry."""
    budget = Retries(RetryConfig(budget_reserve=1, budget_ratio=0.2, budget_rate_per_s=1.0))
    budget.spend(0.0)
    for _ in range(5):
        budget.earn()
    assert budget.spend(0.0) == pytest.approx(0.0)
    assert budget.spend(0.0) == pytest.approx(1.0)


def test_time_earns_retries() -> None:
    """So that a lane without traffic isn't barred from retrying for ever."""
    budget = Retries(RetryConfig(budget_reserve=1, budget_rate_per_s=1.0))
    assert [budget.spend(0.0), budget.spend(0.0)] == [0.0, 1.0]
    assert budget.spend(2.0) == 0.0


def test_a_budget_that_time_does_not_fill_ends() -> None:
    """Where only requests earn retries, one that isn't covered is never due."""
    budget = Retries(RetryConfig(budget_reserve=1, budget_ratio=1.0, budget_rate_per_s=0.0))
    assert [budget.spend(0.0), budget.spend(9.0)] == [0.0, math.inf]
    budget.earn()
    assert budget.spend(10.0) == 0.0


def test_no_more_is_saved_up_than_the_reserve() -> None:
    """A quiet hour doesn't pay for a storm."""
    budget = Retries(RetryConfig(budget_reserve=2, budget_ratio=1.0, budget_rate_per_s=1.0))
    for _ in range(1000):
        budget.earn()
    budget.spend(0.0)
    assert [budget.spend(3600.0) for _ in range(3)] == [0.0, 0.0, 1.0]
