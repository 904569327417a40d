"""What a lane is leased, where several proxies share one credential, and what it reports in return.

Proxies that share a key agree through a store (:mod:`hivemind.fleet`). The scheduler knows nothing of that: every
moment it takes a :class:`Lease` for each lane, which replaces the lane's own limits, and it hands out a
:class:`LaneReport` of what the lane used and wants. Times are seconds of the scheduler's clock.

A rate window is leased as *credits*, an amount that may be taken once, because a rate that moves between proxies is
spent twice within one window. Slots are leased as a number, which may be below the requests in flight: then nothing is
granted until enough of them have ended. What happens at one member (a cut, a pause, an opened circuit, an operator's
decision) holds there at once and is reported once; growth of the level is only reported.

The scheduler itself grants nothing past the end of a lease, because timers of a suspended process come too late.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Literal

from msgspec import Struct, field

from hivemind.scheduler.types import WindowKind

WindowKey = tuple[str, WindowKind]
"""A model family, and what is counted."""

Source = Literal["settings", "headers", "refused", "assumed"]
"""Where a limit comes from: the user set it, replies state it, or it is our own assumption: cut to what was answered
when the provider refused more, or as nobody has stated or refused it."""

SPARE = 4
"""Index after the priority classes: what would be kept ready for requests that haven't come yet."""


class LeaseState(Enum):
    """How a lane stands to the other proxies of its key."""

    JOINING = "joining"  # it has had no lease yet, and grants nothing
    LEASED = "leased"
    LEARNING = "learning"  # the store lost its state and is told anew what was used; no credits are added meanwhile
    SAFE = "safe"  # the store is away for all proxies; each goes on with a share that can't exceed the limit in sum
    ALONE = "alone"  # only this proxy may be cut off, so the others may use nearly everything


class LeasedLane(Struct, kw_only=True):
    """What a lease says of the lane as the store's answer does."""

    cuts: int = 0
    """Cuts of the lane's level so far; a cut that the lane reports belongs to this number."""
    circuit: Literal["closed", "open", "probe"] = "closed"
    """`probe`: this lane sends the one probe of all proxies."""
    family: str | None = None
    """The only family of models that the circuit keeps; None: it keeps all."""
    trips: int = 0
    """How often the shared circuit has changed its state; a report about it belongs to this number."""
    reopens_in_s: float | None = None
    """Until an open circuit is probed; None: not by itself, or it isn't open."""
    forced: Literal["open", "closed"] | None = None  # an operator holds the circuit, for all proxies
    pinned: float | None = None  # an operator holds the level, for all proxies
    members: int = 1
    """Proxies that share the lane."""


class Lease(LeasedLane):
    """What a lane may use from now on, as of one answer of the store or, without one, of the proxy's own judgement."""

    state: LeaseState
    credits: dict[WindowKey, float] = field(default_factory=dict)
    """Added to what is left of each window's credits. Counts while the state is LEASED or LEARNING; what is left then
    is void in any other state."""
    in_force: dict[WindowKey, float] = field(default_factory=dict)
    """The limit a minute of all proxies together; a window that isn't in it has the one that this proxy knows."""
    tight: frozenset[WindowKey] = frozenset()
    """Windows that don't suffice for all that wait at all proxies: credits beyond what is wanted are returned."""
    used: dict[WindowKey, float] = field(default_factory=dict)
    """By all proxies in the last minute."""
    changes: dict[WindowKey, int] = field(default_factory=dict)
    """How often an assumed limit has changed: what the lane reports of it belongs to this number."""
    refused: frozenset[WindowKey] = frozenset()
    """Windows of which the provider refused what was assumed before."""
    limits: dict[WindowKey, float] | None = None
    """A limit a minute for each window in place of credits (SAFE, ALONE); what was sent in the last minute counts. A
    window that isn't in it allows nothing until the state has lasted a minute, then the state's share of its limit."""
    until: float = math.inf
    """When it ends, on the scheduler's clock: from then on nothing is granted, as after the process was suspended."""
    slots: float = math.inf
    """Most requests in flight here (0: none may begin); inf: no limit."""
    level: float = math.inf
    """The concurrency level of all proxies together, where AIMD goes on from; inf: no limit."""
    pauses: dict[str | None, float] = field(default_factory=dict)
    """Seconds of the pauses that the provider asked any of the proxies for, which hold for all, by family of models;
    None: of the whole lane. One that isn't in it is over, or was ended by an operator."""
    in_flight: int | None = None  # requests of all proxies in flight, for people; None: unknown
    waiting: int | None = None  # likewise those that wait


