"""Cursor's command line, whose models run on its own servers: https://cursor.com/docs/cli"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client


def _past(call: Call) -> str:
    return "Cursor's own servers call the models"


CLIENT = Client("cursor", "cursor-agent", past=_past)
