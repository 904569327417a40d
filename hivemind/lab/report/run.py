"""A run as a report shows it, read from a journal in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path

from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.past import TokenSpending
from hivemind.journal.read.several import Journals, open_journals
from hivemind.journal.records import JournalBegan
from hivemind.journal.wait_causes import causes_of
from hivemind.lab.report.agents import AgentStats, spending_by_model
from hivemind.lab.report.fold import AGENTS_KEPT, RunFold
from hivemind.lab.report.lanes import LaneSummary, WindowSummary
from hivemind.scheduler.types import Price
from hivemind.store.locks import is_held

_SOURCES = {
    "har": "made from a HAR file, which shows waits and retries only in part",
    "mitmproxy": "made from a mitmproxy dump, which shows waits and retries only in part",
    "what-if": "simulated: what other settings would have done, not what happened",
}
_LARGEST_MS = 8.64e15
"""The last time that browsers know, in milliseconds since the epoch."""


class RecordedRun:
    """A journal's run: its figures, its fold, and notes on the recording."""

    def __init__(
        self, began: JournalBegan, fold: RunFold, tally: FiguresFold, warnings: Sequence[str], tz: tzinfo = UTC
    ) -> None:
        self.began = began
        self.fold = fold
        self.figures: Figures = tally.figures()
        self.times = tally.times
        self.waits_by_lane = {lane: causes_of(sums) for lane, sums in tally.why.by_lane.items()}
        """Why requests waited, by lane; below by agent."""
        self.waits_by_agent = {agent: causes_of(sums) for agent, sums in tally.why.by_agent.items()}
        self.notes = self._notes(warnings)
        """What limits the recording, a line each."""
        self.tz = tz
        self.zone = _zone(began.wall, tz)

    @cached_property
    def saved(self) -> list[AgentStats]:
        """Agents with a failed attempt that was retried OK before they saw an error."""
        return [agent for agent in self.fold.agents.values() if agent.saved and not self.began.foreign]

    @cached_property
    def died(self) -> list[AgentStats]:
        """Agents whose process ended with an error, or by a signal that no operator sent."""
        return [agent for agent in self.fold.agents.values() if agent.died]

    @property
    def finished(self) -> int:
        """How many agents had their last request answered and didn't die after it."""
        return self.figures.finished - sum(agent.last_end == "answered" for agent in self.died)

    @cached_property
    def saved_spending(self) -> TokenSpending:
        """What these had used at their last failed attempt: it would have been lost without retries."""
        spent = TokenSpending()
        for agent in self.saved:
            spent.add(agent.spent_at_recovery)
        return spent

    @cached_property
    def models(self) -> dict[str, TokenSpending]:
        """Spending by model, the most expensive one first."""
        return spending_by_model(self.fold.agents)

    def windows(self) -> Iterator[tuple[LaneSummary, WindowSummary]]:
        """Yield every rate window with its lane."""
        for lane in self.fold.lanes.values():
            for window in lane.windows.values():
                yield lane, window

    @property
    def priced(self) -> bool:
        """Some price is known."""
        return bool(self.figures.dollars)

    # --- Times ---------------------------------------------------------------------------------------------------

    def stamp_ms(self, at: float) -> float:
        """Return a time for a plot's axis: local wall-clock time in milliseconds."""
        wall = self.began.wall + at + self.zone[1]
        return round(max(-_LARGEST_MS, min(_LARGEST_MS, wall * 1000)))

    def clock(self, at: float, form: str = "%H:%M:%S") -> str:
        """Return the time of day."""
        moment = _moment(self.began.wall + at, self.tz)
        return "at an unknown time" if moment is None else moment.strftime(form)

    @property
    def date(self) -> str:
        """Date and time of the beginning."""
        return self.clock(0.0, f"%Y-%m-%d %H:%M:%S {self.zone[0]}")

    def _notes(self, warnings: Sequence[str]) -> list[str]:
        notes = [f"This run was {_SOURCES[self.began.source]}."] if self.began.source in _SOURCES else []
        notes += [f"{line[:1].upper()}{line[1:]}." for line in warnings]
        if self.fold.untracked_requests:
            notes.append(
                f"Only the first {AGENTS_KEPT:,} agents are listed; other agents sent"
                f" {self.fold.untracked_requests:,} requests."
            )
        return notes


def read(paths: Path | Sequence[Path], price: Price | None = None, tz: tzinfo = UTC) -> RecordedRun:
    """Read a journal and its later parts, or those of several proxies as one run. `tz` is for the times that are shown.

    Raises: UsageError: one can't be read, or is named twice.
    """
    journals = open_journals(paths)
    fold = RunFold(journals.began, price)
    tally = FiguresFold(price)
    take, count = fold.apply, tally.apply
    for _, event in journals.events():
        take(event)
        count(event)
    fold.end()
    warnings = [*_together(journals), *journals.notes()]
    for name, journal in journals.named():
        it = f"{name}:" if len(journals.each) > 1 else "it"
        if is_held(journal.parts[-1]):
            warnings.append(f"{it} is still being written: this is its state so far")
        elif not journal.damage.ended and not journal.damage.torn:
            warnings.append(f"{it} is truncated: the program that wrote it was killed")
    return RecordedRun(journals.began, fold, tally, warnings, tz)


def _together(journals: Journals) -> Iterator[str]:
    if len(journals.each) > 1:
        names = ", ".join(name for name, _ in journals.named())
        sums = "slots and windows are those that they share" if not journals.apart else "levels and windows are sums"
        yield f"the journals of {len(journals.each)} proxies are read as one run ({names}); {sums}"


def _moment(wall: float, tz: tzinfo) -> datetime | None:
    try:
        return datetime.fromtimestamp(wall, tz)
    except (ValueError, OverflowError, OSError):
        return None


def _zone(wall: float, tz: tzinfo) -> tuple[str, float]:
    """Return the zone's name and its offset to UTC in seconds at that time."""
    moment = _moment(wall, tz)
    ahead = None if moment is None else moment.utcoffset()
    if moment is None or not ahead:
        return "UTC", 0.0
    return f"UTC{moment.isoformat(timespec='seconds')[19:]}", ahead.total_seconds()
