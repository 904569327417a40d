"""The lanes that were seen, within bounds: a credential that is renewed every hour makes a new one each time."""

from __future__ import annotations

from .lane import Lane

KEPT = 256
"""Lanes remembered; beyond it those go that are at rest and were used longest ago."""


class Lanes(dict[str, Lane]):
    """By key."""

    def make_room(self) -> None:
        """Forget the older half of those that nobody will miss, where there are too many."""
        if len(self) < KEPT:
            return
        at_rest = sorted((lane for lane in self.values() if lane.at_rest), key=lambda lane: lane.used_at)
        for lane in at_rest[: (len(at_rest) + 1) // 2]:
            del self[lane.key]
