"""One exchange as somebody else recorded it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hivemind.scheduler.types import FailureKind, Usage

Headers = list[tuple[bytes, bytes]]

LARGEST = 1 << 30
"""Bytes of a file, or of one flow in it, that are read."""


class Unreadable(ValueError):
    """An entry, or a whole file, that isn't of the form it says; the text says what is wrong."""


@dataclass(slots=True)
class Hints:
    """What our own export says of an attempt beyond the format."""

    agent: str = ""
    ticket: int | None = None
    attempt: int = 0
    model: str = ""
    stream: bool = False
    size_chars: int = 0
    kind: FailureKind | None = None
    """How it failed."""
    left: bool = False
    """The client gave it up."""
    refused: str = ""
    """Why the proxy answered it itself."""
    usage: Usage | None = None


@dataclass(slots=True)
class Entry:
    """A request and what it was answered. Moments are seconds since the epoch."""

    method: str
    origin: str
    """As in `https://api.anthropic.com`: scheme, host and port, and no credential."""
    path: bytes
    """As it was asked for, without its query."""
    query: bytes
    headers: Headers
    """Names in lower case; so are those of the answer."""
    body: bytes
    began_at: float
    sent_at: float
    """After whatever queue the client had."""
    first_at: float | None
    """Of the answer's first byte; None: there was none."""
    ended_at: float
    status: int
    """0: there was no answer."""
    answer_headers: Headers = field(default_factory=list)
    answer: bytes = b""
    whole: bool = True
    """False: the recorder didn't keep all of the answer."""
    error: str = ""
    """The recorder's own words on why there is no answer, or not all of it."""
    hints: Hints = field(default_factory=Hints)


def lower(headers: list[tuple[bytes, bytes]]) -> Headers:
    """Names in lower case, without HTTP/2's own (`:authority`)."""
    return [(name.lower(), value) for name, value in headers if not name.startswith(b":")]
