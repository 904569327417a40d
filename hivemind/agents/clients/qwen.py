"""Qwen Code, whose settings override variables: https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import set_values, value_of
from hivemind.agents.clients.facts import Call, Client, at, home, read_json

_SYSTEM = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
"""Settings that override the user's and the project's; by default those of /etc."""
_SUFFIXES = {"openai": "/v1", "openai-responses": "/v1", "anthropic": "", "gemini": ""}


def _files(call: Call) -> list[dict[str, object]]:
    """Return the settings, those last that hold."""
    system = call.environ.get(_SYSTEM) or "/etc/qwen-code/settings.json"
    own = call.environ.get("QWEN_HOME") or os.path.join(home(call.environ), ".qwen")
    return [read_json(own, "settings.json"), read_json(".qwen", "settings.json"), read_json(system)]


def _variables(call: Call) -> None:
    """Change the base URLs of the models that the settings list."""
    files = _files(call)
    listed = {kind: models for file in files for kind, models in at(file, "modelProviders").items()}
    ours = {
        kind: [{**at(model), "baseUrl": call.base + _SUFFIXES[kind]} for model in models]
        for kind, models in listed.items()
        if kind in _SUFFIXES and isinstance(models, list)
    }
    if not ours:
        return
    import json

    path = call.kept("qwen.json", json.dumps({**files[-1], "modelProviders": {**listed, **ours}}))
    if path is not None:
        call.environ[_SYSTEM] = path


def _past(call: Call) -> str:
    kinds = [at(file, "security", "auth").get("selectedType") for file in _files(call)]
    kind = value_of(call.arguments, "--auth-type") or next((each for each in reversed(kinds) if each), None)
    return "" if kind is None or str(kind) in _SUFFIXES else f"its login is {kind}"


CLIENT = Client(
    "qwen-code",
    "qwen",
    variables=_variables,
    flags=lambda call: set_values(call.arguments, f"{call.base}/v1", "--openai-base-url"),
    past=_past,
)
