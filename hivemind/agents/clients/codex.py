"""Codex, which reads no variable for its base URL: https://developers.openai.com/codex/config-advanced"""

from __future__ import annotations

from hivemind.agents.clients.facts import TOKEN_VARIABLE, Call, Client

_PROVIDER = "model_providers.hivemind"


def _lead(call: Call) -> None:
    """Add flags before the user's, because the last one holds."""
    url = f"{call.named}/v1"
    # The provider is that of `hivemind setup codex`, which config.toml may have, with another agent's name.
    settings = [f"{_PROVIDER}.name=HiveMind", f"{_PROVIDER}.base_url={url}"]
    if call.token:
        settings += [
            "model_provider=hivemind",
            f"{_PROVIDER}.requires_openai_auth=true",
            f"{_PROVIDER}.env_http_headers.x-hivemind-token={TOKEN_VARIABLE}",
        ]
    else:
        settings.insert(0, f"openai_base_url={url}")
    call.arguments[:0] = [word for setting in settings for word in ("-c", setting)]


CLIENT = Client("codex", "codex", lead=_lead)
