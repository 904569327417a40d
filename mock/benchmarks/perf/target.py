"""Whom a load is put on, and what to say when that goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from hivemind.errors import HiveMindError


class PerfError(HiveMindError):
    """A server didn't start, or didn't answer as it should; nothing was measured."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load."""

    name: str
    url: str
    """Scheme, host and port."""
    prefix: str = ""
    """Goes before a request's path; `{}` is the client's number."""
    headers: str = ""
    """Header lines of its own, each with its end."""
    pid: int | None = None
    """Of the process whose use of processors is measured, with its descendants; None: it isn't."""
    has_metrics: bool = False
    """At `/metrics`, which are read meanwhile."""
    turns: int = 0
    """Messages of an agent's conversation that come before the prompt of each request, a thousand characters each."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def authority(self) -> str:
        return urlsplit(self.url).netloc
