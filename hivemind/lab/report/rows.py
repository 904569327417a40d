"""What each agent did when, as rows of spans that don't overlap, with marks for failed attempts."""

from __future__ import annotations

STATES = ("streaming", "waiting", "retry", "queued")
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


class Row:
    """The row of one agent. Times are in seconds since the run began."""

    __slots__ = ("_counts", "_rows", "_since", "_state", "marks", "spans")

    def __init__(self, rows: Rows) -> None:
        self.spans: list[Span] = []
        self.marks: list[Mark] = []
        self._rows = rows
        self._counts = [0] * len(STATES)
        self._state: int | None = None
        self._since = 0.0

    def move(self, at: float, before: int | None, after: int | None) -> None:
        """Change the state of one of the agent's requests; None: the request arrives, or is over."""
        if before is not None:
            self._counts[before] -= 1
        if after is not None:
            self._counts[after] += 1
        state = next((number for number, count in enumerate(self._counts) if count), None)
        if state == self._state:
            return
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


class Rows:
    """All rows. Once there are too many spans, short ones near each other are joined."""

    def __init__(self, most: int = SPANS_KEPT) -> None:
        self.joined_s = 0.0
        """Spans that begin within this time of each other are joined; 0: none are."""
        self._most = most
        self._rows: list[Row] = []
        self._count = 0

    def new(self) -> Row:
        """Add a row."""
        row = Row(self)
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
        while True:
            self.settle()
            if self._count <= self._most or self.joined_s > _COARSEST_S:
                return
            self.joined_s = max(_FINEST_S, 2 * self.joined_s)
