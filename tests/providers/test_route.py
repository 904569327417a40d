"""Providers by path."""

from __future__ import annotations

import pytest

from hivemind.providers.paths import provider_for_path
from hivemind.providers.profiles import PROFILES

ROUTES = {
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
    "/messages": "anthropic",
    "/anthropic/messages": "anthropic",
    "/v1/skills": "anthropic",
    "/api/hello": "anthropic",
    "/v1/chat/completions": "openai",
    "/v1/responses": "openai",
    "/responses": "openai",
    "/v1/responses/resp_1": "openai",
    "/v1/embeddings": "openai",
    "/v1/completions": "openai",
    "/openai/deployments/d/chat/completions": "azure",
    "/openai/v1/responses": "azure",
    "/openai/v1/chat/completions": "azure",
    "/v1beta/models/gemini-2.5-flash:generateContent": "google",
    "/v1/models/gemini-2.5-flash:streamGenerateContent": "google",
    "/v1beta/models": "google",
    "/v1beta/interactions": "google",
    "/v1beta/openai/chat/completions": "google",
    "/api/chat": "ollama",
    "/api/generate": "ollama",
    "/api/embed": "ollama",
    "/api/tags": "ollama",
    "/api/blobs/sha256:0": "ollama",
    "/v1/models": None,
    "/v1/models/gpt-5": None,
    "/v1/files": None,
    "/": None,
    "": None,
}


@pytest.mark.parametrize(("path", "provider"), ROUTES.items())
def test_routes(path: str, provider: str | None) -> None:
    """A path goes to the provider whose API it is; one that several share is left open."""
    assert provider_for_path(path) == provider
    assert provider is None or provider in PROFILES
