"""Gemini CLI: https://geminicli.com/docs/reference/configuration"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client
from hivemind.setup.routes import GEMINI_SETTINGS

_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
"""Settings that count where the user's own say nothing."""


def _variables(call: Call) -> None:
    """Name a login in settings: without a terminal it starts only then. The user's settings take precedence."""
    if call.environ.get("GEMINI_API_KEY") and not call.environ.get(_DEFAULTS):
        import json

        path = call.kept("gemini-defaults.json", json.dumps(GEMINI_SETTINGS) + "\n")
        if path is not None:  # else Gemini itself reports the missing login
            call.environ[_DEFAULTS] = path


CLIENT = Client("gemini-cli", "gemini", variables=_variables)
