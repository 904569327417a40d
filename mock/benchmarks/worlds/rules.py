"""What providers do to requests: rate limits, limits of requests at once, failures, caches. Each rule is one cause."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hivemind_mock.provider.config import LimitConfig
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.formats.base import ErrorKind
from hivemind_mock.provider.limits import RateLimiter, Reading


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as a rule sees it."""

    input_tokens: int
    max_tokens: int
    agent: str
    tokens_active: int = 0
    """Input and longest output of all requests that are active."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request isn't taken."""

    kind: ErrorKind
    retry_after_s: float | None = None


class Gate(Protocol):
    """Takes requests, or refuses them."""

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        """Return how it refuses a request while so many are active; None: it takes it."""

    def taken(self, now: float, asked: Asked) -> None:
        """Charge a request that every gate took."""

    def settled(self, now: float, output_tokens: int) -> None:
        """Charge its answer."""

    def readings(self, now: float) -> Sequence[Reading]:
        """Return what its headers say."""


class Failing(Protocol):
    """Lets requests fail that were taken."""

    def fault(self, now: float, active: int, luck: random.Random) -> Fault | Refusal | None:
        """Return how a request fails; None: it doesn't."""


RetryAfter = Callable[[float], float | None]
"""What a refusal says, by the seconds after which the request would be taken."""


def exactly(wait_s: float) -> float | None:
    """Say when it would be taken."""
    return wait_s


def nothing(wait_s: float) -> float | None:
    """Say nothing."""
    return None


@dataclass(slots=True)
class Windows:
    """Rate limits."""

    config: LimitConfig
    says: RetryAfter = exactly
    _limiter: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._limiter = RateLimiter(self.config)

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        found = self._limiter.check(now, asked.input_tokens, asked.max_tokens)
        return None if found is None else Refusal(ErrorKind.RATE_LIMITED, self.says(found[1]))

    def taken(self, now: float, asked: Asked) -> None:
        self._limiter.charge(now, asked.input_tokens, asked.max_tokens)

    def settled(self, now: float, output_tokens: int) -> None:
        self._limiter.settle(now, output_tokens)

    def readings(self, now: float) -> Sequence[Reading]:
        return self._limiter.readings(now)


@dataclass(slots=True)
class AlignedWindow:
    """So many requests in each minute of the clock; its headers say so."""

    requests: int
    span_s: float = 60.0
    told: bool = True
    _number: int = -1
    _used: int = 0

    def _roll(self, now: float) -> None:
        number = int(now // self.span_s)
        if number != self._number:
            self._number, self._used = number, 0

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        self._roll(now)
        if self._used < self.requests:
            return None
        return Refusal(ErrorKind.RATE_LIMITED, (self._number + 1) * self.span_s - now)

    def taken(self, now: float, asked: Asked) -> None:
        self._roll(now)
        self._used += 1

    def settled(self, now: float, output_tokens: int) -> None:
        pass

    def readings(self, now: float) -> Sequence[Reading]:
        self._roll(now)
        if not self.told:
            return ()
        left_s = (self._number + 1) * self.span_s - now
        return (Reading("requests", self.requests, self.requests - self._used, left_s),)


@dataclass(slots=True)
class Places:
    """So many requests at once."""

    most: int
    kind: ErrorKind = ErrorKind.RATE_LIMITED
    retry_after_s: float | None = 2.0

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        return Refusal(self.kind, self.retry_after_s) if active >= self.most else None

    def taken(self, now: float, asked: Asked) -> None:
        pass

    def settled(self, now: float, output_tokens: int) -> None:
        pass

    def readings(self, now: float) -> Sequence[Reading]:
        return ()


@dataclass(slots=True)
class Spells:
    """At some times a share of all requests fails."""

    times: Sequence[tuple[float, float]]
    share: float = 1.0
    kind: ErrorKind = ErrorKind.OVERLOADED

    def fault(self, now: float, active: int, luck: random.Random) -> Fault | Refusal | None:
        inside = any(began <= now < ended for began, ended in self.times)
        return Refusal(self.kind) if inside and luck.random() < self.share else None


@dataclass(slots=True)
class ByLoad:
    """The more are active, the more fail."""

    at: float
    """With so many active half of them fail."""
    width: float

    def fault(self, now: float, active: int, luck: random.Random) -> Fault | Refusal | None:
        share = 1 / (1 + math.exp(-(active - self.at) / self.width))
        return Refusal(ErrorKind.OVERLOADED) if luck.random() < share else None


@dataclass(slots=True)
class Chance:
    """Some fail."""

    rates: Sequence[tuple[Fault, float]]

    def fault(self, now: float, active: int, luck: random.Random) -> Fault | Refusal | None:
        drawn = luck.random()
        for fault, rate in self.rates:
            if drawn < rate:
                return fault
            drawn -= rate
        return None


@dataclass(slots=True)
class Cache:
    """Prompts of a conversation, kept for some time after their last use."""

    keeps_s: float
    _kept: dict[str, tuple[float, int]] = field(default_factory=dict)

    def read(self, now: float, asked: Asked) -> int:
        """Return how many input tokens are in the cache, and keep the prompt."""
        at, tokens = self._kept.get(asked.agent, (-math.inf, 0))
        self._kept[asked.agent] = now, asked.input_tokens
        return min(tokens, asked.input_tokens) if now - at <= self.keeps_s else 0
