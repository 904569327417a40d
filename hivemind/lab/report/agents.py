"""An agent's part in a run: its requests and their ends, its row of spans, and what it would have lost without retries.

Times are in seconds since the run began.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from copy import copy

from msgspec import Struct, field

from hivemind.journal.past import TokenSpending
from hivemind.scheduler.types import Usage

MODELS_KEPT = 40
OTHERS = "other models"
STATES = ("streaming", "waiting", "background", "retry", "queued")
"""States of a request in order of precedence: of an agent's requests the first of these states is shown."""
SPANS_KEPT = 8000
"""Spans and marks of all rows together."""
_FINEST_S = 0.02
_COARSEST_S = 1e9

Mark = tuple[float, str, bool]
"""Time and kind of a failed attempt, and whether its error was passed on to the agent."""


class Span:
    """A time in which an agent was in one state, or a sequence of such times too short to be told apart."""

    __slots__ = ("begins", "ends", "seconds")

    def __init__(self, begins: float, ends: float, state: int) -> None:
        self.begins, self.ends = begins, ends
        self.seconds = [0.0] * len(STATES)
        """Time in each state."""
        self.seconds[state] = ends - begins

    @property
    def mixed(self) -> bool:
        """It covers several states."""
        return sum(1 for each in self.seconds if each) > 1

    def join(self, later: Span) -> None:
        """Extend the span over a later one."""
        self.ends = later.ends
        self.seconds = [one + other for one, other in zip(self.seconds, later.seconds, strict=True)]


class AgentRow:
    """The row of one agent: spans that don't overlap, and marks for failed attempts."""

    __slots__ = ("_counts", "_rows", "_since", "_state", "marks", "spans")

    def __init__(self, rows: AgentRows) -> None:
        self.spans: list[Span] = []
        self.marks: list[Mark] = []
        self._rows = rows
        self._counts = [0] * len(STATES)
        self._state: int | None = None
        self._since = 0.0

    def move(self, at: float, before: int | None, after: int | None) -> None:
        """Change the state of one of the agent's requests; None: the request arrives, or is over."""
        counts = self._counts
        if before is not None:
            counts[before] -= 1
        if after is not None:
            counts[after] += 1
        state = next((number for number, count in enumerate(counts) if count), None)
        if state != self._state:
            if self._state is not None:
                self.span(self._since, at, self._state)
            self._state, self._since = state, at

    def span(self, begins: float, ends: float, state: int) -> None:
        """Add a span, unless it is empty."""
        if ends > begins:
            self.spans.append(Span(begins, ends, state))
            self._rows.grown()

    def mark(self, at: float, kind: str, passed_on: bool) -> None:
        """Add a failed attempt."""
        self.marks.append((at, kind, passed_on))
        self._rows.grown()

    def join(self, width_s: float) -> None:
        """Join spans that begin in the same interval of this width, and keep one mark of each interval."""
        if not width_s:
            return
        spans: list[Span] = []
        for span in self.spans:
            if spans and int(spans[-1].begins / width_s) == int(span.begins / width_s):
                spans[-1].join(span)
            else:
                spans.append(span)
        self.spans = spans
        marks: dict[tuple[int, bool], Mark] = {}
        for mark in self.marks:
            marks.setdefault((int(mark[0] / width_s), mark[2]), mark)
        self.marks = list(marks.values())


class AgentRows:
    """All rows. Once there are too many spans, short ones near each other are joined."""

    def __init__(self, most: int = SPANS_KEPT) -> None:
        self.joined_s = 0.0
        """Spans that begin within this time of each other are joined; 0: none are."""
        self._most = most
        self._rows: list[AgentRow] = []
        self._count = 0

    def new(self) -> AgentRow:
        """Add a row."""
        row = AgentRow(self)
        self._rows.append(row)
        return row

    def settle(self) -> None:
        """Join the latest spans like all before."""
        for row in self._rows:
            row.join(self.joined_s)
        self._count = sum(len(row.spans) + len(row.marks) for row in self._rows)

    def grown(self) -> None:
        """Count one more span or mark, and join spans if there are too many."""
        self._count += 1
        if self._count <= 2 * self._most:
            return
        self.settle()
        while self._count > self._most and self.joined_s <= _COARSEST_S:
            self.joined_s = max(_FINEST_S, 2 * self.joined_s)
            self.settle()


