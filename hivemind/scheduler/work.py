"""Work that goes on after the reply that began it: responses in the background, batches, videos and other jobs.

Its provider tells an id when it begins, and later, whenever it is asked, what the work used. So each id is remembered
with the agent that began it, and what it used is booked once.

A response in the background keeps the slot of its request until it has ended. The others don't: they have
limits of their own at the provider, and a batch may take a day.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.scheduler.events import WorkState
from hivemind.scheduler.ticket import Ticket

Kind = Literal["background", "batch", "video", "job"]
UNBOOKED: dict[Kind, str] = {
    "batch": "ended, not booked: batch",
    "video": "ended, price unknown: video",
    "job": "ended, price unknown: job",
}
"""What has ended without a word of what it used, which isn't known to be nothing."""
KEPT = 10_000
"""Ids that are remembered; beyond it those go that were met longest ago."""
UNASKED_S = 600.0
"""Work in the background that nobody has asked for in this time counts as ended: OpenAI keeps what it brings for about
ten minutes (https://developers.openai.com/docs/guides/background)."""
LONGEST_S = 48 * 3600.0
"""What isn't in the background counts as ended after this time; providers end batches after 24 or 48 hours."""


class Work(Struct, frozen=True):
    """What is remembered of one."""

    agent: str
    lane: str
    model: str  # as the request that began it named it
    kind: Kind
    began_at: float
    over: bool = False  # it has ended, as far as known
    booked: bool = False  # what it used was booked
    names: tuple[str, ...] = ()
    """Ids of files with its results."""


class Works(Struct):
    """All that is remembered, by id."""

    by_id: dict[str, Work] = field(default_factory=dict)
    unsaved: set[str] = field(default_factory=set)
    """Ids of which something changed that a restart must know."""
    tickets: dict[str, Ticket] = field(default_factory=dict)
    """The requests that wait for the end of what they began."""
    asked_at: dict[str, float] = field(default_factory=dict)
    """When these were asked for last; infinity while they are told of in an open stream."""
    _going_on: set[str] = field(default_factory=set)
    _unbooked: set[str] = field(default_factory=set)
    """What has ended, other than in the background, and nothing has stated what it used."""
    _names: dict[str, str] = field(default_factory=dict)
    """Ids of work by those of its files."""

    def id_of(self, name: str) -> str:
        """Return the id of the work that this is the id of, or the id of a file of; else the name itself."""
        return self._names.get(name, name)

    def find(self, name: str) -> Work | None:
        """Return the work of which this is the id, or the id of a file; None: it isn't known."""
        return self.by_id.get(self.id_of(name))

    def is_booked(self, name: str, names: tuple[str, ...]) -> bool:
        """Return whether what work used is booked; `names` are the ids of files with its results."""
        return any(work.booked for each in (name, *names) if (work := self.find(each)) is not None)

    def tells_later(self, name: str, names: tuple[str, ...]) -> bool:
        """Return whether nothing is to be booked now: it is, or an open stream will tell."""
        return self.asked_at.get(self.id_of(name)) == math.inf or self.is_booked(name, names)

    def put(self, name: str, work: Work) -> None:
        """Remember this of an id, in place of what was."""
        if name not in self.by_id and len(self.by_id) >= KEPT:
            self._drop(next((each for each in self.by_id if each not in self.tickets), name))
        self.by_id[name] = work
        self.unsaved.add(name)
        for each in work.names:
            self._names[each] = name
        if work.over:
            self._going_on.discard(name)
            self.asked_at.pop(name, None)
        else:
            self._going_on.add(name)
        if work.over and work.kind in UNBOOKED and not work.booked:
            self._unbooked.add(name)
        else:
            self._unbooked.discard(name)

    def _drop(self, name: str) -> None:
        work = self.by_id.pop(name, None)
        for each in () if work is None else work.names:
            self._names.pop(each, None)
        self._going_on.discard(name)
        self._unbooked.discard(name)
        self.unsaved.add(name)

    def state(self, now: float) -> tuple[WorkState, ...]:
        """Return what goes on, by agent and kind, and for as long what has ended without being booked."""
        counts: Counter[tuple[str, str]] = Counter()
        oldest: dict[tuple[str, str], float] = {}
        for name in [*self._going_on, *self._unbooked]:
            work = self.by_id[name]
            if now - work.began_at > LONGEST_S:
                self.put(name, replace(work, over=True))
                self._unbooked.discard(name)
                continue
            key = work.agent, UNBOOKED[work.kind] if work.over else work.kind
            counts[key] += 1
            oldest[key] = min(oldest.get(key, now), work.began_at)
        return tuple(WorkState(*key, counts[key], now - oldest[key]) for key in sorted(counts))

    def take_unsaved(self) -> dict[str, Work | None]:
        """Return what has to be saved now, None for what is forgotten, and count it as saved."""
        unsaved, self.unsaved = self.unsaved, set()
        return {name: self.by_id.get(name) for name in unsaved}

    def restore(self, works: Iterable[tuple[str, Work]]) -> None:
        """Go on from what was saved, the oldest first. No slot is held for what a lost proxy began."""
        for name, work in works:
            self.put(name, replace(work, over=True) if work.kind == "background" else work)
        self.unsaved.clear()
