"""The tally: what the mock has announced of each request, for comparison with what others counted.

The tokens and dollars are those that genai-prices extracts from the announced usage, not ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from benchmarks.planned.caches import AgentFound
from hivemind_mock.provider.app import Asked
from hivemind_mock.provider.formats.base import Body, MockReply

KEPT = 10_000
"""Requests remembered; older ones are forgotten first."""
_LIBRARY = {
    "anthropic": ("anthropic", "default"),
    "openai_chat": ("openai", "chat"),
    "openai_responses": ("openai", "responses"),
    "google": ("google", "default"),
}
"""The library's name of the provider and of its API."""
_COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens")
_DOLLARS = ("dollars", "lost", "switched")
_ANNOUNCED = ("model", "modelVersion", "usage", "usageMetadata", "prompt_eval_count", "eval_count")
_SHOWN_HEADERS = (b"user-agent", b"x-claude-code-session-id", b"session-id", b"x-stainless-retry-count")


class Entry(Struct, frozen=True):
    """One request for tokens."""

    number: int
    at_s: float
    """Seconds since the provider's start."""
    asked: Asked
    reply: MockReply | None
    """None: it was refused, or left before its end."""

    def view(self) -> dict[str, Any]:
        """Return it as a mapping. Takes a tenth of a second the first time."""
        announced, asked, found = self._announced(), self.asked, self.asked.found
        assert isinstance(found, AgentFound)
        name = asked.wire.name
        counts, model = _counted(name, announced) if announced else ({}, "")
        dollars, lost, switched = None, None, None
        if counts and self.reply is not None:
            dollars = cost(name, model, counts)
            lost, switched = (
                dollars and dollars - (cost(name, model, read_instead(counts, tokens)) or 0)
                for tokens in (found.lost, found.switched)
            )
        call = None if self.reply is None else self.reply.call
        return {
            "number": self.number,
            "at_s": self.at_s,
            "path": asked.path,
            "format": name,
            "model": asked.request.model,
            "stream": asked.request.stream,
            "headers": {
                each.decode(): asked.headers[each].decode("latin-1") for each in _SHOWN_HEADERS if each in asked.headers
            },
            "answered": self.reply is not None,
            "tool": call and call.name,
            "announced": announced,
            "agent": found.agent,
            "key": found.where[0],
            **counts,
            "dollars": dollars,
            "lost": lost,
            "switched": switched,
        }

    def _announced(self) -> Body | None:
        """Return model and usage as they were sent; None: no usage was."""
        request = self.asked.request
        silent = request.stream and not request.show_usage
        if self.reply is None or silent or request.variant == "count":
            return None
        whole = self.asked.wire.whole(request, self.reply)
        return {name: whole[name] for name in _ANNOUNCED if name in whole}


class Tally:
    """The latest requests, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._number = 0

    def note(self, at_s: float, asked: Asked, reply: MockReply | None) -> None:
        """Remember a request that has ended."""
        self._number += 1
        self._entries.append(Entry(self._number, at_s, asked, reply))

    def views(self) -> list[dict[str, Any]]:
        """Return all entries."""
        return [entry.view() for entry in self._entries]

    def account(self) -> dict[str, dict[str, float]]:
        """Return dollars by agent, and by key: of all requests, of what had expired in a cache, and of what was written
        anew because another model or key was used than before."""
        found: dict[str, dict[str, float]] = {}
        for view in self.views():
            for name in dict.fromkeys((view["agent"], view["key"])):
                sums = found.setdefault(name, dict.fromkeys(_DOLLARS, 0.0))
                for part in _DOLLARS:
                    sums[part] += view[part] or 0.0
        return found


def _counted(name: str, announced: Body) -> tuple[dict[str, int], str]:
    """Return the tokens by kind, all input under `input_tokens`, and the model; none where the library knows none."""
    import genai_prices

    if name not in _LIBRARY:
        return {}, ""
    provider, form = _LIBRARY[name]
    try:
        usage = genai_prices.extract_usage(announced, provider_id=provider, api_flavor=form).usage
    except (LookupError, ValueError):
        return {}, ""  # an embedding, which has no output
    counts = {count: int(getattr(usage, count, 0) or 0) for count in _COUNTS}
    return counts, str(announced.get("model") or announced.get("modelVersion"))


def cost(name: str, model: str, counts: Mapping[str, int]) -> float | None:
    """Return the dollars of the tokens by kind, in a format of this name; None: no price is known."""
    import genai_prices

    try:
        price = genai_prices.calc_price(genai_prices.Usage(**counts), model, provider_id=_LIBRARY[name][0])
    except LookupError:
        return None
    return float(price.total_price)


def read_instead(counts: Mapping[str, int], tokens: int) -> dict[str, int]:
    """Return the tokens by kind as if so many more had been read from a cache."""
    written, hour = (max(0, counts[name] - tokens) for name in ("cache_write_tokens", "cache_write_1h_tokens"))
    read = counts["cache_read_tokens"] + tokens
    return {**counts, "cache_read_tokens": read, "cache_write_tokens": written, "cache_write_1h_tokens": hour}
