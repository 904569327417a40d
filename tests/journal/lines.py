"""Lines to make journals of."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hivemind.journal.codec import line_of
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, Priority, Usage

NAME = "20261121-182341-8765"
WALL = 1_795_285_421.0
"""What the name says, in seconds since the epoch."""
PATH = "/v1/messages"
LANE = "anthropic:0a1b2c3d"


def began(at: float = 100.0, *, journal: str = NAME, part: int = 1, wall: float = WALL) -> JournalBegan:
    """A first line."""
    upstreams = (("anthropic", "https://api.anthropic.com"),)
    return JournalBegan(at, wall, journal, part, "hivemind 0.1.0", "http://127.0.0.1:8765", upstreams)


def opened(at: float = 100.0) -> ev.LaneOpened:
    """The lane of all requests here."""
    return ev.LaneOpened(at, LANE, "anthropic", "anthropic", LaneConfig("anthropic", "anthropic"))


def arrived(at: float, ticket: int = 1, agent: str = "alice") -> ev.Arrived:
    """A request."""
    model = "claude-sonnet-4-5"
    return ev.Arrived(
        at,
        ticket,
        agent,
        LANE,
        model,
        model,
        Priority.NORMAL,
        True,
        1000,
        200,
        "claude-code",
        None,
        None,
        4000,
        path=PATH,
    )


def answered(at: float, ticket: int = 1, agent: str = "alice", *, retried: bool = False) -> list[ev.Event]:
    """A request that came at that moment and took 1 s, or 3 with a retry."""
    events: list[ev.Event] = [arrived(at, ticket, agent), ev.Granted(at + 0.25, ticket, agent, LANE, 1, 0.25)]
    if retried:
        kind = FailureKind.RATE_LIMITED
        events.append(ev.AttemptFailed(at + 0.5, ticket, agent, LANE, 1, kind, 429, "429 rate_limit_error", 1.5))
        events.append(ev.Granted(at + 2.25, ticket, agent, LANE, 2, 0.25))
    end, attempts = (at + 3.0, 2) if retried else (at + 1.0, 1)
    events.append(ev.FirstContent(end - 0.25, ticket, agent, LANE, 0.5))
    usage = Usage(1000, 500, 0, 200)
    events.append(ev.Finished(end, ticket, agent, LANE, "claude-sonnet-4-5", 200, attempts, usage, end - at))
    return events


def written(path: Path, events: Iterable[ev.Event]) -> Path:
    """A file of them."""
    path.write_bytes(b"".join(line_of(event) for event in events))
    return path


def run() -> list[ev.Event]:
    """A whole journal: two requests, one of them retried."""
    return [began(), opened(), *answered(101.0), *answered(110.0, 2, "bob", retried=True), JournalEnded(120.0)]
