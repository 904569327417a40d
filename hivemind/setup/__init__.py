"""How to point each client at the proxy: what to paste, where, how to check it and how to undo it.

:func:`instructions` and :func:`quick_lines` are pure; `hivemind setup` (:mod:`.command`) prints the one, the control
room shows the other while it waits for the first request.
"""

from __future__ import annotations

from hivemind.setup.clients import CLIENTS, agent_line, instructions, quick_lines
from hivemind.setup.model import Client, Instructions, Snippet, Target
from hivemind.setup.text import as_text
from hivemind.text.shells import SHELLS, Shell, shell_of

__all__ = [
    "CLIENTS",
    "SHELLS",
    "Client",
    "Instructions",
    "Shell",
    "Snippet",
    "Target",
    "agent_line",
    "as_text",
    "instructions",
    "quick_lines",
    "shell_of",
]
