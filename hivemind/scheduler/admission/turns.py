"""The order in which tickets would fly if nobody else came, read from the queue's heaps as far as somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush, heapreplace, merge
from typing import TYPE_CHECKING, Any, TypeVar

from hivemind.scheduler.ticket import Ticket, TicketState

if TYPE_CHECKING:
    from hivemind.scheduler.admission.fair_share import Share
    from hivemind.scheduler.admission.queue import Band

SORTED_AT_ONCE = 64
"""Of a larger heap only the smallest are looked for."""
Key = tuple[bool, float, int]
"""Sorts an agent's own tickets: tried before, then cost and age, then number of the entry."""
T = TypeVar("T", bound=tuple[Any, ...])


def ascending(heap: list[T]) -> Iterator[T]:
    """The items of a heap, smallest first; of a large one no further down than it is asked."""
    return iter(sorted(heap)) if len(heap) <= SORTED_AT_ONCE else _downwards(heap)


def _downwards(heap: list[T]) -> Iterator[T]:
    nearest = [(heap[0], 0)]
    while nearest:
        item, place = heappop(nearest)
        yield item
        for child in range(2 * place + 1, min(2 * place + 3, len(heap))):
            heappush(nearest, (heap[child], child))


def in_turn(bands: list[Band]) -> Iterator[Ticket]:
    """The tickets of a class as fair share takes them: whose agent was served least, then charged for it, and so on."""
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


def valid(key: Key, ticket: Ticket) -> bool:
    """Whether an entry of a heap is still that of a ticket that waits."""
    return ticket.state is TicketState.QUEUED and ticket.entry == key[2]
