"""Confirmations: what was done, in the log's words, for pages that don't show the log."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind.control.parsing import arguments_of
from hivemind.scheduler.commands import Command
from hivemind.scheduler.events import Commanded
from hivemind.world.lines import ALL, sentence, subject
from hivemind_tui.render.format import clean
from hivemind_tui.state.view import View

LOG_PAGES = frozenset({"overview", "tuning", "log"})
"""Pages that show the latest lines of the log."""


def confirmation(commands: Sequence[Command], view: View) -> str:
    """Return the first command in words, and how many more there are; nothing where the page shows the log."""
    if not commands or view.page in LOG_PAGES:
        return ""
    arguments = arguments_of(commands[0])
    about = subject(arguments)
    text = sentence(Commanded(0.0, "", type(commands[0]).__name__, arguments))
    more = f", and {len(commands) - 1} more" if len(commands) > 1 else ""
    return clean((text if about == ALL else f"{about}: {text}") + more)
