"""What an index says of a whole journal: activity in columns of equal length, and marks to jump to."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from hivemind.journal.event_text import describe
from hivemind.journal.records import Gap
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind
from hivemind.world.lines import SHOWN_BY_EVENTS
from hivemind.world.snapshot import Line
from hivemind.world.tickets import BY_OPERATOR
from hivemind.world.world import World

ROWS_KEPT = 4096
"""Pieces; where there are more, two become one."""

COUNTED = frozenset({ev.Granted, ev.AttemptFailed, ev.Refused})
"""What :meth:`Seconds.count` counts."""
Row = tuple[int, int, int, float, int, int]
"""Second since the journal began; in flight, waiting and the level as it ended; errors and grants in it."""


class ActivityColumn(Struct, frozen=True):
    """Activity in one piece of the journal."""

    active: int
    """In flight, at most."""
    waiting: int
    """In the queue, at most."""
    level: float
    """Concurrency levels of all lanes together, at most."""
    errors: int
    """Attempts that failed, and refusals."""
    grants: int


class Seconds:
    """Counts, second by second, beside a world that folds the events; seconds in which nothing happens have no row."""

    def __init__(self, world: World, began_at: float) -> None:
        self.closes_at = began_at
        """An event from then on closes the second before it: see :meth:`close`."""
        self.errors = self.grants = 0
        self._began_at = began_at
        self._world = world
        self._second = 0
        self._any = False
        self._rows: list[Row] = []

    def count(self, event: ev.Event) -> None:
        """Count a grant, a failed attempt or a refusal."""
        if type(event) is ev.Granted:
            self.grants += 1
        else:
            self.errors += 1

    def close(self, at: float) -> None:
        """End the second: the next event happens at `at`, and isn't applied to the world yet."""
        if self._any:
            in_flight, waiting, level = self._world.gauges()
            in_flight = max(in_flight, min(self.grants, 1))
            self._rows.append((self._second, in_flight, waiting, level, self.errors, self.grants))
        self.errors = self.grants = 0
        self._any = True
        self._second = max(0, int(at - self._began_at))
        self.closes_at = self._began_at + self._second + 1

    def take(self) -> list[Row]:
        """Return the rows since the last call; the current second is split into two."""
        self.close(self._began_at + self._second)
        self._any = False
        self.closes_at = self._began_at + self._second
        taken, self._rows = self._rows, []
        return taken


