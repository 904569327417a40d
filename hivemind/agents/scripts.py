"""Programs in Python whose code says that their requests won't take a run's path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hivemind.store.locks import open_regular

_MOST_BYTES = 1_000_000
_AUTOGEN = re.compile(r"\bOpenAIChatCompletionClient\(((?:[^()]|\([^()]*\))*)\)")
_OWN_HOST = re.compile(r"""\bmodel\s*=\s*["']((?:claude|gemini|Llama)-[^"']*)["']""")
"""Models that AutoGen (0.7.5) takes to their provider's own host."""


def past(command: Sequence[str], cwd: Path) -> str:
    """Return why requests of the program that a command starts go past the proxy, in words; empty: none is known to."""
    for word in command:
        if not word.endswith(".py"):
            continue
        try:
            with open_regular(cwd / word) as file:
                calls = _AUTOGEN.findall(file.read(_MOST_BYTES).decode("utf-8", "replace"))
        except (OSError, ValueError):  # the latter of a name with a NUL
            continue
        for arguments in calls:
            model = _OWN_HOST.search(arguments)
            if model is not None and "base_url" not in arguments:
                name = Path(word).name
                why = f"AutoGen takes {model[1]} to its provider's own host unless the client has a base_url"
                return f"{name}'s requests go past HiveMind: {why}"
    return ""
