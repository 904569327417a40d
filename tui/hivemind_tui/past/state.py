"""What is looked back at, as one value: the spans that are wanted, and the last answer."""

from __future__ import annotations

from typing import Self

from msgspec import Struct

from hivemind.journal.past import GROUPS, SPANS, Cost, Past
from hivemind.records import replace
from hivemind.world.snapshot import Line, Snapshot
from hivemind_tui.past.protocol import Message, PastFailed, PastProgress

LIVE = "10 min"
"""The span that is shown from memory, without a journal."""
CURVE_SPANS = tuple(span for span in SPANS if span not in ("today", "since start"))
_DAY = "24 h"
_AHEAD_S = 2.0
"""An answer may be so much ahead of a snapshot, which is as old as the last poll."""


class LookBack(Struct, frozen=True):
    """What is looked back at."""

    curves: str = LIVE
    """The span of curves and charts."""
    costs: str = "1 h"
    """The span of the page of costs."""
    pinned: bool = False
    """Whether the log shows the changes and alerts of a day."""
    by: str = GROUPS[0]
    """What costs are summed by."""
    answer: Past | None = None
    share: float | None = None
    """How much of what was asked for is read; None: nothing is being read for the first time."""
    trouble: str = ""
    """Why there is no answer."""

    def span(self, page: str) -> str:
        """Return the span that a page shows."""
        return self.costs if page == "cost" else _DAY if page == "log" and self.pinned else self.curves

    def words(self, page: str) -> str:
        """Return that span in words: `last 8 h`, `today`."""
        span = self.span(page)
        return f"last {span}" if span[0].isdigit() else span

    def wanted(self, page: str) -> bool:
        """Return whether a page shows what only the journal knows."""
        return page not in ("start", "whatif") and (page == "cost" or self.span(page) != LIVE)

    def shown(self, page: str, at: float) -> Past | None:
        """Return the answer if it is of the page's span and knows nothing that is later than this moment."""
        answer = self.answer
        fits = answer is not None and answer.span == self.span(page) and answer.until <= at + _AHEAD_S
        return answer if fits else None

    def rows(self, page: str, at: float) -> tuple[Cost, ...]:
        """Return the costs that are listed."""
        answer = self.shown(page, at)
        return () if answer is None else answer.costs[self.by]

    def lines(self, at: float) -> tuple[Line, ...]:
        """Return the changes and alerts of a day, as far as they were read."""
        answer = self.shown("log", at)
        return () if answer is None else answer.lines

    def with_span(self, page: str, span: str) -> Self:
        """Return the state with another span for a page."""
        return replace(self, costs=span, trouble="") if page == "cost" else replace(self, curves=span, trouble="")

    def with_message(self, message: Message) -> Self:
        """Return the state after a message of the process that reads."""
        match message:
            case PastProgress(share):
                return replace(self, share=share)
            case PastFailed(why):
                return replace(self, share=None, trouble=why)
        return replace(self, answer=message, share=None, trouble="")

    def next_span(self, page: str) -> str:
        """Return the next longer span of a page; after the longest the shortest."""
        spans = (*SPANS,) if page == "cost" else CURVE_SPANS
        return spans[(spans.index(self.span(page)) + 1) % len(spans)]

    def note(self, page: str, at: float) -> str:
        """Return which span a page shows, and how far it is read; empty for what is shown from memory."""
        what, shown = self.words(page), self.shown(page, at) is not None
        if not self.wanted(page) or (self.trouble and not shown):
            return ""
        far = "" if self.share is None else f", {self.share:.0%}"
        return what if shown else f"{what}: reading the journal{far}"


def over_span(snapshot: Snapshot, back: LookBack, page: str) -> Snapshot:
    """Return the snapshot with the curves and series of the span that a page shows, once they are read."""
    past = back.shown(page, snapshot.at) if back.wanted(page) else None
    if past is None:
        return snapshot
    lanes = tuple(replace(lane, curve=past.curves.get(lane.state.lane, ())) for lane in snapshot.lanes)
    return replace(snapshot, lanes=lanes, vitals=replace(snapshot.vitals, step_s=past.step_s, series=past.series))
