"""One sync of one lane: what a proxy (a *member*) tells the store, and what it gets back. JSON on the wire.

Ages instead of times, since members' clocks differ. Fields that are absent have their default. Windows are named
`family|kind`.
"""

from __future__ import annotations

from msgspec import Struct, field

from hivemind.scheduler.lease import LeasedLane, ReportedLane, ReportedWindow

PROTOCOL = 2
"""Of these messages and the state. A store that holds another one's state refuses the sync."""
CREDITS_TTL_S = 3.0
"""A member's credits count as spent if it hasn't synced for so long."""
SLOTS_TTL_S = 10.0
"""Its slots are free again after this."""
RING_S = 61
"""Whole seconds of use that are kept: 60 would let one second's use count in no window."""
SYNC_S = 0.25
IDLE_SYNC_S = 1.0
"""Between two syncs of a lane with requests in flight or waiting, and of one without."""
KICK_APART_S = 0.05
"""Least time between two syncs that something asked for at once."""


class Stated(Struct, omit_defaults=True):
    """What the provider's headers stated of a window."""

    limit: float
    remaining: float
    age_s: float = 0.0


class WindowDemand(ReportedWindow, omit_defaults=True):
    """One window in a report; as :class:`~hivemind.scheduler.lease.WindowReport`."""

    used: list[tuple[float, float]] = field(default_factory=list)
    """Seconds ago, and the amount. What was used is told as late as it may have been, and what is taken off again as
    early, so that it counts in every minute in which it counts for the provider. Members' seconds begin at different
    times, so whole ones wouldn't do."""
    wanted: list[float] = field(default_factory=list)
    """By class, the spare last; empty: nothing."""
    rank: int = 0
    """Where the limit comes from: 0 a profile's assumption, 1 headers, 2 settings."""
    stated: Stated | None = None


class SyncReport(ReportedLane, omit_defaults=True):
    """What a member tells of one lane; as :class:`~hivemind.scheduler.lease.LaneReport`."""

    protocol: int
    member: str
    """Random, of one process."""
    seq: int
    """Rises by one with each report; a repeated one is answered as it was the first time, and changes nothing."""
    epoch: str = ""
    """Of the state that the member knows; empty: none yet."""
    version: int = 0
    """Highest version of the state that it has seen: an older one has lost writes."""
    windows: dict[str, WindowDemand] = field(default_factory=dict)
    minute: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """All that it used in the last minute, by window and age; sent once in place of `used`, after an answer with
    another epoch than before, from which a lost state rebuilds itself. The store ignores `used` of another epoch."""
    in_flight: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    agents: list[float] = field(default_factory=list)
    ceiling: float | None = None
    """None: no limit."""
    begin: float | None = None
    """The level that is assumed at first; None: the ceiling."""
    level: float | None = None
    """The level as last leased, for a state that was lost; None: no limit."""
    pauses: dict[str, float] = field(default_factory=dict)
    """By family of models, in seconds; `*`: of the whole lane."""
    leaving: bool = False
    """The member ends: what it holds is free at once, but for the use that it reports."""


class WindowLease(Struct, omit_defaults=True):
    """One window in an answer."""

    give: float = 0.0
    """Credits added."""
    limit: float | None = None
    """The limit in force for all."""
    used: float = 0.0
    """By all members in the last minute."""
    mine: float = 0.0
    """By this one."""
    room: float | None = None
    """What is left to be given to anybody; None: there is no limit."""
    tight: bool = False
    """There isn't enough for all that wait, so spare credits are to be returned."""
    changes: int = 0
    """How often a limit that is only assumed has changed."""
    refused: bool = False
    """The provider has refused what it allowed before."""


class SyncReply(LeasedLane, omit_defaults=True):
    """What a member may use of one lane."""

    epoch: str
    version: int
    learning: bool = False
    windows: dict[str, WindowLease] = field(default_factory=dict)
    slots: int | None = None
    """None: no limit."""
    level: float | None = None
    pauses: dict[str, float] = field(default_factory=dict)
    in_flight: int = 0
    """Requests of all members in flight."""
    waiting: int = 0
    kick: list[str] = field(default_factory=list)
    """Members that are due something, or have to give something back: the store has told them to sync at once."""
