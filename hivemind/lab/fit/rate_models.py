"""Rate limits as providers implement them: fixed windows and token buckets.

Used by the mock provider and by the model fitted to a recording.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

_ROUNDING_S = 1e-6


class Allowance(Protocol):
    """A rate limit in use."""

    def wait_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` fits; 0: it fits now."""

    def take(self, now: float, amount: float) -> None:
        """Charge an amount, whether it fits or not."""

    def settle(self, now: float, amount: float) -> None:
        """Charge the actual use of an earlier request, without starting a window."""

    def reading(self, now: float) -> tuple[int, float]:
        """Return what remains, and the seconds until all of it is back."""


class FixedWindow:
    """A window that starts with the first request after the previous one ended."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._limit = limit
        self._span_s = span_s
        self._started = -math.inf
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        left_s = self._left_s(now)
        return 0.0 if not left_s or self._used + amount <= self._limit else left_s

    def take(self, now: float, amount: float) -> None:
        if not self._left_s(now):
            self._started, self._used = now, 0.0
        self._used += amount

    def settle(self, now: float, amount: float) -> None:
        if self._left_s(now):
            self._used += amount

    def reading(self, now: float) -> tuple[int, float]:
        left_s = self._left_s(now)
        used = self._used if left_s else 0.0
        return max(0, math.floor(self._limit - used)), left_s

    def _left_s(self, now: float) -> float:
        left_s = self._started + self._span_s - now
        return left_s if left_s > _ROUNDING_S else 0.0


class TokenBucket:
    """A bucket refilled at a steady rate up to its size."""

    def __init__(self, limit: int, span_s: float, size: int | None = None) -> None:
        self._rate = limit / span_s
        self._size = float(size or limit)
        self._level = self._size
        self._at = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        # A request larger than the bucket passes when the bucket is full; otherwise it never could.
        missing = min(amount, self._size) - self._filled(now)
        return max(0.0, missing / self._rate) if missing > self._rate * _ROUNDING_S else 0.0

    def take(self, now: float, amount: float) -> None:
        self._level = self._filled(now) - amount
        self._at = now

    settle = take

    def reading(self, now: float) -> tuple[int, float]:
        level = self._filled(now)
        return max(0, math.floor(level)), (self._size - level) / self._rate

    def _filled(self, now: float) -> float:
        return min(self._size, self._level + self._rate * max(0.0, now - self._at))


class SharedAllowance:
    """A rate limit that others use too, at known times."""

    def __init__(self, allowance: Allowance, taken: Sequence[tuple[float, float]]) -> None:
        """`taken` holds times and amounts, in order."""
        self._allowance = allowance
        self._outside_use = list(reversed(taken))

    def wait_s(self, now: float, amount: float) -> float:
        return self._at(now).wait_s(now, amount)

    def take(self, now: float, amount: float) -> None:
        self._at(now).take(now, amount)

    def settle(self, now: float, amount: float) -> None:
        self._at(now).settle(now, amount)

    def reading(self, now: float) -> tuple[int, float]:
        return self._at(now).reading(now)

    def _at(self, now: float) -> Allowance:
        outside_use = self._outside_use
        while outside_use and outside_use[-1][0] <= now:
            at, amount = outside_use.pop()
            self._allowance.take(at, amount)
        return self._allowance
