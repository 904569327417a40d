"""Recordings made by hand, and of virtual worlds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hivemind.journal.codec import line_of
from hivemind.journal.records import JournalBegan
from hivemind.lab.simulate.recording import Recording, load
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.types import FailureKind, Priority, Usage

LANE = "mock:1"
FREE = LaneConfig("mock", "generic", max_concurrency=0, rpm=0, tpm=0)
"""A lane that holds nobody back."""


def began(config: SchedulerConfig | None = None) -> JournalBegan:
    """Return a journal's first line."""
    return JournalBegan(0.0, 1000.0, "by-hand", 1, "hivemind", config=config or SchedulerConfig())


def request(
    at: float, ticket: int, agent: str, *, size: int = 400, stream: bool = False, parent: str | None = None
) -> ev.Arrived:
    """Return the arrival of a request."""
    return ev.Arrived(
        at, ticket, agent, LANE, "m", "m", Priority.NORMAL, stream, 100, 50, parent=parent, size_chars=size
    )


def served(
    at: float, ticket: int, agent: str, *, waits_s: float = 0.0, takes_s: float = 1.0, size: int = 400
) -> Iterator[ev.Event]:
    """A request that is answered at its first attempt."""
    granted, ended = at + waits_s, at + waits_s + takes_s
    yield request(at, ticket, agent, size=size)
    yield ev.Granted(granted, ticket, agent, LANE, 1, waits_s)
    yield ev.FirstContent(ended, ticket, agent, LANE, takes_s)
    yield ev.Finished(ended, ticket, agent, LANE, "m", 200, 1, Usage(100, 0, 0, 50), waits_s + takes_s)


def failed(
    at: float, ticket: int, agent: str, kind: FailureKind, *, status: int = 500, again_s: float | None = None
) -> ev.AttemptFailed:
    """An attempt that failed."""
    return ev.AttemptFailed(at, ticket, agent, LANE, 1, kind, status, "", again_s)


def written(path: Path, events: Iterable[ev.Event], *, lane: LaneConfig = FREE) -> Path:
    """A journal of these events, put in order."""
    opened = ev.LaneOpened(0.0, LANE, lane.upstream, lane.provider, lane)
    ordered = sorted(events, key=lambda event: event.at)
    path.write_bytes(b"".join(map(line_of, (began(), opened, *ordered))))
    return path


def recorded(folder: Path, *parts: Iterable[ev.Event], lane: LaneConfig = FREE) -> Recording:
    """Write the events as a journal, and load it as a recording."""
    return load(written(folder / "by-hand.jsonl", (event for part in parts for event in part), lane=lane))
