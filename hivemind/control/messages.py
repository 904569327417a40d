"""What goes over the wire of the control API, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hivemind.requests import RequestView
from hivemind.snapshot import Snapshot

PREFIX = "/_control"
ANONYMOUS = "api"
"""Who signs an order that nobody signed."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No query, no body."""


@dataclass(frozen=True, slots=True)
class WorldQuery:
    """What is known already."""

    run: str = ""
    """The run it was heard from; of another one than this, the whole is answered."""
    after: float | None = None
    """`at` of the snapshot that is known."""


@dataclass(frozen=True, slots=True)
class RequestsQuery:
    """Likewise."""

    run: str = ""
    since: int = 0
    """The last answer's revision."""


@dataclass(frozen=True, slots=True)
class Order:
    """A command by name, as it stands in the event that tells of it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    who: str = ANONYMOUS
    """Signs the line in the log."""


@dataclass(frozen=True, slots=True)
class Done:
    """The command that was carried out, every argument told."""

    name: str
    arguments: Mapping[str, Any]
    who: str


@dataclass(frozen=True, slots=True)
class Knobs:
    """Knobs to write down."""

    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Draft:
    """The proxy's settings file as it is and as it would be."""

    path: str
    before: str = field(repr=False)
    after: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignedDraft:
    """A draft to write, just as it was drafted."""

    path: str
    before: str = field(repr=False)
    after: str = field(repr=False)
    who: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class Written:
    """The file that was written."""

    path: str


@dataclass(frozen=True, slots=True)
class WorldPart:
    """A snapshot, of whose lanes' curves and whose lines only the newest may be there."""

    run: str
    """Of the proxy: another one at every start, and what is known of another run is void."""
    version: str
    """Of HiveMind."""
    whole: bool
    """Nothing is left out."""
    curves: tuple[int, ...]
    """How many points the curve of each lane has in all."""
    lines: int
    """How many lines there are in all."""
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class RequestsPart:
    """As :class:`hivemind.requests.Requests`."""

    run: str
    version: str
    revision: int
    oldest: int
    changed: tuple[RequestView, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Every answer but a 200 holds this."""

    error: str
    """One line: what is wrong, and what would be right."""
