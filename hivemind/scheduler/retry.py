"""When a failed attempt may be made again (paper, equation 4), and how many of them there may be."""

from __future__ import annotations

import math

from .config import RetryConfig


def backoff_s(config: RetryConfig, failures: int, draw: float) -> float:
    """Delay before the next attempt after `failures` earlier ones in a row: paper, equation 4.

    `draw` is uniform in [0, 1).
    """
    return min(config.max_s, config.base_s * 2.0 ** min(failures, 30) + draw * config.base_s)


class RetryBudget:
    """Retries as a share of the traffic, so that an outage isn't answered with a multiple of it.

    Each request earns a fraction of a retry, and so does each second; a retry that isn't covered yet is put off until
    it will be, rather than refused.
    """

    __slots__ = ("_balance", "_config", "_earned_at")

    def __init__(self, config: RetryConfig) -> None:
        self._config = config
        self._balance = config.budget_reserve
        self._earned_at: float | None = None

    def earn(self) -> None:
        """A request arrived."""
        self._balance = min(self._config.budget_reserve, self._balance + self._config.budget_ratio)

    def spend(self, now: float) -> float:
        """Take one retry. Returns the seconds it must be put off for, 0 where the budget covers it, inf where it never
        will."""
        if self._earned_at is not None:
            earned = (now - self._earned_at) * self._config.budget_rate_per_s
            self._balance = min(self._config.budget_reserve, self._balance + earned)
        self._earned_at = now
        if self._balance < 1 and not self._config.budget_rate_per_s:
            return math.inf
        self._balance -= 1
        return max(0.0, -self._balance / self._config.budget_rate_per_s) if self._balance < 0 else 0.0
