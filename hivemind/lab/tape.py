"""A recorded run taken apart: each request with its attempts, and after what it came.

An agent asks because something has ended: its last answer, its sub-agent's, the start of its process. Only the time
between the two is its own, so that is what is kept, and a run in which answers come sooner is asked sooner too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hivemind.journal.records import Carried, JournalBegan
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import Usage, WindowReading

SOON_S = 5.0
"""Within which one order of a runner's follows from another."""
REPEAT_S = 120.0
"""Within which a client asks again for what failed, of its own accord."""


@dataclass(slots=True, eq=False)
class Try:
    """An attempt as it was recorded."""

    granted_at: float
    flying: int
    """In flight in the lane when it began, itself included."""
    first_s: float | None = None
    """To the first content."""
    headed_s: float | None = None
    """To the head, where that told of rate limits."""
    took_s: float = 0.0
    """To its end."""
    usage: Usage | None = None
    failure: ev.AttemptFailed | None = None
    status: int = 200
    whole: bool = False
    """It came to an end of its own: answered or failed."""


@dataclass(slots=True, eq=False)
class Step:
    """Something that was done, and what was done because it was over, so many seconds later."""

    at: float
    """When it began, as recorded."""
    after: list[tuple[float, Step]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Order(Step):
    """A command that was carried out."""

    who: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    tasks: list[ev.TaskAdded] = field(default_factory=list)
    """Those that it submitted."""


@dataclass(slots=True, eq=False)
class Asked(Step):
    """A request. Its `after` is what its end brought about."""

    arrived: ev.Arrived = None  # type: ignore[assignment]  # always given; fields of a base class have defaults
    tries: list[Try] = field(default_factory=list)
    own: list[Try] = field(default_factory=list)
    """Of these the ones that befell it for no reason that a simulation would find by itself."""
    beside: list[tuple[float, Step]] = field(default_factory=list)
    """What followed from its arrival: an agent that sends several at once."""
    end: str = "open"
    """`answered`, `failed`, `refused`, `left` or `open`."""
    ended_at: float = 0.0
    left_flying_s: float | None = None
    """Its client left so long after its last attempt had begun."""
    repeats: Asked | None = None
    """The failed one that its client asks again."""

    @property
    def answered(self) -> Try | None:
        """The attempt that was, if one was."""
        return next((one for one in reversed(self.tries) if one.whole and one.failure is None), None)

    @property
    def left_after_s(self) -> float | None:
        """Its client left so long after its arrival."""
        return self.ended_at - self.at if self.end == "left" else None


@dataclass(slots=True)
class LaneTape:
    """What was told of one lane."""

    key: str
    upstream: str
    provider: str
    config: LaneConfig | None
    readings: list[tuple[float, str, tuple[WindowReading, ...]]] = field(default_factory=list)
    """When, of which family, and what."""


@dataclass(slots=True)
class Tape:
    """A whole run."""

    began: JournalBegan
    began_at: float
    asked: list[Asked]
    orders: list[Order]
    start: list[tuple[float, Step]]
    """What follows from nothing that is known, by its time since the beginning."""
    lanes: dict[str, LaneTape]
    ends_at: float


class Taper:
    """Takes events apart; :meth:`tape` gives what came of it."""

    def __init__(self) -> None:
        self._began: JournalBegan | None = None
        self._began_at: float | None = None
        self._at = 0.0
        self._asked: list[Asked] = []
        self._open: dict[int, Asked] = {}
        self._orders: list[Order] = []
        self._start: list[tuple[float, Step]] = []
        self._lanes: dict[str, LaneTape] = {}
        self._flying: dict[str, int] = {}
        self._agents: dict[str, _Agent] = {}
        self._last: dict[str, Order] = {}
        """By name, the latest order of that kind."""
        self._folds: dict[type[ev.Event], Callable[[Any], None]] = {
            JournalBegan: self._journal,
            Carried: self._carried,
            ev.Arrived: self._arrived,
            ev.Granted: self._granted,
            ev.FirstContent: self._first_content,
            ev.AttemptFailed: self._failed,
            ev.Finished: self._finished,
            ev.Abandoned: self._abandoned,
            ev.Refused: self._refused,
            ev.LaneOpened: self._lane_opened,
            ev.LimitsRead: self._limits_read,
            ev.Commanded: self._commanded,
            ev.TaskAdded: self._task_added,
        }

    def take(self, events: Iterable[ev.Event]) -> None:
        """Take in what happened."""
        folds = self._folds
        at = self._at
        for event in events:
            at = event.at
            fold = folds.get(type(event))
            if fold is not None:
                fold(event)
        self._at = at

    def tape(self) -> Tape:
        """What came of it. Raises: ValueError: nothing was taken in."""
        if self._began is None or self._began_at is None:
            raise ValueError("the journal doesn't begin")
        return Tape(
            self._began, self._began_at, self._asked, self._orders, self._start, self._lanes, max(self._at, 0.0)
        )

    # --- What happened -------------------------------------------------------------------------------------------

    def _journal(self, event: JournalBegan) -> None:
        if self._began is None:
            self._began, self._began_at = event, event.at

    def _carried(self, event: Carried) -> None:
        """The journal begins in the middle: what was open then comes at once."""
        if self._asked or self._lanes:
            return
        for lane in event.state.lanes:
            self._lanes[lane.lane] = LaneTape(lane.lane, lane.upstream, lane.provider, None)
        for ticket in event.state.tickets:
            self._arrived(replace(ticket.arrived, at=event.at))
            if ticket.state in ("waiting", "streaming"):
                arrived = ticket.arrived
                self._granted(ev.Granted(event.at, arrived.ticket, arrived.agent, arrived.lane, ticket.attempt, 0.0))

    def _arrived(self, event: ev.Arrived) -> None:
        asked = Asked(event.at, arrived=event)
        self._asked.append(asked)
        self._open[event.ticket] = asked
        agent = self._agents.get(event.agent)
        if agent is None:
            agent = self._agents[event.agent] = _Agent()
            parent = self._agents.get(event.parent or "")
            if parent is not None:
                parent.children.append(agent)
                agent.start(parent)
            agent.first_at = event.at
        anchor, at_end = agent.anchor()
        if anchor is None:
            self._follow(None, asked)
        elif at_end:
            anchor.after.append((max(0.0, event.at - _over(anchor)), asked))
        else:
            assert isinstance(anchor, Asked)
            anchor.beside.append((max(0.0, event.at - anchor.at), asked))
        asked.repeats = agent.repeated(asked)
        agent.asks(asked)

    def _follow(self, anchor: Order | None, step: Step) -> None:
        """It comes after an order, or (None) at its time."""
        assert self._began_at is not None
        if anchor is None:
            self._start.append((max(0.0, step.at - self._began_at), step))
        else:
            anchor.after.append((max(0.0, step.at - anchor.at), step))

    def _granted(self, event: ev.Granted) -> None:
        asked = self._open.get(event.ticket)
        if asked is None:
            return
        flying = self._flying[event.lane] = self._flying.get(event.lane, 0) + 1
        asked.tries.append(Try(event.at, flying))

    def _first_content(self, event: ev.FirstContent) -> None:
        asked = self._open.get(event.ticket)
        if asked is not None and asked.tries:
            last = asked.tries[-1]
            last.first_s, last.headed_s = event.at - last.granted_at, event.headed_s

    def _failed(self, event: ev.AttemptFailed) -> None:
        asked = self._open.get(event.ticket)
        if asked is None or not asked.tries:
            return
        last = asked.tries[-1]
        last.failure, last.usage, last.whole = event, event.usage, True
        last.status = event.status or 0
        self._land(event.lane, last, event.at)
        if event.retry_in_s is None:
            self._close(event.ticket, asked, event.at, "failed")

    def _finished(self, event: ev.Finished) -> None:
        asked = self._open.get(event.ticket)
        if asked is None:
            return
        if asked.tries:
            last = asked.tries[-1]
            last.usage, last.status, last.whole = event.usage, event.status, True
            self._land(event.lane, last, event.at)
        self._close(event.ticket, asked, event.at, "answered")

    def _abandoned(self, event: ev.Abandoned) -> None:
        asked = self._open.get(event.ticket)
        if asked is None:
            return
        if event.flying and asked.tries:
            last = asked.tries[-1]
            last.usage = event.usage
            self._land(event.lane, last, event.at)
            asked.left_flying_s = last.took_s
        self._close(event.ticket, asked, event.at, "left")

    def _refused(self, event: ev.Refused) -> None:
        asked = None if event.ticket is None else self._open.get(event.ticket)
        if asked is not None and event.ticket is not None:
            self._close(event.ticket, asked, event.at, "refused")

    def _land(self, lane: str, last: Try, at: float) -> None:
        last.took_s = at - last.granted_at
        self._flying[lane] = max(0, self._flying.get(lane, 0) - 1)  # it may have flown elsewhere: lines get lost

    def _close(self, ticket: int, asked: Asked, at: float, how: str) -> None:
        del self._open[ticket]
        asked.end, asked.ended_at = how, at
        self._agents[asked.arrived.agent].ends(asked)

    def _lane_opened(self, event: ev.LaneOpened) -> None:
        self._lanes.setdefault(event.lane, LaneTape(event.lane, event.upstream, event.provider, event.config))

    def _limits_read(self, event: ev.LimitsRead) -> None:
        lane = self._lanes.get(event.lane)
        if lane is not None:
            lane.readings.append((event.at, event.family, event.readings))

    # --- Orders --------------------------------------------------------------------------------------------------

    def _commanded(self, event: ev.Commanded) -> None:
        order = Order(event.at, who=event.who, name=event.name, arguments=event.arguments)
        self._orders.append(order)
        about = event.arguments.get("agent")
        agent = self._agents.get(about) if isinstance(about, str) else None
        if order.name == "EndAgent" and agent is not None and agent.last is not None:
            if agent.last.ended_at:
                agent.last.after.append((max(0.0, order.at - agent.last.ended_at), order))
            else:
                self._follow(None, order)
        else:
            self._follow(self._cause(order), order)
        if order.name == "BeginAgent" and isinstance(about, str):
            self._agents.setdefault(about, _Agent()).begins(order)
        self._last[order.name] = order

    def _cause(self, order: Order) -> Order | None:
        """What a runner's order follows from: tasks are claimed when others are over, and agents begin with them."""
        causes = {
            "BeginAgent": ("ClaimTask", "EndAgent", "BeginAgent"),
            "ClaimTask": ("FinishTask", "SubmitTasks", "ClaimTask"),
            "FinishTask": ("EndAgent",),
        }.get(order.name, ())
        found = [self._last[name] for name in causes if name in self._last]
        latest = max(found, key=lambda each: each.at, default=None)
        return latest if latest is not None and order.at - latest.at <= SOON_S else None

    def _task_added(self, event: ev.TaskAdded) -> None:
        order = self._last.get("SubmitTasks")
        if order is not None and event.at == order.at:
            order.tasks.append(event)
            return
        # From before a restart, which no command in this journal tells of.
        known = Order(event.at, who="recording", name="SubmitTasks", tasks=[event])
        self._orders.append(known)
        self._follow(None, known)


class _Agent:
    """What an agent did last, as far as its next request may follow from it."""

    __slots__ = ("begun", "children", "first_at", "last", "last_asked", "open")

    def __init__(self) -> None:
        self.last: Asked | None = None
        """The one that ended last."""
        self.last_asked: Asked | None = None
        self.begun: Order | None = None
        """Its process was started, and it hasn't asked since."""
        self.children: list[_Agent] = []
        self.first_at = 0.0
        self.open = 0

    def start(self, parent: _Agent) -> None:
        """Its first request follows from what its parent did last."""
        if self.begun is None:
            self.last, self.last_asked = parent.last, parent.last_asked

    def begins(self, order: Order) -> None:
        """Its process was started."""
        self.begun = order

    def anchor(self) -> tuple[Asked | Order | None, bool]:
        """What its next request follows from, and whether from the end of that (else from its beginning)."""
        if self.begun is not None:
            begun, self.begun = self.begun, None
            return begun, True
        ended, asked = self.last, self.last_asked
        for child in self.children:
            # Whoever did nothing while its sub-agent lived has waited for it.
            over = child.last
            if over is not None and not child.open and ended is not None and ended.ended_at <= child.first_at:
                ended = over if over.ended_at > ended.ended_at else ended
        if asked is None:
            return ended, True
        if ended is None or (asked is not ended and asked.at > ended.ended_at):
            return asked, False
        return ended, True

    def repeated(self, asked: Asked) -> Asked | None:
        """The one of its own that failed, where this is the same once more."""
        last = self.last
        if last is None or last.end not in ("failed", "refused") or asked.at - last.ended_at > REPEAT_S:
            return None
        one, two = last.arrived, asked.arrived
        same = (one.agent, one.size_chars, one.model, one.path, one.stream)
        return last if same == (two.agent, two.size_chars, two.model, two.path, two.stream) and two.size_chars else None

    def asks(self, asked: Asked) -> None:
        """It asked."""
        self.last_asked = asked
        self.open += 1

    def ends(self, asked: Asked) -> None:
        """One of its requests is over."""
        self.last = asked
        self.open -= 1


def _over(step: Asked | Order) -> float:
    """When it was over, as recorded."""
    return step.ended_at if isinstance(step, Asked) else step.at
