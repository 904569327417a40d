"""Codex, which reads no variable for its base URL: https://developers.openai.com/codex/config-advanced"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client
from hivemind.setup.routes import codex_settings

_PROVIDER = "model_providers.hivemind"


def _flags(call: Call) -> None:
    """Add flags before the user's, because the last one holds."""
    settings = [*codex_settings(call.named, token=call.token)]
    if not call.token:
        # The provider of `hivemind setup codex`, which config.toml may name, with another agent's name in its URL.
        settings += [f"{_PROVIDER}.name=HiveMind", f"{_PROVIDER}.base_url={call.named}/v1"]
    call.arguments[:0] = [word for setting in settings for word in ("-c", setting)]


CLIENT = Client("codex", "codex", flags=_flags)
