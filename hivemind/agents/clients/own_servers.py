"""Clients whose own servers call the models, so that they have no base URL of a model: https://ampcode.com/manual,
https://cursor.com/docs/cli, https://docs.augmentcode.com/cli, https://docs.qoder.com/cli, https://www.codebuff.com/docs"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client


def _client(program: str, maker: str) -> Client:
    def past(call: Call) -> str:
        return f"{maker}'s own servers call the models"

    return Client(program, program, past=past)


_MAKERS = {"amp": "Amp", "cursor-agent": "Cursor", "auggie": "Augment", "qodercli": "Qoder", "codebuff": "Codebuff"}
CLIENTS = {program: _client(program, maker) for program, maker in _MAKERS.items()}
