"""Copilot's command line, where only models of the user's own key can be redirected:
https://docs.github.com/en/copilot/how-tos/copilot-cli"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client
from hivemind.setup.routes import COPILOT_MODEL

_KIND, _URL, _KEY, _MODEL = (
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_MODEL",
)


def _variables(call: Call) -> None:
    environ = call.environ
    kind = environ.get(_KIND) or ("anthropic" if environ.get("ANTHROPIC_API_KEY") else "")
    if kind == "anthropic":
        environ[_KIND] = kind
        environ[_URL] = call.base
        environ[_KEY] = environ.get(_KEY) or environ.get("ANTHROPIC_API_KEY", "")
        environ[_MODEL] = environ.get(_MODEL) or COPILOT_MODEL
    elif kind == "openai" or environ.get(_URL):
        environ[_URL] = f"{call.base}/v1"


def _past(call: Call) -> str:
    if call.environ.get(_URL):
        return ""
    return f"without {_KIND} its models are GitHub's (hivemind setup copilot)"


CLIENT = Client("copilot", "copilot", variables=_variables, past=_past)