class StatedWindow(Struct):
    """The newest statement of the provider's headers about a window."""

    limit: float
    remaining: float
    at: float
    reset_in_s: float | None


class ReportedWindow(Struct, kw_only=True):
    """What a lane reports of a window as the member tells it to the store."""

    left: float = 0.0  # unspent credits that are kept; negative: more was used than leased
    returned: float = 0.0  # unspent credits that the lane gives back, not part of `left`
    first: float = 0.0  # amount of the next request in line, of which a part doesn't help; 0: none waits
    limit: float | None = None  # the limit in force a minute, as far as this proxy knows
    open: float = 0.0  # of an assumed limit, what requests in flight here have taken
    grow: bool = False
    """An assumed limit holds requests up, and one that was sent since its last change was answered."""
    refused: bool = False  # a request was refused that was sent since then, and the window is full enough
    changes: int = 0  # the number of its changes that the last two are about


class WindowReport(ReportedWindow):
    """One window of a lane since the report before."""

    used: dict[int, float] = field(default_factory=dict)
    """What was taken, by whole second of the clock. An attempt counts by estimate when it is granted; if it used less,
    the difference is taken off at the second of its grant; if more, added at the second in which that was known."""
    wanted: list[float] = field(default_factory=lambda: [0.0] * 5)
    """What the lane would use until about three syncs from now, by priority class: waiting requests, and those to be
    expected by the last seconds. Last (:data:`SPARE`): what would be kept for requests that haven't come yet."""
    source: Source = "assumed"  # of that limit
    stated: StatedWindow | None = None  # None: nothing new since the report before


class ReportedLane(Struct, kw_only=True):
    """What a lane reports as the member tells it to the store."""

    floor: float = 1.0
    cut: float | None = None  # congestion was met since the last report: the factor of the cut (AIMD's beta)
    cuts: int = 0  # the number of cuts that the lane knew of then
    grow: float = 0.0  # by so much the level may grow, as far as this lane's latencies tell (AIMD's alpha)
    settle_s: float = 0.0  # the level's change before has to be older than this for it to grow
    resumed: bool = False  # an operator ended the pauses
    trips: int = 0  # the number of the circuit's state that the next two are about
    opened_for_s: float | None = None  # the circuit opened here by results, for so long
    opened_family: str | None = None  # for this family alone; None: for all
    can_probe: bool = False  # a request that the circuit keeps waits here, or is the probe
    probe_ok: bool | None = None  # how the shared probe ended; None: it hasn't, or it isn't here
    forced: Literal["auto", "open", "closed", "probe"] | None = None  # an operator's command about the circuit, once
    pin: float | None = None  # an operator pinned the level, once; 0: gave it back to AIMD


class LaneReport(ReportedLane):
    """What a lane used since its last report, and what it wants."""

    windows: dict[WindowKey, WindowReport]
    in_flight: list[int]  # requests in flight, by priority class
    waiting: list[int]  # waiting requests that only slots or rate windows keep, by priority class
    agents: list[int]  # agents with such requests or requests in flight, by priority class: the lane's weight
    ceiling: float = math.inf  # the highest level that the settings allow, for all proxies together; inf: none
    begin: float = math.inf  # the level that is assumed at first, for all together; inf: the ceiling
    pauses: dict[str | None, float] = field(default_factory=dict)
    """What remains of the pauses that the provider asked this proxy for, in seconds, by family; None: the lane's."""
