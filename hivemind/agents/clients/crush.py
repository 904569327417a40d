"""Crush, whose catalogue of providers reads these variables: https://github.com/charmbracelet/catwalk"""

from __future__ import annotations

import os

from hivemind.agents.clients.facts import Call, Client, at, home, read_json
from hivemind.setup.routes import CRUSH


def _variables(call: Call) -> None:
    call.environ.update({name: call.base + suffix for name, suffix in CRUSH.items()})


def _past(call: Call) -> str:
    """Its own files override the catalogue."""
    config = call.environ.get("XDG_CONFIG_HOME") or os.path.join(home(call.environ), ".config")
    for path in ((".crush.json",), ("crush.json",), (config, "crush", "crush.json")):
        for name, settings in at(read_json(*path), "providers").items():
            url = at(settings).get("base_url")
            if isinstance(url, str) and not url.startswith(call.base):
                return f"those to its provider {name}, by {os.path.join(*path)}"
    return ""


CLIENT = Client("crush", "crush", variables=_variables, past=_past)
