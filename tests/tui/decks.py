"""A made-up recording for the control room, and a player of what is in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

from tui.worlds import world

from hivemind.journal.codec import line_of
from hivemind.journal.event_text import describe
from hivemind.journal.index.activity import ActivityColumn, Mark
from hivemind.journal.records import Gap, JournalBegan, JournalEnded
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage
from hivemind.world.snapshot import RequestDetail
from hivemind.world.world import World

KINDS: dict[type[ev.Event], str] = {
    ev.LevelChanged: "cut",
    ev.CircuitChanged: "circuit",
    ev.LaneRateLimited: "rate_limited",
    ev.Commanded: "command",
    ev.Refused: "failed",
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
                kind = "failed"
            if kind is None or (isinstance(event, ev.LevelChanged) and event.cause in ("grow", "operator")):
                continue
            _, _, who, text = describe(event)
            found.append(Mark(event.at, kind, who, text))
        return found

    def overview(self, columns: int) -> Sequence[ActivityColumn | None]:
        pieces: list[ActivityColumn | None] = []
        length = (self.ends_at - self.begins_at) / columns
        samples = [event for event in self.events if isinstance(event, ev.Sampled) and event.lanes]
        times = [sample.at for sample in samples]
        for column in range(columns):
            if column >= self.known_to * columns:
                pieces.append(None)
                continue
            upto = bisect_right(times, self.begins_at + (column + 1) * length)
            lanes = samples[upto - 1].lanes if upto else ()
            active, waiting = sum(lane.active for lane in lanes), sum(lane.waiting for lane in lanes)
            pieces.append(ActivityColumn(active, waiting, 0.0, 0, 0))
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

    @property
    def bodies(self) -> bool:
        return self.began.bodies

    def with_heads(self, detail: RequestDetail) -> RequestDetail:
        """A head is made up for every request, and another one for each answer."""
        answered = sum(attempt.ended_at is not None for attempt in detail.view.attempts)
        return replace(
            detail,
            method="POST",
            path="/v1/messages",
            response_headers=(("x-answers", str(answered)),) * bool(answered),
        )


AT, WALL = 1000.0, 1_795_269_600.0
"""When the made-up recording begins: 2026-11-21 14:00:00 UTC."""
LENGTH_S = 120
CREW = ("alice", "bob", "carol")


def recording() -> list[ev.Event]:
    """Two minutes of three agents: a request of each every ten seconds, two cuts, a pause, a command, one death."""
    events: list[ev.Event] = [
        JournalBegan(AT, WALL, "20261121-140000-8765", 1, "hivemind 0", ADDRESS, (("anthropic", "https://a.example"),)),
        ev.LaneOpened(AT + 0.5, LANE, "anthropic", "anthropic"),
    ]
    usual, ticket = replace(world().lanes[0].state, lane=LANE), 0
    for second in range(1, LENGTH_S):
        at = AT + second
        if second % 10 == 1:
            for late, agent in enumerate(CREW):
                ticket += 1
                events += _request(ticket, agent, at + 0.1 * late, dies=second == 61 and agent == "bob")
        events += [made(at + 0.95) for made in _MOMENTS.get(second, ())]
        in_flight = len(CREW) if 1 <= second % 10 <= 4 else 0
        state = replace(usual, active=in_flight, waiting=max(0, second % 7 - 4))
        events.append(ev.Sampled(at + 0.96, (state,)))
    events.append(JournalEnded(AT + LENGTH_S))
    return sorted(events, key=lambda event: event.at)


def _request(ticket: int, agent: str, at: float, *, dies: bool) -> list[ev.Event]:
    asked = ev.Arrived(at, ticket, agent, LANE, "claude-opus-4", "opus", Priority.NORMAL, True, 900, 300)
    granted = ev.Granted(at + 0.2, ticket, agent, LANE, 1, 0.2)
    if dies:
        kind = FailureKind.SERVER_ERROR
        return [asked, granted, ev.AttemptFailed(at + 1, ticket, agent, LANE, 1, kind, 500, "it broke", None)]
    return [
        asked,
        granted,
        ev.FirstContent(at + 1, ticket, agent, LANE, 0.8),
        ev.Finished(at + 3, ticket, agent, LANE, "claude-opus-4", 200, 1, Usage(900, 0, 0, 310), 3.0),
    ]


_MOMENTS: dict[int, Sequence[Callable[[float], ev.Event]]] = {
    30: (lambda at: ev.LevelChanged(at, LANE, 4.0, "rate_limited"),),
    45: (lambda at: ev.Commanded(at, "you", "PauseAgent", {"agent": "carol", "paused": True}),),
    50: (lambda at: ev.Commanded(at, "you", "PauseAgent", {"agent": "carol", "paused": False}),),
    75: (lambda at: ev.LaneRateLimited(at, LANE, 5.0, "429"),),
    90: (lambda at: ev.LevelChanged(at, LANE, 3.0, "overloaded"),),
}
ADDRESS = "http://127.0.0.1:8765"
LANE = "anthropic"


def write(folder: Path, events: Sequence[ev.Event] | None = None) -> Path:
    """The recording as a journal."""
    path = folder / "20261121-140000-8765.jsonl"
    path.write_bytes(b"".join(line_of(event) for event in events or recording()))
    return path
