"""Whether the clocks of several proxies agree, by when the same rate window ended for each of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from statistics import median

from hivemind.scheduler.events import LimitsRead

_KEPT = 2_000
"""Ends kept of each window and journal."""
_SAME_END_S = 1.5
"""Ends that are no further apart are one: they were stated in whole seconds."""
_APART_S = 5.0
"""Ends of a fixed window are further apart; those of a bucket move with each request."""
_ENOUGH = 3
_MOST = 0.8
"""Of the ends, this share agrees on the difference."""
_EVIDENT_S = 2.5
"""A smaller difference may come from rounding and from the way of the answers."""

Window = tuple[str, str, str]
"""Lane, family of models and kind."""


class WindowEnds:
    """When rate windows ended, by the headers that each proxy read, on what should be one clock."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Window, int | None], dict[int, list[float]]] = {}
        """By window and its limit, then by journal."""

    def read(self, journal: int, event: LimitsRead) -> None:
        """Take what a proxy read."""
        for each in event.readings:
            if each.reset_in_s is None or each.remaining == each.limit:
                continue
            window = event.lane, event.family, each.kind.value
            ends = self._ends.setdefault((window, each.limit), {}).setdefault(journal, [])
            end = event.at + each.reset_in_s
            if len(ends) < _KEPT and (not ends or abs(end - ends[-1]) > _SAME_END_S):
                ends.append(end)

    def disagreements(self) -> list[tuple[int, int, float]]:
        """Return pairs of journals, and by how many seconds the clock of the second is evidently ahead."""
        found: dict[tuple[int, int], float] = {}
        for one, other, ahead_s in self._differences():
            if abs(ahead_s) > abs(found.get((one, other), 0.0)):
                found[one, other] = ahead_s
        return [(one, other, ahead_s) for (one, other), ahead_s in sorted(found.items()) if abs(ahead_s) > _EVIDENT_S]

    def _differences(self) -> Iterator[tuple[int, int, float]]:
        for by_journal in self._ends.values():
            fixed = {journal: sorted(ends) for journal, ends in by_journal.items() if _is_fixed(ends)}
            for one, other in combinations(sorted(fixed), 2):
                ahead_s = _difference(fixed[one], fixed[other])
                if ahead_s is not None:
                    yield one, other, ahead_s


def _is_fixed(ends: Sequence[float]) -> bool:
    apart = [later - earlier for earlier, later in pairwise(ends)]
    return len(ends) >= _ENOUGH and min(apart) > 0 and median(apart) > _APART_S


def _difference(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return by how much the ends of the second come later than the nearest of the first; None: they don't agree."""
    ahead = []
    for end in other:
        place = bisect_left(one, end)
        near = min(one[max(0, place - 1) : place + 1], key=lambda each: abs(each - end))
        ahead.append(end - near)
    usual = median(ahead)
    agreeing = sum(1 for each in ahead if abs(each - usual) <= _SAME_END_S)
    return usual if agreeing >= max(_ENOUGH, _MOST * len(ahead)) else None
