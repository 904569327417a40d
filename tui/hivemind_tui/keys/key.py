"""What a key is, and the pages and screens on which keys apply."""

from __future__ import annotations

from dataclasses import dataclass

ANYWHERE: frozenset[str] = frozenset()
LISTS = frozenset({"overview", "agents", "requests", "agent", "tasks"})
AGENTS = frozenset({"overview", "agents", "agent", "requests", "request"})
RANKED = AGENTS | {"tasks"}
TASKS = frozenset({"tasks"})
MARKED = frozenset({"overview", "agents"})
WHAT_IF = frozenset({"whatif"})
SCROLLED = LISTS | {"tuning", "log", "request", "start"} | WHAT_IF


@dataclass(frozen=True, slots=True)
class Key:
    """One thing the operator can do."""

    id: str
    keys: str
    """Textual's names, separated by commas."""
    shown: str
    """As people write it."""
    action: str
    short: str
    """In the footer."""
    help: str
    group: str
    pages: frozenset[str] = ANYWHERE
    """Where it applies; none named: anywhere."""

    def applies(self, page: str) -> bool:
        """Whether the key means anything on this page."""
        return not self.pages or page in self.pages
