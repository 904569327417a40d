"""Gemini CLI: https://geminicli.com/docs/reference/configuration"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client


def _lead(call: Call) -> None:
    """A variable is enough: an .env file doesn't override it."""
    call.environ["GOOGLE_GEMINI_BASE_URL"] = call.base


CLIENT = Client("gemini-cli", "gemini", lead=_lead)
