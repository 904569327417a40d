"""Which API a path belongs to, whatever base path a gateway or a client put in front of it."""

from __future__ import annotations

import re

from .anthropic import Anthropic
from .base import Dialect
from .google import Google
from .ollama import Ollama
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .plain import Plain

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (Anthropic(), OpenAIChat(), OpenAIResponses(), Google(), Ollama(), Plain())
}
"""Every dialect by its name."""

_PATHS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("anthropic", re.compile(r"/v1/messages(?:/count_tokens|/batches(?:/[^/]+(?:/cancel|/results)?)?)?$")),
    ("openai_responses", re.compile(r"/responses(?:/compact|/input_tokens)?$")),
    ("ollama", re.compile(r"/api/(?:chat|generate|embed|embeddings)$")),
    ("openai_chat", re.compile(r"/(?:chat/completions|completions|embeddings)$")),
    ("google", re.compile(r"/models/[^/:]+:(?:[a-zA-Z]*[gG]enerateContent|count|embed|batchEmbed|compute)[a-zA-Z]*$")),
    ("google", re.compile(r"/v1(?:beta\d*|alpha)?/interactions$")),
)


def dialect_for(path: str) -> Dialect:
    """The dialect of a request path (without our own prefixes and without the query); `plain` for unknown ones.

    Ollama's `/api/chat` is told from a gateway's `/api/v1/chat/completions` by its end.
    """
    path = path.rstrip("/")
    for name, pattern in _PATHS:
        if pattern.search(path):
            return DIALECTS[name]
    return DIALECTS["plain"]
