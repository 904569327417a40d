"""How providers count what may be used in so much time: a window that begins anew, or a bucket that drips full.

The mock provider counts so, and the model that is fitted to a recording.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

_ROUNDING_S = 1e-6


class Allowance(Protocol):
    """So much in so much time."""

    def wait_s(self, now: float, amount: float) -> float:
        """Seconds until `amount` would fit; 0: it fits now."""

    def take(self, now: float, amount: float) -> None:
        """Charge it, whether it fits or not."""

    def settle(self, now: float, amount: float) -> None:
        """Charge what an earlier request turned out to use; never starts a window."""

    def reading(self, now: float) -> tuple[int, float]:
        """What remains, and seconds until all of it is back."""


class FixedWindow:
    """The first request after the previous window ended starts the next one."""

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
    """Refilled steadily, never above its size."""

    def __init__(self, limit: int, span_s: float, size: int | None = None) -> None:
        self._rate = limit / span_s
        self._size = float(size or limit)
        self._level = self._size
        self._at = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        # More than the bucket holds may pass when it is full, or it could never pass at all.
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
    """An allowance of which others take too, at moments that are known."""

    def __init__(self, allowance: Allowance, taken: Sequence[tuple[float, float]]) -> None:
        """`taken` is when and how much, in order."""
        self._allowance = allowance
        self._to_come = list(reversed(taken))

    def wait_s(self, now: float, amount: float) -> float:
        return self._at(now).wait_s(now, amount)

    def take(self, now: float, amount: float) -> None:
        self._at(now).take(now, amount)

    def settle(self, now: float, amount: float) -> None:
        self._at(now).settle(now, amount)

    def reading(self, now: float) -> tuple[int, float]:
        return self._at(now).reading(now)

    def _at(self, now: float) -> Allowance:
        to_come = self._to_come
        while to_come and to_come[-1][0] <= now:
            at, amount = to_come.pop()
            self._allowance.take(at, amount)
        return self._allowance
