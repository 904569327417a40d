"""Copilot's command line: https://docs.github.com/en/copilot/how-tos/copilot-cli

Only models of the user's own key can be redirected.
"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client

MODEL = "claude-sonnet-5"
_KIND, _URL = "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_BASE_URL"


def _lead(call: Call) -> None:
    environ = call.environ
    kind = environ.get(_KIND) or ("anthropic" if environ.get("ANTHROPIC_API_KEY") else "")
    if kind == "anthropic":
        environ[_KIND] = kind
        environ[_URL] = call.base
        environ["COPILOT_PROVIDER_API_KEY"] = environ.get("COPILOT_PROVIDER_API_KEY") or environ.get(
            "ANTHROPIC_API_KEY", ""
        )
        environ["COPILOT_MODEL"] = environ.get("COPILOT_MODEL") or MODEL
    elif kind == "openai" or environ.get(_URL):
        environ[_URL] = f"{call.base}/v1"


CLIENT = Client("copilot", "copilot", lead=_lead)
