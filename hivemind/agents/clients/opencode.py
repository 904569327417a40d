"""opencode: https://opencode.ai/docs/config"""

from __future__ import annotations

from hivemind.agents.clients.facts import TOKEN_VARIABLE, Call, Client

_VARIABLE = "OPENCODE_CONFIG_CONTENT"
"""Configuration that overrides that of files."""


def _lead(call: Call) -> None:
    import json

    base = call.base_with(f"{{env:{TOKEN_VARIABLE}}}")  # opencode itself reads the variable
    ours = {name: {"options": {"baseURL": f"{base}/v1"}} for name in ("anthropic", "openai")}
    try:
        given = json.loads(call.environ.get(_VARIABLE) or "{}")
        call.environ[_VARIABLE] = json.dumps(merged(given, {"provider": ours}))
    except (ValueError, TypeError):
        return  # opencode itself says what is wrong with it


def merged(given: object, ours: dict[str, object]) -> dict[str, object]:
    """Return both, ours where they differ. Raises: TypeError: `given` isn't an object."""
    if not isinstance(given, dict):
        raise TypeError
    found = {**given}
    for key, value in ours.items():
        found[key] = merged(given.get(key, {}), value) if isinstance(value, dict) else value
    return found


CLIENT = Client("opencode", "opencode", lead=_lead)
