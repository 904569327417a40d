"""Dialects by path."""

from __future__ import annotations

import pytest

from hivemind.providers.paths import DIALECTS, dialect_for

PATHS = {
    "anthropic": [
        *("/v1/messages", "/v1/messages/", "/v1/messages/count_tokens", "/v1/messages/batches/b/cancel"),
        *("/a/b/v1/messages", "/V1/Messages", "/messages", "/messages/batches"),
    ],
    "openai_chat": [
        *("/v1/chat/completions", "/chat/completions", "/api/v1/chat/completions", "/api/chat/completions"),
        *("/openai/v1/embeddings", "/openai/deployments/my-gpt/chat/completions"),
        *("/openai/deployments/emb/embeddings", "/v1beta/openai/chat/completions", "/v1/completions"),
        "/v1/embeddings",
    ],
    "openai_responses": [
        *("/v1/responses", "/responses", "/openai/v1/responses", "/v1/responses/compact"),
        "/v1/responses/input_tokens",
    ],
    "google": [
        *("/v1beta/models/gemini-2.5-flash:generateContent", "/v1/models/gemini-2.5-flash:streamGenerateContent"),
        *("/v1beta/models/m:countTokens", "/v1beta/models/m:embedContent", "/v1beta/models/m:batchEmbedContents"),
        *("/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", "/v1beta/interactions"),
    ],
    "ollama": ["/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/ollama/api/chat"],
    "plain": [
        *("/", "", "/api/hello", "/api/tags", "/v1/models", "/v1/models/gemini-2.5-flash", "/v1beta/models/m"),
        *("/v1/files", "/v1/responses/resp_1", "/v1beta/interactions/i_1", "/v1/messages/other"),
        *("/v1/threads/t_1/messages", "/v1/complete", "/v1/images/generations", "/v1/chat/completions/c_1"),
        *("/v1/my-embeddings", "/v1/" + "x" * 3000 + "/v1/messages"),
    ],
}


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in PATHS.items() for path in paths])
def test_paths(name: str, path: str) -> None:
    """Each API's paths, behind any base path, are told apart; the rest is plain."""
    assert dialect_for(path).name == name


def test_names() -> None:
    """A dialect is found under its own name."""
    assert all(dialect.name == name for name, dialect in DIALECTS.items())
