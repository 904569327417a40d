"""The lanes that were seen, within bounds: a credential that is renewed every hour makes a new one each time."""

from __future__ import annotations

from collections.abc import Iterable

from hivemind.scheduler.lane import Lane

KEPT = 256
"""Lanes remembered; beyond it those go that are at rest and were used longest ago."""
UNPROVEN_KEPT = 32
"""Of these, lanes whose credential no provider has accepted so far. Made-up ones come as fast as they can be refused,
and mustn't displace what was learned of real ones."""


class Lanes(dict[str, Lane]):
    """The lanes at hand, by key."""

    def make_room(self) -> None:
        """Forget the older half of the idle lanes, if there are too many."""
        unproven = [lane for lane in self.values() if not lane.proven]
        if len(unproven) >= UNPROVEN_KEPT:
            self._forget_half(unproven)
        if len(self) >= KEPT:
            self._forget_half(self.values())

    def _forget_half(self, lanes: Iterable[Lane]) -> None:
        at_rest = sorted((lane for lane in lanes if lane.at_rest), key=lambda lane: lane.used_at)
        for lane in at_rest[: (len(at_rest) + 1) // 2]:
            del self[lane.key]
