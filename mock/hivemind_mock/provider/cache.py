"""Prompt caches as providers keep them: which beginnings of prompts, by key and model, and until when.

Anthropic keeps what a request marks (`cache_control`, for five minutes or an hour from the last use) and reads up to
twenty blocks before a mark. OpenAI and Google keep every prompt, in steps of 128 tokens. A beginning can be read once
the answer that wrote it has begun. For how long, and what counts toward a limit, is the product's own table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct, field

from hivemind.scheduler.admission.warmth import CACHING, HOUR_S, LEAST, STEP

_LOOKED_BACK = 20  # blocks before a mark that may be read: platform.claude.com, "Prompt caching"
_MARKS = 4  # most marks of a request there; more are those of every beginning
Where = tuple[str, str]
"""The key and the model of a request: nothing is shared between two of these."""


class Prompt(Struct):
    """A prompt as a cache sees it."""

    ends: list[tuple[int, int]] = field(default_factory=list)
    """For each block a hash of the prompt up to its end, and the tokens up to there."""
    marks: dict[int, float] = field(default_factory=dict)
    """The last blocks of the beginnings that are to be kept, by number, and for how many seconds each."""
    size_chars: int = 0

    def add(self, block: object, chars: int, kept_s: float | None = None) -> None:
        """Append a block; `kept_s`: what ends here is to be kept."""
        before = self.ends[-1][0] if self.ends else 0
        self.size_chars += chars
        self.ends.append((hash((before, block)), self.size_chars // 4))
        if kept_s is not None and self.ends[-1][1] >= LEAST:
            self.marks[len(self.ends) - 1] = kept_s


def marked(blocks: Iterable[tuple[Mapping[str, object], int]]) -> Prompt:
    """Return the prompt of blocks that may have a `cache_control`, each with its characters that count."""
    prompt, usual_s = Prompt(), CACHING["anthropic"].kept_s
    for block, chars in blocks:
        control = block.get("cache_control")
        hour = isinstance(control, Mapping) and control.get("ttl") == "1h"
        kept_s = None if control is None else HOUR_S if hour else usual_s
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        prompt.add(msgspec.json.encode(plain), chars, kept_s)
    return prompt


def unmarked(text: str, kept_s: float) -> Prompt:
    """Return the prompt of a text of which every beginning is kept."""
    prompt, step = Prompt(), 4 * STEP
    for at in range(0, len(text), step):
        part = text[at : at + step]
        prompt.add(part, len(part), kept_s if len(part) == step else None)
    return prompt


class Found(Struct, frozen=True):
    """What the cache has of a prompt."""

    prompt: Prompt
    where: Where
    read: int = 0
    written: int = 0
    written_1h: int = 0
    """Of those written, the ones to be kept for an hour."""


class PromptCaches:
    """All caches of one provider."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Where, int], tuple[float, float]] = {}
        """By place and beginning: when it expires, and for how long a use keeps it."""

    def look(self, now: float, where: Where, prompt: Prompt) -> Found:
        """Return what of a prompt is read now, and what is written."""
        read = self.longest(now, where, prompt)
        minutes = max((prompt.ends[mark][1] for mark in prompt.marks), default=0)
        hours = max((prompt.ends[mark][1] for mark, kept_s in prompt.marks.items() if kept_s == HOUR_S), default=0)
        return Found(prompt, where, read, max(0, minutes - read), max(0, hours - read))

    def keep(self, now: float, found: Found) -> list[tuple[int, int]]:
        """Keep what an answer that begins now has read and written, and return the beginnings and their tokens."""
        prompt, where, kept = found.prompt, found.where, []
        for number, (end, tokens) in enumerate(prompt.ends):
            place = where, end
            kept_s = prompt.marks.get(number)
            if kept_s is None and tokens == found.read and place in self._kept:
                kept_s = self._kept[place][1]
            if kept_s is not None:
                self._kept[place] = now + kept_s, kept_s
                kept.append((end, tokens))
        return kept

    def longest(self, now: float, where: Where, prompt: Prompt) -> int:
        """Return the tokens of the longest beginning that can be read."""
        back = _LOOKED_BACK if len(prompt.marks) <= _MARKS else 1
        for mark in sorted(prompt.marks, reverse=True):
            for number in range(mark, max(mark - back, -1), -1):
                end, tokens = prompt.ends[number]
                if tokens >= LEAST and self._kept.get((where, end), (now, 0.0))[0] > now:
                    return tokens
        return 0
