"""Selecting the dialect by the path, with any base path in front of it."""

from __future__ import annotations

import re
from functools import lru_cache

from hivemind.providers.anthropic import Anthropic
from hivemind.providers.dialect import Dialect
from hivemind.providers.google import Google
from hivemind.providers.ollama import Ollama
from hivemind.providers.openai_chat import OpenAIChat
from hivemind.providers.openai_responses import OpenAIResponses
from hivemind.providers.plain import Plain

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (Anthropic(), OpenAIChat(), OpenAIResponses(), Google(), Ollama(), Plain())
}
"""Every dialect by its name."""


def _path(pattern: str) -> re.Pattern[str]:
    """Ignore case, as Azure and other servers on IIS do."""
    return re.compile(pattern, re.IGNORECASE)


_PATHS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # Without its version too, as Vercel's AI SDK sends it; `/threads/t/messages` is OpenAI's.
    ("anthropic", _path(r"(?:^|/v1)/messages(?:/count_tokens|/batches(?:/[^/]+(?:/cancel|/results)?)?)?$")),
    ("openai_responses", _path(r"/responses(?:/compact|/input_tokens)?$")),
    ("ollama", _path(r"/api/(?:chat|generate|embed|embeddings)$")),
    ("openai_chat", _path(r"/(?:chat/completions|completions|embeddings)$")),
    (
        "google",
        _path(r"/models/[^/:]+:(?:[a-z]*generateContent|count|embed|batchEmbed|asyncBatchEmbed|compute)[a-z]*$"),
    ),
    ("google", _path(r"/v1(?:beta\d*|alpha)?/interactions$")),
)


_LONGEST_PATH = 2048
"""In characters. No known API has a longer one; this bounds the cache."""


def dialect_for(path: str) -> Dialect:
    """Return the dialect of a request path (without our prefixes and without the query); `plain` for unknown ones.

    Ollama's `/api/chat` differs from a gateway's `/api/v1/chat/completions` by its end.
    """
    return _dialect_for(path) if len(path) <= _LONGEST_PATH else DIALECTS["plain"]


@lru_cache(maxsize=256)  # few different paths are in use
def _dialect_for(path: str) -> Dialect:
    path = path.rstrip("/")
    for name, pattern in _PATHS:
        if pattern.search(path):
            return DIALECTS[name]
    return DIALECTS["plain"]
