"""Rate limits as providers implement them, and the windows of one lane in use.

The mock provider uses the same windows and token buckets as the model fitted to a recording.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from hivemind.lab.trace.steps import RequestStep
from hivemind.records import replace
from hivemind.scheduler.types import Usage, WindowKind, WindowReading
from hivemind.text.humanise import count, duration, percent

_ROUNDING_S = 1e-6
ONE_END_S = 1.5
"""Readings of one window's end differ by at most so much."""
LITTLE_USED = 0.15
"""Headers of a limit of which a smaller share was ever used tell little of its span and form."""
MARGIN = 0.03
"""A limit explains a refusal if at most this share of it would have been left."""


class FixedWindow:
    """A window that starts with the first request after the previous one ended."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._limit = limit
        self._span_s = span_s
        self._started = -math.inf
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` fits; 0: it fits now."""
        left_s = self._left_s(now)
        return 0.0 if not left_s or self._used + amount <= self._limit else left_s

    def take(self, now: float, amount: float) -> None:
        """Charge an amount, whether it fits or not."""
        if not self._left_s(now):
            self._started, self._used = now, 0.0
        self._used += amount

    def settle(self, now: float, amount: float) -> None:
        """Charge the actual use of an earlier request, without starting a window."""
        if self._left_s(now):
            self._used += amount

    def reading(self, now: float) -> tuple[int, float]:
        """Return what remains, and the seconds until all of it is back."""
        left_s = self._left_s(now)
        used = self._used if left_s else 0.0
        return max(0, math.floor(self._limit - used)), left_s

    def _left_s(self, now: float) -> float:
        left_s = self._started + self._span_s - now
        return left_s if left_s > _ROUNDING_S else 0.0


class TokenBucket:
    """A bucket refilled at a steady rate up to its size, used like a fixed window."""

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


