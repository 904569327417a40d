"""A plugin for Claude Code: https://code.claude.com/docs/en/plugins-reference"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from hivemind import __version__

MANIFEST = ".claude-plugin/plugin.json"
SKILL = "SKILL.md"
"""At the plugin's root, where its command has the name of the skill alone: `/hivemind`."""
BEFORE = "commands/hivemind.md"
"""Where an older version wrote the command."""
_MARK = "Written by hivemind setup."
_DESCRIPTION = f"What a HiveMind proxy has for this session: its budget, the room there is. {_MARK}"
_EVENTS = ("SessionStart", "Stop", "SubagentStop")
_WITHIN_S = 5
"""How long Claude Code waits for a hook."""

_COMMAND = """\
---
name: hivemind
description: How the HiveMind proxy of this session is, its budget and the room there is
allowed-tools: {allowed}
disable-model-invocation: true
---

This is what the HiveMind proxy of this session says of itself, and of the budgets that hold for the session:

!`{shown}`

Say in a few sentences what that means here: whether requests wait and why, what is left of the budgets, and whether
there is room for sub-agents now. Take it from the text above alone, and run nothing. If it says that no proxy
answers, repeat that. What the columns mean: LEVEL is how many requests the proxy has in flight at most; CIRCUIT is
open while the provider fails; LEFT OF WINDOWS is what is left of the provider's limits, mostly per minute.
"""


def plugin_files(program: Sequence[str]) -> dict[str, str]:
    """Return the text of each file by its path in the plugin; `program` answers the hooks and the command."""
    manifest: dict[str, object] = {
        "name": "hivemind",
        "version": __version__,
        "description": _DESCRIPTION,
        "author": {"name": "HiveMind"},
    }
    manifest["skills"] = ["./"]
    hooks = {event: [{"hooks": [_hook(program, event)]}] for event in _EVENTS}
    shown = shlex.join((*program, "status"))
    return {
        MANIFEST: _json(manifest),
        "hooks/hooks.json": _json({"description": "The session's budget and room, by HiveMind.", "hooks": hooks}),
        SKILL: _COMMAND.format(allowed=json.dumps(f"Bash({shown})"), shown=shown),
    }


def is_own(folder: Path) -> bool:
    """Return whether there is a plugin in the folder that this program wrote. Raises: OSError: it can't be read."""
    try:
        found = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return isinstance(found, Mapping) and str(found.get("description", "")).endswith(_MARK)


def _hook(program: Sequence[str], event: str) -> dict[str, object]:
    return {"type": "command", "command": shlex.join((*program, event)), "timeout": _WITHIN_S}


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
