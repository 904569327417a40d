"""Amp, whose models run on its own servers: https://ampcode.com/manual"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client


def _past(call: Call) -> str:
    return "Amp's own servers call the models"


CLIENT = Client("amp", "amp", past=_past)
