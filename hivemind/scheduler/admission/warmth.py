"""What a provider keeps in its cache of an agent's last prompt, and until when.

An expired prompt is written anew, at 12 to 50 times the price of reading it, and mostly counts toward the limit of
input tokens, where one that is read doesn't.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec import Struct

from hivemind.scheduler.types import Usage

LEAST = 1024
"""Tokens of the shortest prefix that any of these providers keeps; for some models it is 2,048 or 4,096."""
SHRUNK = 0.9
"""A prompt shorter than this share of the last one was compacted or is another: little of it is in the cache."""
ON_THE_WAY_S = 5.0  # so much earlier than the provider forgets a prompt it is taken for forgotten
HOUR_S = 3600.0
STEP = 128
"""Automatic caches keep prompts in steps of so many tokens: https://platform.openai.com/docs/guides/prompt-caching."""


class Caching(Struct, frozen=True):
    """What one provider keeps of prompts."""

    kept_s: float
    """Seconds from the last use of a prefix."""
    automatic: bool
    """Of each prompt, so that an answer that states no cache was still written to one."""

    def tokens(self, usage: Usage) -> int:
        """Return how many tokens of a prompt are in the cache when the answer to it has begun; 0: too few."""
        tokens = usage.cache_read_tokens + usage.cache_write_tokens
        if self.automatic:
            tokens += usage.input_tokens
        return tokens if tokens >= LEAST else 0

    def keeps_s(self, usage: Usage, before_s: float) -> float:
        """Return for how long, if its agent's prompts were kept for `before_s`, 0 for not at all: what is only read
        stays for as long as before."""
        if before_s and not usage.cache_write_tokens:
            return before_s
        return HOUR_S if 0 < usage.cache_write_tokens == usage.cache_write_1h_tokens else self.kept_s


CACHING = {
    # Five minutes, renewed by each use; an hour where the request asks for it, which its usage states.
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    "anthropic": Caching(300.0, automatic=False),
    # "5 to 10 minutes of inactivity, up to one hour": https://platform.openai.com/docs/guides/prompt-caching
    "openai": Caching(300.0, automatic=True),
    # https://learn.microsoft.com/azure/ai-foundry/openai/how-to/prompt-caching
    "azure": Caching(300.0, automatic=True),
    # Implicit caching; no time is stated, so as the others: https://ai.google.dev/gemini-api/docs/caching
    "google": Caching(300.0, automatic=True),
    "generic": Caching(300.0, automatic=False),  # a gateway to any of them: what its usage states
}
"""By profile, as documented in November 2026. A server at home isn't in it: a prompt that it forgot costs no money."""


@dataclass(slots=True, eq=False)
class Cached:
    """The last prompt that an agent sent to a model, and what of it is in the cache."""

    size_chars: int
    new: int = 0  # tokens of it that aren't in the cache
    until: float = -math.inf
    kept_s: float = 0.0
    tokens: int = 0  # that are in the cache

    def begins(self, size_chars: int) -> bool:
        """Whether a prompt of this size likely begins with this one."""
        return SHRUNK * self.size_chars <= size_chars

    def expected(self, now: float, size_chars: int, estimated: int, chars_per_token: float) -> int:
        """Return the tokens that a prompt of this size, sent now, will likely read from the cache."""
        grown = size_chars - self.size_chars
        if now >= self.until or (grown < 0 and not self.begins(size_chars)):
            return 0
        read = estimated - self.new
        if grown > 0:
            read -= int(grown / chars_per_token)
        return read if read > 0 else 0
