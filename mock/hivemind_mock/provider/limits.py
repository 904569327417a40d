"""The rate limits of a provider: fixed windows, token buckets and sliding windows for requests and tokens."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.lab.fit.limiter import Allowance, FixedWindow, SlidingWindow, TokenBucket
from hivemind_mock.provider.config import LimitConfig


@dataclass(frozen=True, slots=True)
class Reading:
    """One allowance as the headers of a reply show it."""

    kind: str
    """`requests`, `tokens`, `input` or `output`."""
    limit: int
    remaining: int
    reset_s: float
    """Until it is whole again."""


class RateLimiter:
    """All allowances of one provider. A request is charged to every one of them or to none."""

    def __init__(self, config: LimitConfig) -> None:
        self._config = config
        limits = {"requests": config.rpm, "tokens": config.tpm, "input": config.itpm, "output": config.otpm}
        self._limits = {kind: limit for kind, limit in limits.items() if limit > 0}
        self._allowances = {kind: self._allowance(kind, limit) for kind, limit in self._limits.items()}

    def _allowance(self, kind: str, limit: int) -> Allowance:
        if self._config.window == "sliding":
            return SlidingWindow(limit, self._config.window_s)
        if self._config.window == "fixed":
            return FixedWindow(limit, self._config.window_s)
        return TokenBucket(limit, self._config.window_s, self._config.burst if kind == "requests" else None)

    def check(self, now: float, input_tokens: int, max_tokens: int) -> tuple[str, float] | None:
        """Which allowance refuses a request, and when to come back, in seconds; None: none does."""
        waits = {
            kind: allowance.wait_s(now, self._first_charge(kind, input_tokens, max_tokens))
            for kind, allowance in self._allowances.items()
        }
        kind, wait_s = max(waits.items(), key=lambda wait: wait[1], default=("", 0.0))
        return (kind, wait_s) if wait_s > 0 else None

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
        if not self._config.stated:
            return []
        return [
            Reading(kind, self._limits[kind], *allowance.reading(now)) for kind, allowance in self._allowances.items()
        ]

    def in_words(self, kind: str) -> str:
        """An allowance as Anthropic's refusals name it, with its size where replies state it."""
        limit = f"{self._limits[kind]:,} " if self._config.stated else ""
        what = f"{kind} tokens" if kind in ("input", "output") else kind
        return f"organization's rate limit of {limit}{what} per minute"

    def _first_charge(self, kind: str, input_tokens: int, max_tokens: int) -> float:
        if kind == "requests":
            return 1
        if kind == "output":
            return 0
        reserved = max_tokens if kind == "tokens" and self._config.reserve_max_tokens else 0
        return max(input_tokens, reserved)
