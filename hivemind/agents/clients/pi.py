"""pi, whose providers an extension can point elsewhere: `docs/custom-provider.md` of its package (1.6)."""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client

_COMMANDS = frozenset(("install", "remove", "uninstall", "update", "list", "config", "auth", "mcp"))
_SUFFIXES = {"anthropic": "", "openai": "/v1", "google": "/v1beta"}


def _flags(call: Call) -> None:
    """Give it an extension in a file, because other users can read command lines."""
    if call.arguments[:1] and call.arguments[0] in _COMMANDS:
        return
    import json

    urls = {name: json.dumps({"baseUrl": call.base + suffix}) for name, suffix in _SUFFIXES.items()}
    lines = [f'  pi.registerProvider("{name}", {settings});\n' for name, settings in urls.items()]
    path = call.kept("pi.js", f"export default (pi) => {{\n{''.join(lines)}}};\n")
    if path is not None and path not in call.arguments:
        call.arguments[:0] = ["--extension", path]


CLIENT = Client("pi", "pi", flags=_flags)
