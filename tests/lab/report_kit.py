"""A small run, event by event, for tests of reports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace
from world.kit import state

from hivemind.journal.codec import line_of
from hivemind.journal.figures import FiguresFold
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.lab.report.fold import RunFold
from hivemind.lab.report.run import RecordedRun
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import AimdConfig, LaneConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import WindowState
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind

LANE = "api:1f2e"
MODEL = "claude-sonnet-4-5"
WALL = 1_795_250_000.0
"""21 November 2026, 08:33:20 UTC."""
START = 5000.0
"""The proxy's clock when the run begins; times in these tests are from then on."""
EVIL = "<script>alert(1)</script>"


def began(**more: object) -> JournalBegan:
    """A journal's first line."""
    config = SchedulerConfig(retry=RetryConfig(max_attempts=6))
    upstreams = (("api", "https://api.anthropic.com"),)
    first = JournalBegan(START, WALL, "night", 1, "hivemind 0.1.0", upstreams=upstreams, config=config)
    return replace(first, **more)


def opened(lane: str = LANE, upstream: str = "api") -> ev.LaneOpened:
    """A lane of Anthropic's, with one setting of its own."""
    config = LaneConfig(upstream, "anthropic", 5, 50, 80_000, aimd=AimdConfig(beta=0.7, latency_target_s=3.0))
    return ev.LaneOpened(START, lane, upstream, "anthropic", config)


def arrived(at: float, ticket: int, agent: str, priority: Priority = Priority.NORMAL, model: str = MODEL) -> ev.Arrived:
    """Return the arrival of a request."""
    return ev.Arrived(START + at, ticket, agent, LANE, model, model, priority, True, 100, 50, client="claude-code")


def granted(at: float, ticket: int, agent: str, attempt: int = 1, waited_s: float = 0.0) -> ev.Granted:
    """Return the grant of an attempt."""
    return ev.Granted(START + at, ticket, agent, LANE, attempt, waited_s)


def content(at: float, ticket: int, agent: str) -> ev.FirstContent:
    """Return the first content of an answer."""
    return ev.FirstContent(START + at, ticket, agent, LANE, 0.5)


def failed(
    at: float,
    ticket: int,
    agent: str,
    again_in_s: float | None,
    kind: FailureKind = FailureKind.OVERLOADED,
    usage: Usage | None = None,
) -> ev.AttemptFailed:
    """Return the failure of an attempt."""
    return ev.AttemptFailed(START + at, ticket, agent, LANE, 1, kind, 529, "full", again_in_s, usage)


def finished(at: float, ticket: int, agent: str, attempts: int = 1, tokens: int = 1000) -> ev.Finished:
    """Return the end of an answered request."""
    return ev.Finished(START + at, ticket, agent, LANE, MODEL, 200, attempts, Usage(tokens), 1.0)


def sampled(at: float, active: int = 0, waiting: int = 0, used: float = 10.0) -> ev.Sampled:
    """Return a sample of the lane's gauges."""
    window = WindowState(MODEL, WindowKind.REQUESTS, 50.0, used, 0.0, 50.0 - used, 20.0, "headers")
    api = state(lane=LANE, upstream="api", provider="anthropic", ceiling=5.0, mean_ttft_s=1.0)
    lane = replace(api, active=active, waiting=waiting, windows=(window,))
    return ev.Sampled(START + at, (lane,))


def a_night() -> list[ev.Event]:
    """Ann meets two faults that are made good, bob one that isn't, and cleo none."""
    return [
        opened(),
        arrived(0, 1, "ann"),
        granted(0, 1, "ann"),
        arrived(0, 2, "bob", Priority.HIGH),
        granted(0, 2, "bob"),
        sampled(0.5, active=2),
        content(1, 1, "ann"),
        finished(2, 1, "ann", tokens=700),
        failed(3, 2, "bob", 1.0),
        ev.LevelChanged(START + 3, LANE, 3.0, "overloaded"),
        arrived(4, 3, "ann"),
        granted(6, 3, "ann", waited_s=2.0),
        failed(7, 3, "ann", 2.0, usage=Usage(300)),
        granted(7, 2, "bob", 2, waited_s=3.0),
        failed(8, 2, "bob", None, FailureKind.SERVER_ERROR),
        ev.CircuitChanged(START + 8, LANE, "open", "2 of 3 failed", 10.0),
        ev.LaneRateLimited(START + 8, LANE, 2.0, "429"),
        ev.LaneReleased(START + 10, LANE),
        ev.CircuitChanged(START + 10, LANE, "closed", "answered"),
        granted(10, 3, "ann", 2, waited_s=1.0),
        failed(11, 3, "ann", 1.0, FailureKind.DISCONNECTED),
        granted(13, 3, "ann", 3, waited_s=1.0),
        ev.Commanded(START + 13, "you", "Tune", {"knob": "aimd.beta", "value": 0.6, "upstream": None}),
        arrived(13, 4, "cleo"),
        granted(13, 4, "cleo"),
        content(14, 3, "ann"),
        sampled(15, active=2, used=45.0),
        finished(16, 3, "ann", attempts=3, tokens=5000),
        finished(17, 4, "cleo", tokens=200),
        JournalEnded(START + 18),
    ]


def dear(provider: str, model: str, usage: Usage) -> float | None:
    """A dollar for a thousand tokens, of models that it knows."""
    return usage.total / 1000 if provider == "anthropic" and model == MODEL else None


def run_of(events: Iterable[ev.Event], first: JournalBegan | None = None) -> RecordedRun:
    """Return the run of these events."""
    first = first or began()
    fold = RunFold(first, dear)
    tally = FiguresFold(dear)
    for event in events:
        fold.apply(event)
        tally.apply(event)
    fold.end()
    return RecordedRun(first, fold, tally, ())


def journal(path: Path, events: Iterable[ev.Event], first: JournalBegan | None = None) -> Path:
    """A file with these events."""
    path.write_bytes(b"".join(line_of(event) for event in (first or began(), *events)))
    return path
