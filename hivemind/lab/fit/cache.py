"""A provider's prompt cache: how long it keeps the prompt of a conversation after its last use.

Whether a prompt is read from the cache depends on when the conversation's previous request came, and that differs in a
simulation. A conversation is what one agent sends to one model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.records import replace
from hivemind.scheduler.admission.warmth import LEAST
from hivemind.scheduler.types import Usage
from hivemind.text.humanise import duration

_FEW = 3
"""Fewer reads from a cache tell nothing."""
_READ = 0.3
"""A read of at least this share of the conversation's previous prompt is one of the conversation itself."""
_WRONG = 0.15
"""An age that is wrong about a larger share explains nothing."""
_USUAL_S = (300.0, 3600.0)
"""How long providers say that they keep a prompt."""


class Cache(Struct, frozen=True):
    """The prompt of a conversation is kept for some time."""

    keeps_s: float
    share: float
    """Of the previous prompt, what is read."""
    between_s: tuple[float, float]
    """It is kept for a time between these."""
    asked_s: float | None = None
    """Asked is what would be if it was kept for so long instead; 0: if there was no cache."""
    writes: bool = False
    """What isn't read is written, where it was recorded without a cache (:attr:`keeps_s` is 0)."""

    def drawn(self, rng: random.Random) -> Cache:
        """Return another one that the recording allows as well."""
        if self.asked_s == 0 or not self.keeps_s:
            return self
        low_s, high_s = self.between_s
        return replace(self, keeps_s=math.exp(rng.uniform(math.log(low_s), math.log(high_s))))

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        yield f"prompts are read from a cache for about {duration(self.keeps_s)} after their last use"


NO_CACHE = Cache(0.0, 0.0, (0.0, 0.0), asked_s=0.0)
"""What is asked about a provider without a cache."""


def fit_cache(sent: Sequence[RequestAttempt]) -> Cache | None:
    """Fit a cache to attempts in order of their beginnings; None: there is none, or age doesn't explain it.

    Also sets the :attr:`~hivemind.lab.trace.steps.TracedAttempt.unused_s` of each attempt.
    """
    state, read, missed, shares = CacheState(None), [], [], []
    for request, one in sent:
        if one.uncharged:
            continue
        one.unused_s, tokens = state.use(one.granted_at, request, one)
        usage = one.usage
        if math.isinf(one.unused_s) or one.failure is not None or usage is None or not min(tokens, usage.total_input):
            continue
        share = usage.cache_read_tokens / min(tokens, usage.total_input)
        if share >= _READ:
            read.append(one.unused_s)
            shares.append(min(1.0, share))
        else:
            missed.append(one.unused_s)
    if len(read) < _FEW:
        return None
    return _fitted(sorted(read), sorted(missed), sorted(shares)[len(shares) // 2])


def _fitted(read: Sequence[float], missed: Sequence[float], share: float) -> Cache | None:
    ages = sorted([(age, 0) for age in read] + [(age, 1) for age in missed])
    wrong = best = len(read)
    place = 0
    for number, (_, was_missed) in enumerate(ages, 1):
        wrong += 1 if was_missed else -1
        if wrong <= best:
            best, place = wrong, number
    if best > _WRONG * len(ages):
        return None
    low_s = max(ages[place - 1][0], 1e-3) if place else 1e-3
    if place < len(ages):
        high_s = max(low_s, ages[place][0])
        return Cache(math.sqrt(low_s * high_s), share, (low_s, high_s))
    keeps_s = next((each for each in _USUAL_S if each >= low_s), low_s)
    return Cache(keeps_s, share, (low_s, keeps_s))


class CacheState(Struct):
    """The cache in one simulation."""

    fitted: Cache | None
    _kept: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """By conversation, when it was used last and the tokens of its prompt."""

    def use(self, now: float, request: RequestStep, one: TracedAttempt) -> tuple[float, int]:
        """Take a request, and return for how long its conversation was unused and the tokens of its prompt then."""
        conversation = request.arrived.agent, request.arrived.model
        used_at, tokens = self._kept.get(conversation, (-math.inf, 0))
        usage = one.usage
        own = usage.total_input if usage is not None and usage.total_input else request.arrived.estimated_input
        self._kept[conversation] = now, own
        return now - used_at, tokens

    def usage(self, now: float, request: RequestStep, one: TracedAttempt) -> Usage | None:
        """Take a request, and return what its answer uses, with more or less from the cache than in the recording."""
        unused_s, tokens = self.use(now, request, one)
        fitted, usage = self.fitted, one.usage
        if fitted is None or usage is None or one.failure is not None:
            return usage
        if fitted.asked_s == 0:
            return _uncached(usage)
        keeps_s = fitted.keeps_s if fitted.asked_s is None else fitted.asked_s
        is_read, was_read = unused_s <= keeps_s, one.unused_s <= fitted.keeps_s
        if not fitted.keeps_s and usage.total_input >= LEAST:
            usage = usage.reading(round(fitted.share * min(tokens, usage.total_input)) if is_read else 0)
            new = usage.input_tokens if fitted.writes else 0
            return replace(usage, input_tokens=usage.input_tokens - new, cache_write_tokens=new)
        if is_read == was_read or not fitted.keeps_s:
            return usage
        if was_read:
            return usage.reading(-usage.cache_read_tokens)
        return usage.reading(round(fitted.share * min(tokens, usage.total_input)) - usage.cache_read_tokens)


def _uncached(usage: Usage) -> Usage:
    """Return the usage of the same answer without a cache."""
    if usage.total_input == usage.input_tokens:
        return usage
    return replace(
        usage, input_tokens=usage.total_input, cache_read_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0
    )
