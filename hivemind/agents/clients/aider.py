"""aider, whose .env files override variables: https://aider.chat/docs/config/dotenv.html"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client

_SUFFIXES = {"ANTHROPIC_API_BASE": "", "OPENAI_API_BASE": "/v1", "OLLAMA_API_BASE": ""}


def _lead(call: Call) -> None:
    call.environ.update({name: call.base + end for name, end in _SUFFIXES.items()})


CLIENT = Client("aider", "aider", lead=_lead)
