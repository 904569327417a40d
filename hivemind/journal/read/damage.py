"""What is wrong with a journal, found while reading, in words; and putting right a clock that goes back."""

from __future__ import annotations

import math

from msgspec import Struct, field
from msgspec.structs import replace

from hivemind.console import printable
from hivemind.journal.records import VERSION, JournalBegan
from hivemind.scheduler.events import Event
from hivemind.text.humanise import plural

_SHOWN_EACH = 3
"""Of what may happen often, the first few are shown one by one."""


class Damage(Struct):
    """What was found wrong on the way, for people."""

    bad_lines: int = 0
    first_bad: str = ""
    """Where the first of them was, and what was wrong with it."""
    torn: bool = False
    """The last line isn't whole: the journal is truncated."""
    newer: int = 0
    """Lines of a newer version that aren't understood."""
    newer_version: int = 0
    """Of such lines, or of a part's first line; 0: nothing is newer."""
    gaps: int = 0
    lost: int = 0
    """Lines that the writer had to drop, in so many gaps."""
    gap_why: str = ""
    """Why, where all of them have the same reason."""
    ended: bool = False
    """The writer ended in good order."""
    without_effect: dict[str, None] = field(default_factory=dict)
    """Settings of the run that there aren't any more, in order. No damage, but what a simulation can't reproduce."""
    guessed: str = ""
    """By what times of day were guessed, where the first line doesn't say."""
    part: int = 1
    """The first that was read."""
    missing: list[str] = field(default_factory=list)
    """Files of parts that aren't there, though later ones are."""
    unread: list[str] = field(default_factory=list)
    """Files of parts that can't be read, and why."""
    others: list[str] = field(default_factory=list)
    """Where another journal begins in the midst of a file."""
    backwards: int = 0
    """Times that the clock went back."""
    first_backwards: str = ""

    def gap(self, lost: int, why: str) -> None:
        """The writer dropped so many lines."""
        why = printable(why[:80])
        self.gap_why = why if not self.gaps or why == self.gap_why else ""
        self.gaps += 1
        self.lost += lost

    def messages(self) -> list[str]:
        """One line for each thing that is wrong; none where nothing is."""
        lines = []
        if self.part > 1:
            lines.append(f"begins with part {self.part}: what was in the parts before isn't here")
        if self.newer_version:
            are = "line isn't" if self.newer == 1 else "lines aren't"
            left_out = f": {self.newer:,} {are} understood and left out"
            lines.append(
                f"written by a newer HiveMind (version {self.newer_version}, this one reads {VERSION});"
                f" update to see all{left_out if self.newer else '; everything that is known here is read'}"
            )
        if self.guessed:
            lines.append(f"its first line can't be read, so times of day are guessed by {self.guessed}")
        if self.bad_lines:
            first = "it is" if self.bad_lines == 1 else "the first is"
            lines.append(f"{plural(self.bad_lines, 'line')} can't be read and left out; {first} {self.first_bad}")
        if self.torn:
            lines.append("the last line isn't whole: the program that wrote it was killed, or the disk was full")
        if self.gaps:
            are = "event is" if self.lost == 1 else "events are"
            where = "a gap" if self.gaps == 1 else f"{self.gaps:,} gaps"
            why = self.gap_why or "the disk was full, slow or gone"
            lines.append(f"{self.lost:,} {are} missing in {where}: {why}")
        if self.backwards:
            how_often = "once" if self.backwards == 1 else f"{self.backwards:,} times"
            lines.append(f"the clock goes back {how_often}, the first time at {self.first_backwards}")
        for file in _some(self.missing):
            lines.append(f"{file} is missing; what comes after it is read all the same")
        lines += _some(self.unread)
        lines += _some(self.others)
        return lines


def _some(texts: list[str]) -> list[str]:
    more = [f"and {len(texts) - _SHOWN_EACH:,} more like that"] if len(texts) > _SHOWN_EACH else []
    return [*texts[:_SHOWN_EACH], *more]


LONGEST_S = 366 * 86_400.0
"""Between two lines; where there seem to be more, the clock isn't to be believed."""
_DISORDER_S = 1.0
"""Lines of several sources may be that far out of order."""
_TICKETS_APART = 10**9
"""Between the tickets of two journals in one file: no journal has so many."""

OrderState = tuple[float, float, int]
"""What an order goes on from: the latest moment, by what the clock is put right, journals that began in the midst."""


class EventOrder:
    """The state of reading."""

    def __init__(self, began: JournalBegan | None, damage: Damage, standing: OrderState | None = None) -> None:
        self._began = began
        self._damage = damage
        self.at, self._shift_s, self._journals = standing or (math.nan, 0.0, 0)
        """`at` is of the latest event; not a number before the first."""
        self.moved = bool(self._shift_s or self._journals)
        """Every event has to be corrected from now on."""

    @property
    def standing(self) -> OrderState:
        """The state to resume from."""
        return self.at, self._shift_s, self._journals

    def begin(self, event: JournalBegan, where: str) -> None:
        """Note that another part begins, or another journal."""
        first, self._began = self._began, self._began or event
        if first is None or event.journal == first.journal:
            return
        name = printable(event.journal[:80])
        self._damage.others.append(f"at {where} another journal begins, {name}; it is read as if it went on here")
        self._journals += 1
        self.moved = True
        at = event.wall - first.wall + first.at
        # Where its times of day don't follow, it goes on from here.
        self._shift_s = (at if 0.0 <= at - self.at < LONGEST_S else self._latest(at)) - event.at

    def put(self, event: Event, where: str) -> Event:
        """Return an event whose clock or ticket may not follow from those before, corrected."""
        if self._journals and (ticket := getattr(event, "ticket", None)) is not None:
            event = replace(event, ticket=ticket + self._journals * _TICKETS_APART)
        at = event.at + self._shift_s
        if at - self.at < -_DISORDER_S or at - self.at >= LONGEST_S:
            self._damage.backwards += 1
            self._damage.first_backwards = self._damage.first_backwards or where
            self._shift_s, at = self.at - event.at, self.at
            self.moved = True
        if at != event.at:
            event = replace(event, at=at)
        self.at = self._latest(at)
        return event

    def _latest(self, at: float) -> float:
        return at if math.isnan(self.at) else max(self.at, at)
