"""A journal, read once from its start to its end for a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from pathlib import Path

from hivemind.journal.figures import Figures, Tally
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.segment import being_written
from hivemind.lab.report.agents import AgentStats, TokenSpending, all_spent
from hivemind.lab.report.changed_settings import ChangedSetting, changed_settings
from hivemind.lab.report.fold import AGENTS_KEPT, RunFold
from hivemind.scheduler.types import Price, Priority

_SOURCES = {
    "har": "made of a HAR file: when requests waited and were tried again is as far as that tells",
    "mitmproxy": "made of a mitmproxy dump: when requests waited and were tried again is as far as that tells",
    "what-if": "simulated: what other settings would have done, not something that happened",
}
_LARGEST_MS = 8.64e15
"""The last moment that browsers know, in milliseconds from the epoch."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What retries that no agent noticed kept from being lost."""

    agents: int
    """That met faults which were made good, and never saw one."""
    tokens: int
    """That these had used when a fault would last have ended them."""
    dollars: float
    unpriced: int
    """Of these tokens those whose price isn't known."""


class RecordedRun:
    """What a report tells of."""

    def __init__(self, began: JournalBegan, fold: RunFold, tally: Tally, told: Sequence[str], tz: tzinfo = UTC) -> None:
        self.began = began
        self.fold = fold
        self.figures: Figures = tally.figures()
        self.waits = {each.name.lower(): sorted(tally.waits[each]) for each in Priority if each in tally.waits}
        """By priority, `critical` first; each request's, the shortest first."""
        self.times = tally.times
        self.notes = self._notes(told)
        """What has to be known of the recording, a line each."""
        self.tz = tz
        self.zone = _zone(began.wall, tz)

    @property
    def name(self) -> str:
        """The journal's."""
        return self.began.journal

    @property
    def foreign(self) -> bool:
        """It is somebody else's recording: HiveMind had no part in it."""
        return self.began.foreign

    @cached_property
    def saved(self) -> Saved:
        """As far as the events show it, and no more."""
        saved = [agent for agent in self.fold.agents.values() if agent.saved and not self.foreign]
        return Saved(
            len(saved),
            sum(agent.saved_tokens for agent in saved),
            sum(agent.saved_dollars for agent in saved),
            sum(agent.saved_unpriced for agent in saved),
        )

    @cached_property
    def models(self) -> dict[str, TokenSpending]:
        """What was spent on each, the dearest first."""
        return all_spent(self.fold.agents)

    @cached_property
    def settings(self) -> list[ChangedSetting]:
        """Those that aren't as they usually are."""
        lanes = self.fold.lanes.values()
        return changed_settings(self.began.config, [lane.config for lane in lanes if lane.config is not None])

    @property
    def priced(self) -> bool:
        """The price of something is known."""
        return bool(self.figures.dollars)

    def agents_drawn(self, most: int) -> list[AgentStats]:
        """Those to draw where there isn't room for all: who met faults or asked most, in order of appearance."""
        agents = [agent for agent in self.fold.agents.values() if agent.requests and agent.row is not None]
        chosen = sorted(agents, key=lambda each: (-(each.failed + each.retries + each.refused), -each.requests))[:most]
        kept = {agent.name for agent in chosen}
        return [agent for agent in agents if agent.name in kept]

    # --- Moments -------------------------------------------------------------------------------------------------

    def stamp_ms(self, at: float) -> float:
        """A moment for a plot's axis: milliseconds, as a clock on the wall showed them."""
        wall = self.began.wall + at + self.zone[1]
        return round(max(-_LARGEST_MS, min(_LARGEST_MS, wall * 1000)))

    def clock(self, at: float) -> str:
        """The time of day at a moment of the run."""
        moment = _moment(self.began.wall + at, self.tz)
        return "at an unknown time" if moment is None else f"{moment:%H:%M:%S}"

    @property
    def date(self) -> str:
        """When it began."""
        moment = _moment(self.began.wall, self.tz)
        return "at an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} {self.zone[0]}"

    def _notes(self, told: Sequence[str]) -> list[str]:
        notes = [f"This run was {_SOURCES[self.began.source]}."] if self.began.source in _SOURCES else []
        notes += [f"{line[:1].upper()}{line[1:]}." for line in told]
        if self.fold.untracked_requests:
            notes.append(
                f"Only the first {AGENTS_KEPT:,} agents are listed; other agents sent"
                f" {self.fold.untracked_requests:,} requests."
            )
        return notes


def read(path: Path, price: Price | None = None, tz: tzinfo = UTC) -> RecordedRun:
    """Read a journal and its later parts. `tz`: of the times that are shown.

    Raises: UsageError: it can't be read.
    """
    journal = open_journal(path)
    fold, tally = RunFold(journal.began, price), Tally(price)
    take, count = fold.apply, tally.apply
    for event in journal.events():
        take(event)
        count(event)
    fold.end()
    told = list(journal.damage.told())
    if being_written(journal.parts[-1]):
        told.append("it is still being written: this is how it stood")
    elif not journal.damage.ended and not journal.damage.torn:
        told.append("it was cut off: the program that wrote it didn't end in good order")
    return RecordedRun(journal.began, fold, tally, told, tz)


def _moment(wall: float, tz: tzinfo) -> datetime | None:
    try:
        return datetime.fromtimestamp(wall, tz)
    except (ValueError, OverflowError, OSError):
        return None


def _zone(wall: float, tz: tzinfo) -> tuple[str, float]:
    """The zone's name, and seconds by which its clocks are ahead of UTC at that moment."""
    moment = _moment(wall, tz)
    ahead = timedelta(0) if moment is None else moment.utcoffset() or timedelta(0)
    seconds = ahead.total_seconds()
    if not seconds:
        return "UTC", 0.0
    sign, minutes = "+" if seconds > 0 else "-", abs(int(seconds)) // 60
    return f"UTC{sign}{minutes // 60:02}:{minutes % 60:02}", seconds
