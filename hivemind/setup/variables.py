"""Which variable points which SDK or client at the proxy, and in which form the address goes there."""

from __future__ import annotations

from collections.abc import Mapping

SUFFIXES: Mapping[str, str] = {
    "ANTHROPIC_BASE_URL": "",  # Anthropic's SDKs, Claude Code
    "ANTHROPIC_API_BASE": "",  # LiteLLM, and aider through it
    "OPENAI_BASE_URL": "/v1",  # OpenAI's SDKs
    "OPENAI_API_BASE": "/v1",  # LiteLLM, aider, LangChain
    "GOOGLE_GEMINI_BASE_URL": "",  # Google's Gen AI SDKs, Gemini CLI
    "OLLAMA_HOST": "",  # Ollama and its SDKs
    "OLLAMA_API_BASE": "",  # LiteLLM, aider
    "AZURE_OPENAI_ENDPOINT": "",  # OpenAI's SDKs, before an upstream at Azure
}
"""By variable, what follows the proxy's address in its value."""


def value_of(variable: str, base: str) -> str:
    """What it is to hold where `base` is the proxy's address with the agent's name."""
    return base + SUFFIXES[variable]
