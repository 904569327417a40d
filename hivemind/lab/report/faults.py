"""The faults of a run by kind, and what became of the requests that met them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class FaultKind:
    """Faults of one kind."""

    __slots__ = ("became", "faults", "paused_s", "retried", "statuses")

    def __init__(self) -> None:
        self.faults = self.retried = 0
        self.paused_s = 0.0
        """From the faults to the moments at which the next try might start."""
        self.statuses: Counter[int | None] = Counter()
        self.became: Counter[str] = Counter()
        """Of the requests that met them, by outcome: `answered` in the end, so that the agent saw nothing; this fault
        or a later one passed on (`failed`); `refused` by HiveMind; its client `left`; nobody knows (`open`)."""


class FaultCounts:
    """All of them."""

    def __init__(self) -> None:
        self.kinds: dict[str, FaultKind] = {}

    def met(self, kind: str, status: int | None, retry_in_s: float | None) -> None:
        """An attempt failed."""
        found = self.kinds.setdefault(kind, FaultKind())
        found.faults += 1
        found.statuses[status] += 1
        if retry_in_s is not None:
            found.retried += 1
            found.paused_s += retry_in_s

    def became(self, kinds: Iterable[str], outcome: str) -> None:
        """The request that met these is over."""
        for kind in kinds:
            self.kinds[kind].became[outcome] += 1

    @property
    def all(self) -> int:
        """How many there were."""
        return sum(kind.faults for kind in self.kinds.values())

    def of(self, outcome: str) -> int:
        """How many were met by requests that ended so."""
        return sum(kind.became[outcome] for kind in self.kinds.values())

    def by_number(self) -> list[tuple[str, FaultKind]]:
        """The most frequent kind first."""
        return sorted(self.kinds.items(), key=lambda each: (-each[1].faults, each[0]))
