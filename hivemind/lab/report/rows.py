"""What each agent did when: a row of spans that don't overlap, and marks on it."""

from __future__ import annotations

from dataclasses import dataclass, field

STATES = ("streaming", "waiting", "retry", "queued")
"""Of a request, the liveliest first: an agent with several is shown in the liveliest state of them."""

SPANS_KEPT = 8000
"""Of all rows together."""
_FINEST_S = 0.02
_COARSEST_S = 1e9


class Span:
    """A time in which an agent was in one state, or several that are too short to be told apart."""

    __slots__ = ("begins", "ends", "seconds")

    def __init__(self, begins: float, ends: float, state: int) -> None:
        self.begins, self.ends = begins, ends
        self.seconds = [0.0] * len(STATES)
        """In each state."""
        self.seconds[state] = ends - begins

    @property
    def mixed(self) -> bool:
        """It stands for several."""
        return sum(1 for each in self.seconds if each) > 1

    def join(self, later: Span) -> None:
        """Stand for that one too."""
        self.ends = later.ends
        self.seconds = [one + other for one, other in zip(self.seconds, later.seconds, strict=True)]


@dataclass(slots=True)
class Row:
    """Of one agent. Times are seconds since the run began."""

    spans: list[Span] = field(default_factory=list)
    marks: list[tuple[float, str, bool]] = field(default_factory=list)
    """Faults: when, of which kind, and whether it was passed on to the agent."""


class Rows:
    """All of them. Once there are too many spans, short ones that stand near each other are joined."""

    def __init__(self, most: int = SPANS_KEPT) -> None:
        self.joined_s = 0.0
        """Spans that begin within this time of each other are told as one; 0: all are as they were."""
        self._most = most
        self._rows: list[Row] = []
        self._count = 0

    def new(self) -> Row:
        """One more row."""
        row = Row()
        self._rows.append(row)
        return row

    def span(self, row: Row, begins: float, ends: float, state: int) -> None:
        """The agent was in that state."""
        if ends <= begins:
            return
        row.spans.append(Span(begins, ends, state))
        self._more()

    def mark(self, row: Row, at: float, kind: str, passed_on: bool) -> None:
        """An attempt of the agent's failed."""
        row.marks.append((at, kind, passed_on))
        self._more()

    def settle(self) -> None:
        """Join what came since that was done last, as far apart as all before."""
        for row in self._rows:
            _join(row, self.joined_s)
        self._count = sum(len(row.spans) + len(row.marks) for row in self._rows)

    def _more(self) -> None:
        self._count += 1
        if self._count <= 2 * self._most:
            return
        while True:
            self.settle()
            if self._count <= self._most or self.joined_s > _COARSEST_S:
                return
            self.joined_s = max(_FINEST_S, 2 * self.joined_s)


def _join(row: Row, width_s: float) -> None:
    if not width_s:
        return
    spans: list[Span] = []
    for span in row.spans:
        if spans and int(spans[-1].begins / width_s) == int(span.begins / width_s):
            spans[-1].join(span)
        else:
            spans.append(span)
    row.spans = spans
    marks: dict[tuple[int, bool], tuple[float, str, bool]] = {}
    for mark in row.marks:
        marks.setdefault((int(mark[0] / width_s), mark[2]), mark)
    row.marks = list(marks.values())
