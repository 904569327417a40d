"""Rules of strange providers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.worlds.rules import Asked, Refusal
from hivemind_mock.provider.formats.base import ErrorKind
from hivemind_mock.provider.limits import Reading


class _Told:
    """A rule whose headers say nothing, and that answers aren't charged to."""

    def taken(self, now: float, asked: Asked) -> None:
        """Charge nothing."""

    def settled(self, now: float, output_tokens: int) -> None:
        """Charge nothing."""

    def readings(self, now: float) -> Sequence[Reading]:
        """Say nothing."""
        return ()


@dataclass(slots=True)
class AdaptivePlaces(_Told):
    """So many requests at once; the limit shrinks with each refusal and grows again with time."""

    most: float
    least: float = 1.0
    grows_per_s: float = 0.05
    _now: float = field(init=False)
    _at: float = 0.0

    def __post_init__(self) -> None:
        self._now = self.most

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        """Refuse what is above the present limit."""
        self._now = min(self.most, self._now + self.grows_per_s * (now - self._at))
        self._at = now
        if active < self._now:
            return None
        self._now = max(self.least, 0.8 * self._now)
        return Refusal(ErrorKind.RATE_LIMITED, 2.0)


@dataclass(slots=True)
class TokensActive(_Told):
    """So many tokens of active requests together, by prompts and longest answers."""

    most: int
    retry_after_s: float | None = 1.0

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        """Refuse what would be too much together with all others."""
        own = asked.input_tokens + asked.max_tokens
        over = asked.tokens_active + own > self.most and active > 0
        return Refusal(ErrorKind.OVERLOADED, self.retry_after_s) if over else None


@dataclass(slots=True)
class DebtBucket:
    """A bucket of tokens that takes any request while something is left, and may then be in debt."""

    per_s: float
    size: float
    _level: float = field(init=False)
    _at: float = 0.0

    def __post_init__(self) -> None:
        self._level = self.size

    def _fill(self, now: float) -> None:
        self._level = min(self.size, self._level + self.per_s * (now - self._at))
        self._at = now

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        """Refuse while it is in debt."""
        self._fill(now)
        return None if self._level > 0 else Refusal(ErrorKind.RATE_LIMITED, math.ceil(-self._level / self.per_s) + 1.0)

    def taken(self, now: float, asked: Asked) -> None:
        """Charge the prompt."""
        self._fill(now)
        self._level -= asked.input_tokens

    def settled(self, now: float, output_tokens: int) -> None:
        """Charge the answer."""
        self._fill(now)
        self._level -= output_tokens

    def readings(self, now: float) -> Sequence[Reading]:
        """Say what is left of a minute's worth."""
        self._fill(now)
        left = max(0, math.floor(self._level))
        return (Reading("tokens", round(self.per_s * 60), left, (self.size - self._level) / self.per_s),)


@dataclass(slots=True)
class Acceleration(_Told):
    """No more requests than somewhat more than in the time before."""

    span_s: float
    by: float
    free: int
    """So many are always taken."""
    _taken: deque[float] = field(default_factory=deque)

    def refuses(self, now: float, asked: Asked, active: int) -> Refusal | None:
        """Refuse what comes faster than the last requests by too much."""
        while self._taken and self._taken[0] <= now - 2 * self.span_s:
            self._taken.popleft()
        recent = sum(at > now - self.span_s for at in self._taken)
        before = len(self._taken) - recent
        return None if recent < self.free + self.by * before else Refusal(ErrorKind.RATE_LIMITED, None)

    def taken(self, now: float, asked: Asked) -> None:
        """Count it."""
        self._taken.append(now)