class AgentStats(Struct):
    """An agent's counts, spending and row."""

    name: str
    row: AgentRow | None = None
    """None: the agent isn't drawn."""
    client: str = ""
    ended: float = 0.0
    """The end of its last request."""
    last_end: str = ""
    """How that ended: `answered`, `failed`, `refused`, `left`; empty: no request has ended, or one is open."""
    exit_code: int | None = None
    stopped: bool = False
    died: bool = False
    """As in :attr:`~hivemind.world.snapshot.AgentView.state`: its process ended with an error, or by a signal that no
    operator sent."""
    requests: int = 0
    answered: int = 0
    failed: int = 0
    refused: int = 0
    retries: int = 0
    recovered: int = 0
    """Requests answered after a failed attempt."""
    saw_error: bool = False
    """It got an error that no operator caused, from which on retries don't count as saving it."""
    recovered_first: int = 0
    """Of the requests answered after a failed attempt those before it saw an error."""
    spent: TokenSpending = field(default_factory=TokenSpending)
    spent_at_recovery: TokenSpending = field(default_factory=TokenSpending)
    """What it had used at the last of these: without retries, it would have ended by then."""
    models: dict[str, TokenSpending] = field(default_factory=dict)
    caches: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("waited", "thought", "switched", "order"), 0.0)
    )
    """Dollars by :attr:`.events.PromptCached.why`."""

    @property
    def saved(self) -> bool:
        """A failed attempt was retried OK before it saw an error."""
        return self.recovered_first > 0

    def use(self, model: str, usage: Usage, dollars: float | None, wasted: bool) -> None:
        """Add the usage of an attempt."""
        self.spent.use(usage, dollars, wasted)
        _spending_on(self.models, model).use(usage, dollars, wasted)

    def recover(self) -> None:
        """Count a request that was answered after a failed attempt."""
        self.recovered += 1
        if self.saw_error:
            return
        self.recovered_first += 1
        self.spent_at_recovery = copy(self.spent)


def _spending_on(models: dict[str, TokenSpending], model: str) -> TokenSpending:
    """Return the entry of a model; beyond :data:`MODELS_KEPT` models the common one of all others."""
    name = model or "(none named)"
    if name not in models and len(models) >= MODELS_KEPT:
        name = OTHERS
    return models.setdefault(name, TokenSpending())


def spending_by_model(agents: Mapping[str, AgentStats]) -> dict[str, TokenSpending]:
    """Return the spending of all agents by model, the most expensive model first."""
    found: dict[str, TokenSpending] = {}
    for agent in agents.values():
        for model, spent in agent.models.items():
            _spending_on(found, model).add(spent)
    return dict(sorted(found.items(), key=lambda each: (-each[1].dollars, -each[1].tokens, each[0])))


class FaultKind(Struct):
    """Failed attempts of one kind."""

    count: int = 0
    retried: int = 0
    statuses: Counter[int | None] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """How the requests ended: `answered`, `failed`, `refused`, `left`, or `open` if that isn't known."""


class Faults:
    """The failed attempts of a run by kind, and how their requests ended."""

    def __init__(self) -> None:
        self.kinds: defaultdict[str, FaultKind] = defaultdict(FaultKind)

    def add(self, kind: str, status: int | None, *, retried: bool) -> None:
        """Count a failed attempt."""
        found = self.kinds[kind]
        found.count += 1
        found.statuses[status] += 1
        found.retried += retried

    def end(self, kinds: Iterable[str], outcome: str) -> None:
        """Count the end of a request whose attempts had failed in these ways."""
        for kind in kinds:
            self.kinds[kind].outcomes[outcome] += 1

    @property
    def count(self) -> int:
        """The number of failed attempts."""
        return sum(kind.count for kind in self.kinds.values())

    def ended(self, outcome: str) -> int:
        """Return the number of failed attempts whose request ended so."""
        return sum(kind.outcomes[outcome] for kind in self.kinds.values())

    def most_frequent(self) -> list[tuple[str, FaultKind]]:
        """Return the kinds, the most frequent one first."""
        return sorted(self.kinds.items(), key=lambda each: (-each[1].count, each[0]))
