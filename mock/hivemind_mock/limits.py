"""The rate limits of a provider: fixed windows and token buckets for requests and tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from .config import LimitConfig

_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Reading:
    """One allowance as the headers of a reply show it."""

    kind: str
    """`requests`, `tokens`, `input` or `output`."""
    limit: int
    remaining: int
    reset_s: float
    """Until it is whole again."""


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which allowance is used up, and when to come back."""

    kind: str
    retry_after_s: float


class Limiter:
    """All allowances of one provider. A request is charged to every one of them or to none."""

    def __init__(self, config: LimitConfig) -> None:
        self._config = config
        limits = {"requests": config.rpm, "tokens": config.tpm, "input": config.itpm, "output": config.otpm}
        self._limits = {kind: limit for kind, limit in limits.items() if limit > 0}
        self._allowances = {kind: self._allowance(kind, limit) for kind, limit in self._limits.items()}

    def _allowance(self, kind: str, limit: int) -> Allowance:
        if self._config.window == "fixed":
            return FixedWindow(limit, self._config.window_s)
        return TokenBucket(limit, self._config.window_s, self._config.burst if kind == "requests" else None)

    def check(self, now: float, input_tokens: int, max_tokens: int) -> Refusal | None:
        """The tightest reason to refuse a request, None where there is none."""
        waits = [
            Refusal(kind, allowance.wait_s(now, self._first_charge(kind, input_tokens, max_tokens)))
            for kind, allowance in self._allowances.items()
        ]
        worst = max(waits, key=lambda refusal: refusal.retry_after_s, default=None)
        return worst if worst is not None and worst.retry_after_s > 0 else None

    def charge(self, now: float, input_tokens: int, max_tokens: int) -> None:
        """Charge what a request costs before its answer is known."""
        for kind, allowance in self._allowances.items():
            allowance.take(now, self._first_charge(kind, input_tokens, max_tokens))

    def settle(self, now: float, output_tokens: int) -> None:
        """Charge the tokens that were produced."""
        for kind in ("tokens", "output"):
            if kind in self._allowances and not (kind == "tokens" and self._config.reserve_max_tokens):
                self._allowances[kind].settle(now, output_tokens)

    def readings(self, now: float) -> list[Reading]:
        """Every allowance, as the headers show it."""
        return [
            Reading(kind, self._limits[kind], *allowance.reading(now)) for kind, allowance in self._allowances.items()
        ]

    def _first_charge(self, kind: str, input_tokens: int, max_tokens: int) -> float:
        if kind == "requests":
            return 1
        if kind == "output":
            return 0
        reserved = max_tokens if kind == "tokens" and self._config.reserve_max_tokens else 0
        return max(input_tokens, reserved)