class Overview:
    """Collects rows in bounded memory."""

    def __init__(self) -> None:
        self._width = 1
        """Seconds of a piece."""
        self._rows: list[Row] = []
        """By the number of the piece."""

    def add(self, rows: list[Row]) -> None:
        """Add the rows that come next."""
        for row in rows:
            self._put((row[0] // self._width, *row[1:]))
        while len(self._rows) > ROWS_KEPT:
            old, self._rows = self._rows, []
            self._width *= 2
            for row in old:
                self._put((row[0] // 2, *row[1:]))

    def _put(self, row: Row) -> None:
        if self._rows and self._rows[-1][0] >= row[0]:
            self._rows[-1] = _joined(self._rows[-1], row)
        else:
            self._rows.append(row)

    def columns(self, count: int, length_s: float, known_s: float) -> list[ActivityColumn | None]:
        """Return so many equal pieces of the whole; None for those that weren't read yet."""
        if count <= 0:
            return []
        width_s = max(length_s, 1e-9) / count
        rows: dict[int, Row] = {}
        latest: dict[int, Row] = {}
        """The last row of each piece, as which it goes on where nothing more happens."""
        for row in self._rows:
            first = min(count - 1, int(row[0] * self._width / width_s))
            end = min(count - 1, int(((row[0] + 1) * self._width - 1e-6) / width_s))
            share = (first, *row[1:])
            rows[first] = _joined(rows[first], share) if first in rows else share
            latest[end] = row
            for number in range(first + 1, end + 1):
                rows[number] = (number, *row[1:4], 0, 0)
        shown: list[ActivityColumn | None] = []
        standing: Row = (0, 0, 0, 0.0, 0, 0)
        for number in range(count):
            if number * width_s >= known_s:
                shown.append(None)
                continue
            row = rows.get(number) or (number, *standing[1:4], 0, 0)
            standing = latest.get(number, standing)
            shown.append(ActivityColumn(*row[1:]))
        return shown


def _joined(one: Row, other: Row) -> Row:
    return (
        one[0],
        max(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
        one[4] + other[4],
        one[5] + other[5],
    )


MARKED: Mapping[type[ev.Event], str] = {
    Gap: "gap",
    ev.InvariantBroken: "alarm",
    ev.AlertRaised: "alert",
    ev.RunDenied: "denied",
    ev.StartRefused: "denied",
    ev.AttemptFailed: "failed",
    ev.Refused: "failed",
    ev.CircuitChanged: "circuit",
    ev.BudgetWarned: "budget",
    ev.Commanded: "command",
    ev.LaneRateLimited: "rate_limited",
    ev.AgentEnded: "ended",
    ev.LevelChanged: "cut",
}
"""Events that may be worth a jump, and the kind of their mark: events are missing; an invariant is broken; an alert was
raised; a run was denied something, or its start; an agent saw a request fail; the circuit moved; a budget runs low or
is used up; an operator gave a command; the provider asked for a pause; an agent's process ended; the concurrency level
was cut."""
_REFUSALS = (FailureKind.RATE_LIMITED, FailureKind.OVERLOADED)
TOGETHER_S = 1.0
"""What happens of one kind within that time is one mark, but for commands."""


class Mark(Struct, frozen=True):
    """A moment, and what happened then."""

    at: float
    kind: str
    """As in :data:`MARKED`."""
    who: str
    """Agent or lane; of several things the first one's."""
    text: str
    """What happened, for people."""
    level: str = "info"
    """As of :class:`hivemind.world.snapshot.Line`."""
    count: int = 1
    """Things of this kind that happened at about that time."""


class Marker:
    """Finds marks: call :meth:`note` with each event after it was applied to the world."""

    def __init__(self, world: World, *, foreign: bool = False) -> None:
        """`foreign`: another program recorded it, so a refusal that was retried shows in no pause and no cut."""
        self._foreign = foreign
        self.found: list[Mark] = []
        """Marks since :meth:`take` was called last."""
        self._latest: dict[str, int] = {}
        """By kind, the position of the last one in that list."""
        self._levels: dict[str, float] = {}
        """The concurrency level by lane."""
        self._cut_from: dict[str, float] = {}
        """By lane, the level before the cuts of the last mark."""
        self._line: Line | None = None
        world.on_line = self._keep_line

    def take(self) -> list[Mark]:
        """Return the marks found since the last call."""
        taken, self.found = self.found, []
        self._latest.clear()
        return taken

    def note(self, event: ev.Event) -> None:
        """Mark the event, of a kind in :data:`MARKED`, if it is worth a jump."""
        if isinstance(event, ev.Commanded):
            # In the words of its line in the log, which include the value before.
            line, self._line = self._line, None
            if event.name not in SHOWN_BY_EVENTS and line is not None:
                self.found.append(Mark(event.at, "command", line.who, line.text, line.level))
            return
        kind = MARKED[type(event)]
        before: float | None = None
        match event:
            case ev.AttemptFailed() if event.retry_in_s is not None:
                if not self._foreign or event.kind not in _REFUSALS:
                    return
                kind = "rate_limited"
            case ev.Refused() if event.reason in BY_OPERATOR:
                return
            case ev.LevelChanged():
                before, self._levels[event.lane] = self._levels.get(event.lane), event.level
                if event.cause in ev.NO_CUTS:
                    return
        level, _, who, text = describe(event)
        where = self._latest.get(kind)
        mark = None if where is None else self.found[where]
        if where is not None and mark is not None and 0 <= event.at - mark.at < TOGETHER_S:
            if isinstance(event, ev.LevelChanged) and mark.who == who:
                mark = replace(mark, text=_from(self._cut_from.get(who), text))
            self.found[where] = replace(mark, count=mark.count + 1)
            return
        if isinstance(event, ev.LevelChanged):
            self._cut_from.clear()
            if before is not None and not math.isinf(before):
                self._cut_from[who] = before
                text = _from(before, text)
        self._latest[kind] = len(self.found)
        self.found.append(Mark(event.at, kind, who, text, level))

    def _keep_line(self, line: Line) -> None:
        self._line = line


def _from(before: float | None, text: str) -> str:
    """Return `concurrency level 1.0 (truncated)` with the level before it."""
    return text if before is None else text.replace(" level ", f" level {before:.1f} → ", 1)
