"""The proxies that share a key (a *fleet*), as each tells of itself, and what that adds up to.

Nothing in it is secret: a lane is named by a keyed hash, as in :mod:`hivemind.fleet`, and by what screens show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hivemind.records import replace

GOOD = ("leased", "idle")
"""States of a proxy with which nothing is wrong."""
TROUBLED = ("alone", "safe", "learning", "joining")
"""States of a lease other than `leased`, the gravest first."""
_KINDS = {"requests": 0, "input": 1, "output": 2, "tokens": 3}
"""The order of a family's windows."""
SILENT_S = 3.0
"""A proxy that wasn't heard of for so long, which it is once a second, may be gone."""


class MemberWindow(Struct, frozen=True):
    """One rate window of a shared lane, as one proxy knows it by its last lease."""

    family: str
    kind: str
    """One of :class:`~hivemind.scheduler.types.WindowKind`, by its value."""
    limit: float | None
    """The limit a minute in force for all; None: none."""
    used: float
    """What all proxies used in the last minute."""
    mine: float
    """What this one used in the last minute."""


class MemberLane(Struct, frozen=True):
    """One lane of a proxy, which it shares with the fleet."""

    lane: str
    """The fleet's name of the lane."""
    shown: str
    """The proxy's own name of it."""
    upstream: str
    state: str
    """A :class:`~hivemind.scheduler.lease.LeaseState` by its value."""
    lease_age_s: float | None
    """Age of the last lease; None: it has had none."""
    in_flight: int
    waiting: int
    agents: float
    """The lane's weight when what there is gets divided: agents with requests in flight or waiting."""
    slots: float | None
    """Requests that may be in flight here; None: no limit."""
    level: float | None
    """Requests that may be in flight in all proxies together; None: no limit."""
    windows: tuple[MemberWindow, ...] = ()


class Member(Struct, frozen=True):
    """One proxy of a fleet."""

    id: str
    """Random, of this process."""
    machine: str
    pid: int
    version: str
    """Of HiveMind."""
    protocol: int
    """Of the leases."""
    address: str
    """Base URL that its agents use."""
    started: float
    """Seconds since the epoch, by its own clock."""
    mode: str = "serving"
    """`serving`, `paused` or `draining`."""
    agents: int = 0
    """Agents that it has seen."""
    active: int = 0
    """Agents with requests in flight or waiting."""
    in_flight: int = 0
    waiting: int = 0
    lanes: tuple[MemberLane, ...] = ()
    seen_s: float = 0.0
    """Time since it was heard of."""
    label: str = ""
    """What screens call it: its machine, with the process or the id where a machine has several."""

    @property
    def state(self) -> str:
        """The gravest state among its lanes; `leased` where all are, `idle` where it has none."""
        states = {lane.state for lane in self.lanes}
        return next((state for state in TROUBLED if state in states), "leased" if states else "idle")

    @property
    def lease_age_s(self) -> float | None:
        """The age of its oldest lease; None: it has none."""
        return max((lane.lease_age_s for lane in self.lanes if lane.lease_age_s is not None), default=None)


class Taken(Struct, frozen=True):
    """What one proxy has of a lane that the fleet shares."""

    member: str
    label: str
    in_flight: int
    waiting: int
    slots: float | None
    share: float
    """Its part of what all used in the last minute, 1 being all; of the window that is used most."""
    demand: float
    """Its part of the weights (:attr:`MemberLane.agents`) now, 1 being all."""
    used: tuple[float, ...]
    """What it used in the last minute of each of the lane's windows."""


class LaneWindow(Struct, frozen=True):
    """One rate window of a lane, over all proxies."""

    family: str
    kind: str
    limit: float | None
    used: float
    """In the last minute."""


class FleetLane(Struct, frozen=True):
    """One key, over all proxies that share it."""

    lane: str
    shown: str
    upstream: str
    in_flight: int
    waiting: int
    level: float | None
    """Requests that may be in flight in all of them; None: no limit."""
    windows: tuple[LaneWindow, ...]
    taken: tuple[Taken, ...]
    """By member, in the order of :attr:`Fleet.members`."""


