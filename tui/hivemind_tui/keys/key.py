"""What a key is, and the sets of pages on which keys apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.keys import key_to_character

from hivemind_tui.state.view import View

ANYWHERE: frozenset[str] = frozenset()
LISTS = frozenset({"overview", "agents", "requests", "agent", "tasks"})
AGENTS = frozenset({"overview", "agents", "agent", "requests", "request"})
RANKED = AGENTS | {"tasks"}
TASKS = frozenset({"tasks"})
TREES = frozenset({"overview", "agents"})
TUNING = frozenset({"tuning"})
WHAT_IF = frozenset({"whatif"})
SCROLLED = LISTS | {"tuning", "log", "request", "start"} | WHAT_IF


_SHOWN = {"escape": "esc", "backslash": "\\", "slash": "/", "plus": "+", "minus": "-"}


@dataclass(frozen=True, slots=True)
class Key:
    """One command, the keys that run it, and what is said about it."""

    id: str
    keys: str
    """Textual's names, separated by commas; the first is the one shown."""
    action: str
    label: str
    """In the footer."""
    help: str
    group: str
    pages: frozenset[str] = ANYWHERE
    """Where it applies; none named: anywhere."""
    live: bool | None = None
    """Whether only a live screen has it (True), or only a recording (False)."""
    name: str = ""
    """In the palette, where the id doesn't say it."""
    words: str = ""
    """Further words by which the palette finds it."""
    listed: bool = True
    """Whether the palette has it; keys that only move the cursor aren't commands."""
    pair: str = ""
    """Keys that stand together in the footer, under this label."""
    label_now: Callable[[View], str] | None = None
    """What it would do at the moment, where that changes."""
    available: Callable[[View], bool] | None = None
    """Whether it would do anything at the moment."""
    urgent: Callable[[View], bool] | None = None
    """Whether it ends something that holds up or hides things, and so comes before other keys."""

    @property
    def shown(self) -> str:
        """The key as people write it."""
        first = self.keys.partition(",")[0]
        character = key_to_character(first)
        if character is not None and character.isprintable() and character != " ":
            return character
        return _SHOWN.get(first, first)

    def applies(self, page: str, live: bool) -> bool:
        """Return whether the key means anything on this page, of a live screen or of a recording."""
        if (self.pages and page not in self.pages) or self.live not in (None, live):
            return False
        return self.group != "time" or page not in WHAT_IF  # which is about the whole recording
