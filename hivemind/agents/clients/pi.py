"""pi, whose providers an extension can point elsewhere: `docs/custom-provider.md` of its package (1.6)."""

from __future__ import annotations

import os

from hivemind.agents.clients.facts import Call, Client, at, home, read_json
from hivemind.setup.routes import PI_SUFFIXES, pi_extension

_COMMANDS = frozenset(("install", "remove", "uninstall", "update", "list", "config", "auth", "mcp"))
_BUILT_IN = {"anthropic": "anthropic-messages", "openai": "openai-responses", "google": "google-generative-ai"}


def _flags(call: Call) -> None:
    """Give it an extension in a file, because other users can read command lines. It also points the user's own
    providers (`models.json`), names the session, and says where requests go that it doesn't point."""
    if call.arguments[:1] and call.arguments[0] in _COMMANDS:
        return
    folder = call.environ.get("PI_CODING_AGENT_DIR") or os.path.join(home(call.environ), ".pi", "agent")
    own = {name: at(value).get("api") for name, value in at(read_json(folder, "models.json"), "providers").items()}
    apis = {**own, **{name: own.get(name) or api for name, api in _BUILT_IN.items()}}
    urls = {name: call.base + PI_SUFFIXES[str(api)] for name, api in apis.items() if str(api) in PI_SUFFIXES}
    path = call.kept("pi.js", pi_extension(urls, past=call.base))
    if path is not None and path not in call.arguments:
        call.arguments[:0] = ["--extension", path]


CLIENT = Client("pi", "pi", flags=_flags)
