"""The tickets of one class in the order in which they would be sent if no other came, read from heaps as needed."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import Any, TypeVar

from hivemind.scheduler.admission.fair_share import FEW, Backlog, Key, Share, valid
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Priority

SORTED_AT_ONCE = 64  # of a larger heap only the smallest are looked for
T = TypeVar("T", bound=tuple[Any, ...])


class Band:
    """All waiting tickets of one class and family."""

    __slots__ = ("family", "heap", "priority", "waiting")

    def __init__(self, family: str, priority: Priority) -> None:
        self.family = family
        self.priority = priority
        self.waiting = 0
        self.heap: list[tuple[float, Key, int, Backlog]] = []

    def offer(self, backlog: Backlog) -> None:
        """(Re)enter the backlog at its present share and head; its older entries become invalid."""
        backlog.stamp += 1
        if backlog.heap and not backlog.share.paused:
            standing = backlog.share.standing(self.priority)
            heappush(self.heap, (standing, backlog.heap[0][0], backlog.stamp, backlog))
            if len(self.heap) > 2 * self.waiting + FEW:
                self.heap = [entry for entry in self.heap if entry[2] == entry[3].stamp]
                heapify(self.heap)

    def head(self) -> tuple[float, Key, Ticket] | None:
        """Return the ticket to send next, with its sort key; None: no ticket of an agent that isn't paused waits."""
        while self.heap:
            standing, key, stamp, backlog = self.heap[0]
            if stamp != backlog.stamp:
                heappop(self.heap)
                continue
            while backlog.heap and not valid(*backlog.heap[0]):
                heappop(backlog.heap)
            if backlog.heap and backlog.heap[0][0] == key:
                return standing, key, backlog.heap[0][1]
            heappop(self.heap)
            self.offer(backlog)
        return None

    def clear(self) -> None:
        """Drop the entries of tickets that no longer wait, when none does."""
        for _, _, _, backlog in self.heap:
            backlog.clear()
        self.heap.clear()


def ascending(heap: list[T]) -> Iterator[T]:
    """Return the items of a heap, smallest first; a large one is sorted only as far as the caller reads."""
    return iter(sorted(heap)) if len(heap) <= SORTED_AT_ONCE else _lazily_ascending(heap)


def _lazily_ascending(heap: list[T]) -> Iterator[T]:
    nearest = [(heap[0], 0)]
    while nearest:
        item, place = heappop(nearest)
        yield item
        for child in range(2 * place + 1, min(2 * place + 3, len(heap))):
            heappush(nearest, (heap[child], child))


def in_turn(bands: list[Band]) -> Iterator[Ticket]:
    """Yield a class's tickets in fair order: of the agent that was served least, which is then charged, and so on."""
    entries = merge(*(ascending(band.heap) for band in bands))
    served: dict[Share, float] = {}
    line: list[tuple[float, Key, Ticket, Share, Iterator[tuple[Key, Ticket]]]] = []
    entry = next(entries, None)
    while line or entry is not None:
        while entry is not None and (not line or entry[:2] <= line[0][:2]):
            if entry[2] == entry[3].stamp:
                rest = ascending(entry[3].heap)
                for key, ticket in rest:
                    if valid(key, ticket):
                        heappush(line, (entry[0], key, ticket, entry[3].share, rest))
                        break
            entry = next(entries, None)
        if not line:
            return
        at, key, ticket, share, rest = line[0]
        total = served.get(share, at)
        if total > at:
            heapreplace(line, (total, key, ticket, share, rest))
            continue
        yield ticket
        total = served[share] = max(total, share.tallies[ticket.priority].served) + ticket.weight
        for key, ticket in rest:
            if valid(key, ticket):
                heapreplace(line, (total, key, ticket, share, rest))
                break
        else:
            heappop(line)
