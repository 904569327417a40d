"""opencode: https://opencode.ai/docs/config"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client
from hivemind.setup.routes import INLINE_TOKEN, opencode_providers

_VARIABLE = "OPENCODE_CONFIG_CONTENT"
"""Configuration that overrides that of files."""


def _variables(call: Call) -> None:
    import json

    ours: dict[str, object] = {"provider": opencode_providers(call.base_with(INLINE_TOKEN) + "/v1")}
    try:
        call.environ[_VARIABLE] = json.dumps(_merged(json.loads(call.environ.get(_VARIABLE) or "{}"), ours))
    except (ValueError, TypeError):
        return  # opencode itself says what is wrong with it


def _merged(given: object, ours: dict[str, object]) -> dict[str, object]:
    """Return both, ours where they differ. Raises: TypeError: `given` isn't an object."""
    if not isinstance(given, dict):
        raise TypeError
    found = {**given}
    for key, value in ours.items():
        found[key] = _merged(given.get(key, {}), value) if isinstance(value, dict) else value
    return found


CLIENT = Client("opencode", "opencode", variables=_variables)
