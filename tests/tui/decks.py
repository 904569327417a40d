"""Recordings for the control room: made in virtual time by a real scheduler, and a player of what is in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from hivemind.journal.records import Gap, JournalBegan
from hivemind.journal.wording import told
from hivemind.scheduler import events as ev
from hivemind.world import World


@dataclass(frozen=True, slots=True)
class Mark:
    """As of the real player."""

    at: float
    kind: str
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """As of the real player."""

    active: int
    waiting: int


KINDS: dict[type[ev.Event], str] = {
    ev.LevelChanged: "cut",
    ev.CircuitChanged: "circuit",
    ev.LaneParked: "parked",
    ev.Commanded: "command",
    ev.Refused: "death",
    ev.BudgetWarned: "budget",
    ev.AgentEnded: "ended",
    Gap: "gap",
}


class Deck:
    """A player of events that are in memory; every seek folds from the start."""

    def __init__(self, events: Sequence[ev.Event], *, growing: bool = False, known_to: float = 1.0) -> None:
        assert isinstance(events[0], JournalBegan)
        self.began = events[0]
        self.events = list(events)
        self.growing = growing
        self.known_to = known_to
        self.approximate = False
        self.damage: list[str] = []
        self.seeks: list[float] = []
        self.news = False
        self.seek(self.begins_at)

    @property
    def begins_at(self) -> float:
        return self.began.at

    @property
    def ends_at(self) -> float:
        return self.events[-1].at

    @property
    def wall_offset_s(self) -> float:
        return self.began.wall - self.began.at

    @property
    def marks(self) -> Sequence[Mark]:
        found = []
        for event in self.events:
            kind = KINDS.get(type(event))
            if isinstance(event, ev.AttemptFailed) and event.retry_in_s is None:
                kind = "death"
            if kind is None or (isinstance(event, ev.LevelChanged) and event.cause in ("grow", "operator")):
                continue
            _, _, who, text = told(event)
            found.append(Mark(event.at, kind, who, text))
        return found

    def overview(self, columns: int) -> Sequence[Piece | None]:
        pieces: list[Piece | None] = []
        length = (self.ends_at - self.begins_at) / columns
        samples = [event for event in self.events if isinstance(event, ev.Sampled) and event.lanes]
        times = [sample.at for sample in samples]
        for column in range(columns):
            if column >= self.known_to * columns:
                pieces.append(None)
                continue
            upto = bisect_right(times, self.begins_at + (column + 1) * length)
            lanes = samples[upto - 1].lanes if upto else ()
            pieces.append(Piece(sum(lane.active for lane in lanes), sum(lane.waiting for lane in lanes)))
        return pieces

    def look(self) -> bool:
        news, self.news = self.news, False
        return news

    def grow(self, *events: ev.Event) -> None:
        """More was written."""
        self.events += events
        self.news = True

    def seek(self, at: float) -> None:
        self.seeks.append(at)
        began = self.began
        self.world = World(at=began.at, wall=began.wall, address=began.address, upstreams=began.upstreams)
        self._next = 0
        self.advance(at, 0.0)

    def advance(self, to_at: float, budget_s: float) -> float:
        while self._next < len(self.events) and self.events[self._next].at <= to_at:
            self.world.apply(self.events[self._next])
            self._next += 1
        return to_at

    def event_after(self, at: float) -> tuple[float, str] | None:
        index = bisect_right(self.events, at, key=lambda event: event.at)
        return self._told(index) if index < len(self.events) else None

    def event_before(self, at: float) -> tuple[float, str] | None:
        index = bisect_left(self.events, at, key=lambda event: event.at) - 1
        return self._told(index) if index >= 0 else None

    def _told(self, index: int) -> tuple[float, str]:
        event = self.events[index]
        _, tag, who, text = told(event)
        return event.at, f"{tag} {who}: {text}" if who else f"{tag}: {text}"