class Fleet(Struct, frozen=True):
    """All proxies that share a store, and the keys that they share."""

    members: tuple[Member, ...] = ()
    """Those that were heard of lately, by machine."""
    lanes: tuple[FleetLane, ...] = ()
    store: str = ""
    """The store's address, without credentials; empty: there is no fleet."""
    me: str = ""
    """Id of the proxy that answers; empty: none, the store was asked directly."""
    state: str = ""
    """That proxy's own state, as :attr:`Member.state`."""
    away: str = ""
    """Why the store can't be asked at present; empty: it answers."""

    def state_of(self, member: Member) -> str:
        """Return how a proxy is, in a word: `unknown` while the store is away, `silent`, its mode unless it serves, or
        :attr:`Member.state`, what is wrong first."""
        if self.away and member.id != self.me:
            return "unknown"
        if member.seen_s > SILENT_S:
            return "silent"
        return member.mode if member.mode != "serving" and member.state in GOOD else member.state

    @property
    def troubled(self) -> int:
        """How many proxies aren't as they should be, as far as known."""
        return sum(self.state_of(member) not in (*GOOD, "unknown") for member in self.members)

    def names(self, key: FleetLane) -> frozenset[str]:
        """Return what the proxies call a key's lane."""
        return frozenset(lane.shown for member in self.members for lane in member.lanes if lane.lane == key.lane)


def gathered(members: Iterable[Member], *, store: str = "", me: str = "", away: str = "") -> Fleet:
    """Return the fleet of these proxies, with its sums."""
    named = labelled(members)
    keys = dict.fromkeys(lane.lane for member in named for lane in member.lanes)
    own = next((member.state for member in named if member.id == me), "")
    return Fleet(named, tuple(_lane(key, named) for key in keys), store, me, own, away)


def labelled(members: Iterable[Member]) -> tuple[Member, ...]:
    """Return them by machine, each with its label."""
    found = sorted(members, key=lambda member: (member.machine, member.started, member.id))
    machines = Counter(member.machine for member in found)
    processes = Counter((member.machine, member.pid) for member in found)

    def label(member: Member) -> str:
        if machines[member.machine] == 1:
            return member.machine
        # Containers of one name may have the same process numbers.
        alone = processes[member.machine, member.pid] == 1
        return f"{member.machine}:{member.pid if alone else member.id[:6]}"

    return tuple(replace(member, label=label(member)) for member in found)


def of_key(member: Member, key: str) -> MemberLane | None:
    """Return a member's lane of that key; None: it has none."""
    return next((lane for lane in member.lanes if lane.lane == key), None)


def _lane(key: str, members: Sequence[Member]) -> FleetLane:
    found = [(member, lane) for member in members for lane in member.lanes if lane.lane == key]
    lanes = [lane for _, lane in found]
    newest = min(lanes, key=lambda lane: (_unleased(lane), lane.lease_age_s or 0.0))
    windows = lane_windows(lanes)
    used = [[_mine(lane, window) for window in windows] for lane in lanes]
    tightest = max(range(len(windows)), key=lambda n: _fullness(windows[n]), default=None)
    took = [0.0 if tightest is None else mine[tightest] for mine in used]
    weights = [lane.agents for lane in lanes]
    return FleetLane(
        key,
        newest.shown,
        newest.upstream,
        sum(lane.in_flight for lane in lanes),
        sum(lane.waiting for lane in lanes),
        newest.level,
        windows,
        tuple(
            Taken(
                member.id,
                member.label,
                lane.in_flight,
                lane.waiting,
                lane.slots,
                _part(took[n], took),
                _part(weights[n], weights),
                tuple(used[n]),
            )
            for n, (member, lane) in enumerate(found)
        ),
    )


def lane_windows(lanes: Sequence[MemberLane]) -> tuple[LaneWindow, ...]:
    """Return a key's windows: the limit by the newest lease, and what all of its lanes used."""
    by_age = sorted(lanes, key=lambda lane: (_unleased(lane), lane.lease_age_s or 0.0))
    found: dict[tuple[str, str], LaneWindow] = {}
    for lane in by_age:
        for window in lane.windows:
            found.setdefault(
                (window.family, window.kind), LaneWindow(window.family, window.kind, window.limit, window.used)
            )
    # Leases are of different moments, and a member's own figure is the newest of what it used.
    summed = [replace(each, used=max(each.used, sum(_mine(lane, each) for lane in lanes))) for each in found.values()]
    return tuple(sorted(summed, key=lambda each: (each.family, _KINDS.get(each.kind, len(_KINDS)))))


def _unleased(lane: MemberLane) -> bool:
    return lane.lease_age_s is None


def _mine(lane: MemberLane, window: LaneWindow) -> float:
    return sum(each.mine for each in lane.windows if (each.family, each.kind) == (window.family, window.kind))


def _fullness(window: LaneWindow) -> float:
    return window.used / window.limit if window.limit else 0.0


def _part(value: float, of: Sequence[float]) -> float:
    total = sum(of)
    return value / total if total > 0 else 0.0
