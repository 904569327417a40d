"""Selecting one of several upstreams by the path."""

from __future__ import annotations

import re

_ROUTES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("azure", re.compile(r"/openai/(?:deployments/|v1(?:/|$)|responses(?:/|$))")),
    ("google", re.compile(r"/v1(?:beta\d*|alpha)?/(?:tuned)?models/[^/:]+:[a-zA-Z]+$")),
    ("google", re.compile(r"/v1(?:beta\d*|alpha)/")),
    (
        "ollama",
        re.compile(
            r"/api/(?:(?:chat|generate|embed|embeddings|tags|ps|show|version|pull|push|create|copy|delete)$|blobs/)"
        ),
    ),
    ("anthropic", re.compile(r"/v1/(?:messages|skills)(?:/|$)|^/messages(?:/|$)|/api/hello$")),
    (
        "openai",
        re.compile(
            r"(?:^|/)(?:chat/completions|completions|responses|embeddings)(?:/|$)"
            r"|/v1/(?:conversations|moderations|audio|images|realtime|fine_tuning|vector_stores|assistants|threads)(?:/|$)"
        ),
    ),
)


def provider_for_path(path: str) -> str | None:
    """Return the name of the profile whose provider serves a path, or None if several do (`/v1/models`, `/v1/files`).

    `/v1beta/openai/...` is Google's, though its dialect is OpenAI's.
    """
    path = path.rstrip("/")
    return next((name for name, pattern in _ROUTES if pattern.search(path)), None)
