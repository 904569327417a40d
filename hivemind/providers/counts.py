"""What a reply says that it used, in the places and under the names of other providers than its dialect's.

A dialect's reader finds the usual place by itself. Where it finds nothing, an object with counts is looked for at any
depth. Names say in words what they count (`promptTokens`, `input_token_count`); those that don't are in rows
(:class:`~hivemind.providers.table.Counts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hivemind.providers import json_fields
from hivemind.providers.known import providers
from hivemind.providers.table import compiled
from hivemind.providers.tiers import tier_of
from hivemind.scheduler.types import Usage

_ROWS = [row for provider in providers() for row in provider.counts]


def _names(role: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in _ROWS if (name := getattr(row, role))))


INPUT = _names("input")
OUTPUT = _names("output")
CACHED = _names("cached")
"""Names of what was read from a cache, in the usage object itself."""
WRITTEN = _names("written")
_OF_INPUT = r"(?:n_|num_|total_)?(?:prompt|input)_(?:tokens?|token_count|eval_count)|tokens_(?:prompt|input)"
_OF_OUTPUT = (
    r"(?:n_|num_|total_)?(?:completion|output|generat(?:ed|ion)|candidates)_(?:tokens?|token_count)|eval_count"
    r"|tokens_(?:completion|output)"
)
_OF_CACHED = r"\w*(?:cached|cache_read|cache_hit)\w*"
_OF_WRITTEN = r"\w*cache_(?:write|written|creation)(?:\w*tokens?\w*)?"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
TOTAL = ("total_tokens", "totalTokens", "totalTokenCount")
_APART = frozenset(row.input for row in _ROWS if row.apart)
_WORDS = r"[A-Za-z_]{0,12}(?:[Pp]rompt|[Ii]nput|[Cc]ompletion|[Oo]utput|[Gg]enerat|[Cc]andidate|eval)[A-Za-z_]{0,16}"
_COUNTED = re.compile(
    b'"(?:%b)"\\s{0,4}:\\s{0,4}\\d|putTokens"\\s{0,4}:\\s{0,4}\\{' % "|".join((_WORDS, *INPUT, *OUTPUT)).encode()
)
_DEEPEST = 6
_MOST_ITEMS = 32


def usage_in(data: bytes, tier: str = "") -> Usage | None:
    """Return what an event or a whole reply states as used, wherever it does; None if it doesn't. The largest counts,
    where there are several."""
    if _COUNTED.search(data) is None:
        return None
    stated = (usage_of(each, tier) for each in _objects(json_fields.anything(data)))
    return max(filter(None, stated), key=lambda usage: usage.total_input + usage.output_tokens, default=None)


def _objects(value: object, depth: int = 0) -> Iterator[dict[str, object]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for each in value[-_MOST_ITEMS:] if isinstance(value, list) else ():
        yield from _objects(each, depth + 1)


def usage_of(members: Mapping[str, object], tier: str = "") -> Usage | None:
    """Return the usage of one object with counts; None if it has none."""
    prompt, output = _first(members, INPUT, _OF_INPUT), _first(members, OUTPUT, _OF_OUTPUT)
    if prompt is None and output is None:
        return None
    counts = dict(members)
    for name, each in members.items():
        if isinstance(each, dict) and (name.lower().endswith("details") or "total" in each):
            counts |= each
    tier = tier_of(str(members.get("service_tier") or ""), tier)
    # Names of a cache that is apart are `cache_read…`; a part of the input is `cached…`, or among its details.
    among = counts.keys() - members.keys() or any("cached" in _plain(name) for name in members)
    apart = any(name in members for name in _APART) and not among
    return usage_from(
        prompt or 0,
        output or 0,
        _first(counts, CACHED, _OF_CACHED) or 0,
        _first(counts, WRITTEN, _OF_WRITTEN) or 0,
        total=_first(members, TOTAL),
        apart=apart,
        tier=tier,
    )


def usage_from(
    prompt: int, output: int, cached: int, written: int, *, total: int | None, apart: bool, tier: str
) -> Usage:
    """Return a usage from its counts. Whether the prompt's tokens include those of the cache is told by the total,
    where it is stated, else by the names (`apart`)."""
    cache = cached + written
    if total is not None and cache:
        apart = total >= prompt + output + cache
    if not apart:
        cached = min(prompt, cached)
        written = min(prompt - cached, written)
        prompt -= cached + written
    return Usage(prompt, cached, written, output, tier=tier)


def _plain(name: str) -> str:
    return _CAMEL.sub("_", name[:64]).lower()


def _first(members: Mapping[str, object], names: tuple[str, ...], words: str | None = None) -> int | None:
    """Return the first count under one of these names, or else one in such words."""
    others = () if words is None else (name for name in members if compiled(words).fullmatch(_plain(name)))
    for name in (*names, *others):
        value = members.get(name)
        if isinstance(value, dict):  # Vercel's: the total, beside what it consists of
            value = value.get("total")
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < json_fields.MOST:
            return int(value)
    return None
