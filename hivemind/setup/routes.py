"""What leads each client to the proxy, as plain data: shown by `hivemind setup`, and used for runs.

The shims of a run's clients read it at every call, so it imports nothing.
"""

from __future__ import annotations

TOKEN_VARIABLE = "HIVEMIND_TOKEN"
"""Holds the token that the proxy asks of agents."""
SUFFIXES = {
    "ANTHROPIC_BASE_URL": "",  # Anthropic's SDKs, Claude Code
    "ANTHROPIC_API_URL": "",  # LangChain, which reads it before the other one
    "ANTHROPIC_API_BASE": "",  # LiteLLM, and aider through it
    "OPENAI_BASE_URL": "/v1",  # OpenAI's SDKs
    "OPENAI_API_BASE": "/v1",  # LiteLLM, aider, LangChain
    "GOOGLE_GEMINI_BASE_URL": "",  # Google's Gen AI SDKs, Gemini CLI
    "OLLAMA_HOST": "",  # Ollama and its SDKs
    "OLLAMA_API_BASE": "",  # LiteLLM, aider
    "AZURE_OPENAI_ENDPOINT": "",  # OpenAI's SDKs, before an upstream at Azure
}
"""By variable, what follows the proxy's address in its value."""
CRUSH = {"ANTHROPIC_API_ENDPOINT": "", "OPENAI_API_ENDPOINT": "/v1", "GEMINI_API_ENDPOINT": ""}
"""The variables of Crush's catalogue of providers, likewise with the suffix of each."""
GROK_KEY, GROK_URL = "XAI_API_KEY", "GROK_MODELS_BASE_URL"
"""Grok Build heeds the second only with the first, its key."""
VIBE_PROVIDERS = "VIBE_PROVIDERS"
VIBE_MISTRAL = {"name": "mistral", "api_key_env_var": "MISTRAL_API_KEY", "backend": "mistral"}
"""Vibe's own provider, without its base URL, as that variable lists it."""
PI_SUFFIXES = {
    "anthropic-messages": "",
    "openai-completions": "/v1",
    "openai-responses": "/v1",
    "google-generative-ai": "/v1beta",
}
"""By pi's name of an API, what follows the proxy's address."""
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


def pi_extension(urls: dict[str, str], past: str = "") -> str:
    """Return an extension of pi that points these providers to base URLs, and names the session in each request. With
    `past` it says once that requests of other models don't go to URLs that begin so."""
    import json

    lines = [
        f"  pi.registerProvider({json.dumps(name)}, {json.dumps({'baseUrl': url})});" for name, url in urls.items()
    ]
    lines += [
        '  pi.on("before_provider_headers", (event, ctx) => {',
        '    event.headers["x-session-id"] ??= ctx.sessionManager.getSessionId();',
        "  });",
    ]
    if past:
        lines += [
            "  let said = false;",
            '  pi.on("before_provider_request", (event, ctx) => {',
            f"    if (said || !ctx.model || ctx.model.baseUrl?.startsWith({json.dumps(past)})) return;",
            "    said = true;",
            "    const text = `pi's requests go past HiveMind: they go to its provider ${ctx.model.provider}`;",
            '    ctx.hasUI ? ctx.ui.notify(text, "warning") : process.stderr.write(`hivemind: ${text}\\n`);',
            "  });",
        ]
    return "\n".join(["export default (pi) => {", *lines, "};", ""])
