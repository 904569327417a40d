"""Grok Build, with a key of xAI's: `11-custom-models.md` of the guide that it writes to ~/.grok/docs (0.2)."""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client
from hivemind.setup.routes import GROK_KEY, GROK_URL


def _variables(call: Call) -> None:
    if call.environ.get(GROK_KEY):
        call.environ[GROK_URL] = f"{call.base}/v1"


def _past(call: Call) -> str:
    return "" if call.environ.get(GROK_KEY) else f"without {GROK_KEY} its login is for a service of its own"


CLIENT = Client("grok-build", "grok", variables=_variables, past=_past)
