"""One clock and one numbering of tickets for all that a reader yields, even from journals concatenated in a file."""

from __future__ import annotations

import math

from hivemind.journal.read.damage import Damage
from hivemind.journal.records import JournalBegan
from hivemind.scheduler.events import Event

LONGEST_S = 366 * 86_400.0
"""Between two lines; where there seem to be more, the clock isn't to be believed."""
_DISORDER_S = 1.0
"""Lines of several sources may be that far out of order."""
_TICKETS_APART = 10**9
"""Between the tickets of two journals in one file: no journal has so many."""

OrderState = tuple[float, float, int]
"""What an order goes on from: the latest moment, by what the clock is put right, journals that began in the midst."""


class EventOrder:
    """The state of reading. Events are corrected in place, as nothing else refers to them yet."""

    __slots__ = ("_began", "_damage", "_journals", "_shift_s", "at", "moved")

    def __init__(self, began: JournalBegan | None, damage: Damage) -> None:
        self._began = began
        self._damage = damage
        self._shift_s = 0.0
        self._journals = 0
        self.at = math.nan
        """Of the latest event; not a number before the first."""
        self.moved = False
        """Every event has to be corrected from now on."""

    @property
    def standing(self) -> OrderState:
        """The state to resume from."""
        return self.at, self._shift_s, self._journals

    def resume(self, standing: OrderState) -> None:
        """Resume from a state."""
        self.at, self._shift_s, self._journals = standing
        self.moved = bool(self._shift_s or self._journals)

    def begin(self, event: JournalBegan, where: str) -> None:
        """Note that another part begins, or another journal."""
        first, self._began = self._began, self._began or event
        if first is None or event.journal == first.journal:
            return
        name = "".join(letter if letter.isprintable() else "?" for letter in event.journal[:80])
        self._damage.others.append(f"at {where} another journal begins, {name}; it is read as if it went on here")
        self._journals += 1
        self.moved = True
        at = event.wall - first.wall + first.at
        # Where its times of day don't follow, it goes on from here.
        self._shift_s = (at if 0.0 <= at - self.at < LONGEST_S else self._latest(at)) - event.at

    def put(self, event: Event, where: str) -> None:
        """Correct an event whose clock or ticket may not follow from those before."""
        if self._journals and (ticket := getattr(event, "ticket", None)) is not None:
            event.ticket = ticket + self._journals * _TICKETS_APART  # type: ignore[attr-defined]  # it has one
        at = event.at + self._shift_s
        if at - self.at < -_DISORDER_S or at - self.at >= LONGEST_S:
            self._damage.backwards += 1
            self._damage.first_backwards = self._damage.first_backwards or where
            self._shift_s, at = self.at - event.at, self.at
            self.moved = True
        if at != event.at:
            event.at = at  # type: ignore[misc]  # see above
        self.at = self._latest(at)

    def _latest(self, at: float) -> float:
        return at if math.isnan(self.at) else max(self.at, at)
