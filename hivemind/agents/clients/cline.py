"""cline, which takes its providers from a file: `~/.cline/data/settings/providers.json` (3.0)."""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import value_of
from hivemind.agents.clients.facts import Call, Client, at, home, read_json

_FILE = "CLINE_PROVIDER_SETTINGS_PATH"
_SUFFIXES = {"anthropic": "/v1", "openai-native": "/v1", "openai-compatible": "/v1", "gemini": "/v1beta"}
_COPY = "cline.json"
_MODE = "CLINE_SESSION_BACKEND_MODE"
"""`local`: the session runs in this process. Else it runs in a daemon (`hub`) which keeps the providers' file of the
call that started it, another run's maybe."""


def _own_file(call: Call) -> str:
    data = value_of(call.arguments, "--data-dir") or call.environ.get("CLINE_DATA_DIR")
    root = (
        value_of(call.arguments, "--config")
        or call.environ.get("CLINE_DIR")
        or os.path.join(home(call.environ), ".cline")
    )
    return os.path.join(data or os.path.join(root, "data"), "settings", "providers.json")


def _providers(call: Call) -> tuple[dict[str, object], str]:
    """Return the content of the file, and the provider in use."""
    content = read_json(call.environ.get(_FILE) or _own_file(call))
    return content, value_of(call.arguments, "-P", "--provider") or str(content.get("lastUsedProvider") or "cline")


def _served(content: dict[str, object], name: str) -> str | None:
    """Return what the base URL of this provider ends with; None: HiveMind doesn't serve it."""
    own = at(content, "providers", name, "settings").get("baseUrl")
    return _SUFFIXES.get(name, "/v1" if own else None)


def _variables(call: Call) -> None:
    """Give it a copy of the file with the run's base URLs, unless a login is in use that it may have to renew there."""
    content, used = _providers(call)
    if call.arguments[:1] == ["auth"] or _served(content, used) is None:
        if call.environ.get(_FILE, "").endswith(_COPY):
            del call.environ[_FILE]
            call.environ.pop(_MODE, None)
        return
    call.environ[_MODE] = "local"
    providers = dict(at(content, "providers"))
    for name in {*_SUFFIXES, *providers}:
        suffix = _served(content, name)
        if suffix is not None:
            entry = at(providers, name)
            settings = {"provider": name, **at(entry, "settings"), "baseUrl": call.base + suffix}
            providers[name] = {"updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual", **entry}
            providers[name] |= {"settings": settings}  # type: ignore[operator]
    import json

    text = json.dumps({"version": 1, "modes": {}, **content, "providers": providers})
    path = call.kept(_COPY, text)
    if path is not None:
        call.environ[_FILE] = path


def _past(call: Call) -> str:
    content, used = _providers(call)
    return "" if _served(content, used) is not None else f"they go to its provider {used}"


CLIENT = Client("cline", "cline", variables=_variables, past=_past)