class SlidingWindow:
    """The last `span_s` seconds, whenever they are looked at; used like a fixed window."""

    def __init__(self, limit: int, span_s: float) -> None:
        self._limit = limit
        self._span_s = span_s
        self._taken: deque[tuple[float, float]] = deque()
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` fits; 0: it fits now. More than the limit fits when nothing else is in."""
        self._forget(now)
        excess, wait_s = self._used + min(amount, self._limit) - self._limit, 0.0
        for at, taken in self._taken:
            if excess <= 0:
                break
            excess -= taken
            wait_s = at + self._span_s - now
        return wait_s

    def take(self, now: float, amount: float) -> None:
        """Charge an amount, whether it fits or not."""
        self._forget(now)
        self._taken.append((now, amount))
        self._used += amount

    settle = take

    def reading(self, now: float) -> tuple[int, float]:
        """Return what remains, and the seconds until all of it is back."""
        self._forget(now)
        reset_s = self._taken[-1][0] + self._span_s - now if self._taken else 0.0
        return max(0, math.floor(self._limit - self._used)), reset_s

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0][0] <= now - self._span_s:
            self._used -= self._taken.popleft()[1]


Allowance = FixedWindow | TokenBucket | SlidingWindow
"""A rate limit in use."""
Form = Literal["fixed", "sliding", "bucket"]
"""How a provider counts: in windows one after the other, over the last so many seconds, or by a token bucket."""


class FittedLimit(Struct, frozen=True):
    """One window of a family of models."""

    family: str
    kind: WindowKind
    limit: int
    form: Form
    span_s: float
    size: int | None = None
    """The size of a bucket that holds less than its limit."""
    whole_seconds: bool = False
    """Responses report resets in whole seconds."""
    reported: bool = True
    """Responses report it."""
    used_most: float = 0.0
    """The largest used share, 0 to 1."""
    spent: float = 0.0
    """Used before the recording began, in the window that ends in `spent_for_s`."""
    spent_for_s: float = 0.0
    pool: str = ""
    """Limits with the same name share one window; empty: not shared."""
    others: tuple[tuple[float, float], ...] = ()
    """Times and amounts of use by others."""
    counts_cached: bool = False
    """Input that is read from a cache counts, too."""
    says_when: bool = True
    """Its refusals say when to come back."""
    always_s: float | None = None
    """They always ask to wait for so long, whatever would be right."""
    spans_s: tuple[float, float] | None = None
    """The span is between these; None: it is certain."""

    def drawn(self, rng: random.Random) -> FittedLimit:
        """Return another one that the recording allows as well."""
        return self if self.spans_s is None else replace(self, span_s=rng.uniform(*self.spans_s))

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        what = {"requests": "requests", "tokens": "tokens", "input": "input tokens", "output": "output tokens"}
        amount, span = f"{count(self.limit)} {what[self.kind.value]}", duration(self.span_s)
        family = f" of {self.family}" if self.family else ""
        if self.form == "bucket":
            holds = f", which holds {count(self.size)}" if self.size is not None else ""
            found = f"a bucket{family} is filled with {amount} in {span}{holds}"
        elif self.form == "sliding":
            found = f"at most {amount}{family} are taken in any {span}"
        else:
            found = f"at most {amount}{family} are taken in a window of {span}"
        if not self.reported:
            found += "; no header says so, its refusals do"
        elif self.used_most < LITTLE_USED:
            found += f"; never was more than {percent(self.used_most)} of it used, so this is little more than a guess"
        yield found

    def times(self, by: float) -> FittedLimit:
        """Return the limit of another tier: so many times as much in the same time."""
        size = None if self.size is None else max(1, round(self.size * by))
        return replace(self, limit=max(1, round(self.limit * by)), size=size)

    def amount(self, amounts: Amounts, *, reserves: bool) -> float:
        """Return what a request is charged at its beginning."""
        return amounts.first(self.kind, reserves=reserves, cached=self.counts_cached)

    def retry_after_s(self, wait_s: float) -> float | None:
        """Return the Retry-After of a refusal of what would fit after a time."""
        if not self.says_when:
            return None
        return float(math.ceil(wait_s)) if self.always_s is None else self.always_s

    def begin(self, now: float, *, unused: bool = False) -> Allowance:
        """Return its state when the recording began. `unused`: nothing was used before."""
        if self.form == "bucket":
            return TokenBucket(self.limit, self.span_s, self.size)
        if self.form == "sliding":
            return SlidingWindow(self.limit, self.span_s)
        window = FixedWindow(self.limit, self.span_s)
        if self.spent and not unused:
            window.take(now - (self.span_s - self.spent_for_s), self.spent)
        return window


class Amounts(NamedTuple):
    """What one request charges to each kind of window."""

    tokens_in: int
    """Without those read from a cache."""
    max_out: int
    cached: int = 0

    def first(self, kind: WindowKind, *, reserves: bool, cached: bool = False) -> float:
        """Return the charge at the beginning.

        `reserves`: the provider charges the longest possible answer; `cached`: and what is read from a cache.
        """
        if kind.counts_requests:
            return 1.0
        if kind is WindowKind.OUTPUT:
            return 0.0
        tokens_in = self.tokens_in + self.cached if cached else self.tokens_in
        return float(max(tokens_in, self.max_out if reserves and kind is WindowKind.TOKENS else 0))


def amounts_of(request: RequestStep, usage: Usage | None) -> Amounts:
    """Return what an attempt charges, by its actual usage if that is known."""
    arrived = request.arrived
    if usage is None or not usage.total_input:
        usage = None if request.answered is None else request.answered.usage
    tokens_in, cached = arrived.estimated_input, 0
    if usage is not None and usage.total_input:
        tokens_in, cached = usage.input_tokens + usage.cache_write_tokens, usage.cache_read_tokens
    return Amounts(tokens_in, arrived.max_output_tokens or 0, cached)


OutsideUse = list[tuple[float, float]]
"""Times and amounts of use by others that is still to come, the next one last."""
Pools = dict[tuple[str, WindowKind], tuple[Allowance, OutsideUse]]
"""Shared windows by the name of their pool."""


class LimitState:
    """The windows of one lane in use: a request is charged to each of its family, or to none."""

    def __init__(
        self,
        limits: Iterable[FittedLimit],
        began_at: float,
        wall_offset: float,
        *,
        reserves: bool,
        pools: Pools | None = None,
        unused: bool = False,
    ) -> None:
        """`wall_offset` converts times to seconds since the epoch; `pools` holds the windows that limiters share.

        `unused`: what was used before the beginning isn't taken, because the caller charges it.
        """
        pools = {} if pools is None else pools
        self._windows: dict[str, list[tuple[FittedLimit, Allowance, OutsideUse]]] = {}
        self._wall_offset = wall_offset
        self._reserves = reserves
        for each in limits:
            state = each.begin(began_at, unused=unused), list(reversed(each.others))
            if each.pool:
                state = pools.setdefault((each.pool, each.kind), state)
            self._windows.setdefault(each.family, []).append((each, *state))

    def _at(self, now: float, family: str) -> Iterator[tuple[FittedLimit, Allowance]]:
        """Yield the windows of a family, with the use by others until now."""
        for limit, allowance, outside_use in self._windows.get(family, ()):
            while outside_use and outside_use[-1][0] <= now:
                allowance.take(*outside_use.pop())
            yield limit, allowance

    def wait_s(self, now: float, family: str, amounts: Amounts) -> float:
        """Return the seconds until the request fits; 0: it fits now."""
        return self.refuses(now, family, amounts)[0]

    def refuses(self, now: float, family: str, amounts: Amounts) -> tuple[float, float | None]:
        """Return the seconds until the request fits (0: it fits now), and the Retry-After of a refusal."""
        longest_s, retry_after_s = 0.0, None
        for limit, allowance in self._at(now, family):
            wait_s = allowance.wait_s(now, limit.amount(amounts, reserves=self._reserves))
            if wait_s > longest_s:
                longest_s, retry_after_s = wait_s, limit.retry_after_s(wait_s)
        return longest_s, retry_after_s

    def left(self, now: float, family: str) -> dict[WindowKind, int]:
        """Return what remains of each window."""
        return {limit.kind: allowance.reading(now)[0] for limit, allowance in self._at(now, family)}

    def missing(
        self, now: float, family: str, readings: Iterable[WindowReading]
    ) -> Iterator[tuple[FittedLimit, float]]:
        """Charge and yield what readings lack in windows of requests: use by others."""
        reported = {each.kind: each for each in readings}
        for limit, allowance in self._at(now, family):
            reading = reported.get(limit.kind)
            if limit.kind is not WindowKind.REQUESTS or reading is None or reading.remaining is None:
                continue
            left, reset_in_s = allowance.reading(now)
            missing = left - reading.remaining
            # Around the start of a window the two may differ in which one they mean; a bucket's level is rounded.
            reported_s = reading.reset_in_s or 0.0
            if limit.form != "bucket" and (reported_s <= ONE_END_S or abs(reported_s - reset_in_s) > ONE_END_S):
                continue
            if missing >= (2 if limit.form == "bucket" else 1):
                allowance.take(now, missing)
                yield limit, float(missing)

    def nearly_refuses(self, now: float, family: str, amounts: Amounts) -> bool:
        """Return whether some window would have so little left after a request that it explains a refusal."""
        return any(
            allowance.reading(now)[0] < limit.amount(amounts, reserves=self._reserves) + max(2.0, MARGIN * limit.limit)
            for limit, allowance in self._at(now, family)
        )

    def charge(self, now: float, family: str, amounts: Amounts) -> None:
        """Charge a request that was accepted."""
        for limit, allowance in self._at(now, family):
            allowance.take(now, limit.amount(amounts, reserves=self._reserves))

    def settle(self, now: float, family: str, usage: Usage | None) -> None:
        """Charge the usage of an answer that is over."""
        if usage is None or not usage.output_tokens:
            return
        for limit, allowance in self._at(now, family):
            if limit.kind is WindowKind.OUTPUT or (limit.kind is WindowKind.TOKENS and not self._reserves):
                allowance.settle(now, usage.output_tokens)

    def readings(self, now: float, family: str) -> tuple[WindowReading, ...]:
        """Return the windows as a response reports them."""
        return tuple(self._reading(now, limit, each) for limit, each in self._at(now, family) if limit.reported)

    def _reading(self, now: float, limit: FittedLimit, allowance: Allowance) -> WindowReading:
        left, reset_in_s = allowance.reading(now)
        if limit.whole_seconds:
            wall = now + self._wall_offset
            reset_in_s = math.ceil(wall + reset_in_s - 1e-6) - wall
        return WindowReading(limit.kind, limit.limit, left, reset_in_s)
