"""Marks: moments of a journal that a user may want to jump to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hivemind.journal.event_text import describe
from hivemind.journal.records import Gap
from hivemind.scheduler import events as ev
from hivemind.world.sentences import SHOWN_BY_EVENTS
from hivemind.world.snapshot import Line
from hivemind.world.tickets import BY_OPERATOR
from hivemind.world.world import World

KINDS = ("gap", "death", "circuit", "budget", "command", "parked", "ended", "cut")
"""Events are missing; an agent saw a request fail; the circuit moved; a budget runs low or is used up; an operator
gave a command; the provider asked for a pause; an agent's process ended; the concurrency level was cut."""
TOGETHER_S = 1.0
"""What happens of one kind within that time is one mark, but for commands."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, and what happened then."""

    at: float
    kind: str
    """One of :data:`KINDS`."""
    who: str
    """Agent or lane; of several things the first one's."""
    text: str
    """What happened, for people."""
    level: str = "info"
    """As of :class:`hivemind.world.snapshot.Line`."""
    count: int = 1
    """Things of this kind that happened at about that time."""


class Marker:
    """Finds marks: call one of :attr:`finders` after each event was applied to the world."""

    def __init__(self, world: World) -> None:
        self.found: list[Mark] = []
        """Marks since :meth:`take` was called last."""
        self._latest: dict[str, int] = {}
        """By kind, the position of the last one in that list."""
        self._line: Line | None = None
        world.on_line = self._keep_line
        self.finders: Mapping[type[ev.Event], Callable[[Any], None]] = {
            Gap: lambda event: self._note(event, "gap"),
            ev.AttemptFailed: self._failed,
            ev.Refused: self._refused,
            ev.CircuitChanged: lambda event: self._note(event, "circuit"),
            ev.BudgetWarned: lambda event: self._note(event, "budget"),
            ev.Commanded: self._commanded,
            ev.LaneParked: lambda event: self._note(event, "parked"),
            ev.AgentEnded: lambda event: self._note(event, "ended"),
            ev.LevelChanged: self._level_changed,
        }

    def take(self) -> list[Mark]:
        """Return the marks found since the last call."""
        taken, self.found = self.found, []
        self._latest.clear()
        return taken

    def _keep_line(self, line: Line) -> None:
        self._line = line

    def _note(self, event: ev.Event, kind: str) -> None:
        level, _, who, text = describe(event)
        where = self._latest.get(kind)
        if where is not None and 0 <= event.at - self.found[where].at < TOGETHER_S:
            mark = self.found[where]
            self.found[where] = replace(mark, count=mark.count + 1)
            return
        self._latest[kind] = len(self.found)
        self.found.append(Mark(event.at, kind, who, text, level))

    def _failed(self, event: ev.AttemptFailed) -> None:
        if event.retry_in_s is None:
            self._note(event, "death")

    def _refused(self, event: ev.Refused) -> None:
        if event.reason not in BY_OPERATOR:
            self._note(event, "death")

    def _level_changed(self, event: ev.LevelChanged) -> None:
        if event.cause not in ("grow", "operator"):
            self._note(event, "cut")

    def _commanded(self, event: ev.Commanded) -> None:
        """Mark a command in the words of its line in the log, which include the value before."""
        line, self._line = self._line, None
        if event.name not in SHOWN_BY_EVENTS and line is not None:
            self.found.append(Mark(event.at, "command", line.who, line.text, line.level))
