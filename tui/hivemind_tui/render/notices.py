"""What the terminal itself is told, beside the screen: a bell and a desktop notification for each new alert, and the
verdict as the window's title. Returns what is to be written; nothing of it moves the cursor or paints anything."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hivemind.world.alerts import unacknowledged
from hivemind.world.health import Alert, Verdict
from hivemind.world.snapshot import Snapshot
from hivemind.world.verdict import word
from hivemind_tui.render.format import clean

BELL = "\a"
KEEP_TITLE = "\x1b[22;2t"
"""Has the terminal put its title aside; :data:`RESTORE_TITLE` takes it back."""
RESTORE_TITLE = "\x1b[23;2t"
LONGEST = 200
"""Most characters of a notification or a title."""
_POOR = re.compile(r"(?:.*\.)?(?:linux(?:-.*)?|vt\d+.*|dumb|unknown)")
"""Terminals without titles and notifications, of which some would print them."""
_NINE = frozenset({"iterm.app", "wezterm", "ghostty"})
"""Terminals that show OSC 9; those that show a notification at all show OSC 777 otherwise."""


class NoticesWanted(Struct, frozen=True):
    """What the terminal is told."""

    bell: bool = True
    desktop: bool = True
    title: bool = True


class Notices:
    """The notices of one screen, each shown once."""

    def __init__(self, wanted: NoticesWanted, environment: Mapping[str, str]) -> None:
        term, program = (environment.get(name, "").strip().lower() for name in ("TERM", "TERM_PROGRAM"))
        rich = not _POOR.fullmatch(term)
        self._bell, self._desktop, self._title = wanted.bell, wanted.desktop and rich, wanted.title and rich
        self._in_tmux = bool(environment.get("TMUX"))
        self._nine = self._in_tmux or program in _NINE or "kitty" in term
        self._known: set[tuple[int, str]] | None = None
        """Alerts that were there already; None: nothing was seen yet."""
        self._titled = ""

    @property
    def at_end(self) -> str:
        """What is to be written when the screen ends."""
        return RESTORE_TITLE if self._titled else ""

    def forget(self) -> None:
        """Begin with another proxy."""
        self._known = None

    def look(self, snapshot: Snapshot) -> str:
        """Return what is to be written after this snapshot; empty: nothing new."""
        known, alerts = self._known, snapshot.alerts
        self._known = {_key(alert) for alert in alerts}
        fresh = [] if known is None else [alert for alert in unacknowledged(alerts) if _key(alert) not in known]
        told = self._told([alert for alert in fresh if not alert.over])
        return told + (self._new_title(snapshot) if self._title else "")

    def _told(self, fresh: list[Alert]) -> str:
        if not fresh:
            return ""
        others = len(fresh) - 1
        text = fresh[0].text + (f" (and {others} more)" if others else "")
        return (BELL if self._bell else "") + (self._notification(text) if self._desktop else "")

    def _notification(self, text: str) -> str:
        text = fit_to_tell(text)
        if not self._nine:
            return f"\x1b]777;notify;HiveMind;{text.replace(';', ',')}\x1b\\"
        sequence = f"\x1b]9;HiveMind: {text}\a"
        # tmux passes on what is wrapped so, where its option allow-passthrough is on, and ignores it elsewhere.
        return f"\x1bPtmux;\x1b{sequence}\x1b\\" if self._in_tmux else sequence

    def _new_title(self, snapshot: Snapshot) -> str:
        title = title_of(snapshot.verdict)
        if title == self._titled:
            return ""
        first, self._titled = not self._titled, title
        return (KEEP_TITLE if first else "") + f"\x1b]2;{title}\x1b\\"


def title_of(verdict: Verdict) -> str:
    """Return the verdict as a window's title: `BLOCKED circuit open - HiveMind`."""
    cause = "" if verdict.cause is None or verdict.state == "healthy" else f" {verdict.cause.text}"
    return f"{fit_to_tell(word(verdict) + cause)} - HiveMind"


def fit_to_tell(text: str) -> str:
    """Return a text that ends no escape sequence, and begins none, whatever an agent is called."""
    text = clean(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _key(alert: Alert) -> tuple[int, str]:
    return alert.number, alert.text
