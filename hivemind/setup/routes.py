"""What leads each client to the proxy, as plain data: shown by `hivemind setup`, and used for runs.

The shims of a run's clients read it at every call, so it imports nothing.
"""

from __future__ import annotations

TOKEN_VARIABLE = "HIVEMIND_TOKEN"
"""Holds the token that the proxy asks of agents."""
SUFFIXES = {
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
INLINE_TOKEN = "{env:" + TOKEN_VARIABLE + "}"
"""How opencode's configuration reads a variable."""
GEMINI_SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
"""Without them `gemini -p` doesn't start with a base URL but Google's."""
COPILOT_MODEL = "claude-sonnet-5"


def codex_settings(named: str, *, token: bool) -> tuple[str, ...]:
    """Return what follows Codex's flags -c. The token is read from its variable, because other users see command lines.

    `named` is the agent's base URL without the token; `token`: the proxy asks for one.
    """
    if not token:
        return (f"openai_base_url={named}/v1",)
    fields = (
        "name=HiveMind",
        f"base_url={named}/v1",
        "requires_openai_auth=true",
        f"env_http_headers.x-hivemind-token={TOKEN_VARIABLE}",
    )
    return "model_provider=hivemind", *(f"model_providers.hivemind.{field}" for field in fields)


def opencode_providers(url: str) -> dict[str, object]:
    """Return `provider` of opencode's configuration; the URL ends in /v1."""
    return {name: {"options": {"baseURL": url}} for name in ("anthropic", "openai")}
