"""Recorded requests, as short as they can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hivemind.journal.codec import line_of
from hivemind.journal.records import JournalBegan, JournalEnded, RequestBody
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult
from hivemind.lab.loadtest.target import LoadTarget, target_of
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage

BEGAN = 100.0
WALL = 1_800_000_000.0
USED = Usage(60, 0, 0, 40)
HERE = "http://127.0.0.1:9"


def request(number: int = 1, at_s: float = 0.0, **changes: Any) -> RecordedRequest:
    """Return a request for a short answer, which took a second."""
    values: dict[str, Any] = {
        "ticket": number,
        "at_s": at_s,
        "agent": "ann",
        "priority": None,
        "provider": "anthropic",
        "path": "/v1/messages",
        "model": "claude-sonnet-5",
        "size_chars": 600,
        "max_output_tokens": 1000,
        "stream": False,
        "recorded": RequestResult(200, "", 0.5, 1.0, USED),
        **changes,
    }
    return RecordedRequest(**values)


def target(url: str = HERE) -> LoadTarget:
    """A place to send to; nothing is there."""
    return target_of(url)


def arrived(ticket: int, after_s: float, agent: str = "ann", **changes: Any) -> ev.Arrived:
    """So long after the journal began."""
    values: dict[str, Any] = {
        "lane": "lane",
        "model": "claude-sonnet-5",
        "family": "claude-sonnet-5",
        "priority": Priority.NORMAL,
        "stream": False,
        "estimated_input": 150,
        "estimated_output": 256,
        "size_chars": 600,
        "max_output_tokens": 1000,
        "path": "/v1/messages",
        **changes,
    }
    return ev.Arrived(BEGAN + after_s, ticket, agent, **values)


def finished(ticket: int, after_s: float, agent: str = "ann", usage: Usage | None = USED) -> ev.Finished:
    """Return the end of an answered request."""
    return ev.Finished(BEGAN + after_s, ticket, agent, "lane", "claude-sonnet-5", 200, 1, usage, 1.0)


def failed(ticket: int, after_s: float, kind: FailureKind, status: int | None) -> ev.AttemptFailed:
    """Return a failure without a retry."""
    return ev.AttemptFailed(BEGAN + after_s, ticket, "ann", "lane", 1, kind, status, "", None)


def opened(provider: str = "anthropic") -> ev.LaneOpened:
    """The lane of all of them."""
    return ev.LaneOpened(BEGAN, "lane", "up", provider)


def body(ticket: int, text: str, path: str = "/v1/messages", *headers: tuple[str, str], **changes: Any) -> RequestBody:
    """Return a recorded request body."""
    return RequestBody(BEGAN, ticket, "POST", path, headers, text, **changes)


def journal(path: Path, *events: ev.Event) -> Path:
    """A journal of these, written down."""
    began = JournalBegan(BEGAN, WALL, path.stem, 1, "hivemind test")
    path.write_bytes(b"".join(map(line_of, (began, *events, JournalEnded(BEGAN + 3600)))))
    return path
