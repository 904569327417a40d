"""One lane's side of the agreement with the other proxies of its key: what to report, what an answer allows, and what
may be done without one.

Pure: the caller passes the time and what happened. Times are seconds of one monotonic clock, the scheduler's.

A report is repeated, under the same number, until it is answered, so an answer that was lost costs nothing and nothing
is given twice. What an answer allows ends :data:`CREDITS_TTL_S` after its report was first sent, which is before the
store takes it back. From then on the lane may use a share that keeps the sum of all proxies within the limits: SAFE, if
the store is away for all of them, ALONE otherwise.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from msgspec import Struct

from hivemind.fleet import messages
from hivemind.records import replace
from hivemind.scheduler.lease import (
    LaneReport,
    Lease,
    LeasedLane,
    LeaseState,
    ReportedLane,
    ReportedWindow,
    Source,
    StatedWindow,
    WindowKey,
    WindowReport,
)
from hivemind.scheduler.types import WindowKind

T = TypeVar("T", bound=Struct)

SAFE_SHARE = 0.9
"""Part of a limit that all proxies together use while the store is away."""
ALONE_SHARE = 0.01
"""Part of it that one uses which may be cut off, while the others use the rest."""
_RANKS: dict[Source, int] = {"assumed": 0, "refused": 0, "headers": 1, "settings": 2}


class _Pending(Struct):
    """A report that isn't answered yet."""

    seq: int
    at: float
    """When it was sent first."""
    report: LaneReport
    minute: dict[WindowKey, dict[int, float]] | None
    """What was used in the last minute, by second of the clock; None: the epoch is an old one."""
    leaving: bool


class Membership:
    """One lane of one proxy in the fleet."""

    def __init__(self, member: str) -> None:
        """`member` is random, of this process."""
        self.member = member
        self.state = LeaseState.JOINING
        self.epoch = ""
        self.ends_at = -math.inf
        """When what was leased last ends."""
        self.reply: messages.SyncReply | None = None
        """The last answer that was taken."""
        self._seq = 0
        self._version = 0
        self._tell_minute = False
        """The answer's epoch was a new one."""
        self._pending: _Pending | None = None
        self._unsent: LaneReport | None = None
        self._used: dict[WindowKey, dict[int, float]] = {}
        """What this lane used in the last minute, by second."""
        self._slots_until = -math.inf
        self._kept: dict[WindowKey, float] = {}
        """What this lane had used in the last minute when its safe share began; as that grows old it may be used again,
        so that in the first minute all proxies go on as they did."""
        self._safe_from = -math.inf
        """Since when the lane is without a lease."""

    # --- Reports ----------------------------------------------------------------------------------------------------

    def add(self, now: float, report: LaneReport) -> None:
        """Note what the lane used and wants. Nothing of it is lost before it was answered for."""
        for key, window in report.windows.items():
            ring = self._used.setdefault(key, {})
            for second, amount in window.used.items():
                ring[second] = ring.get(second, 0.0) + amount
        oldest = int(now) - messages.RING_S
        for key in list(self._used):
            self._used[key] = {second: amount for second, amount in self._used[key].items() if second >= oldest}
            if not self._used[key]:
                del self._used[key]
        self._unsent = report if self._unsent is None else _joined(self._unsent, report)

    def report(self, now: float, *, leaving: bool = False) -> messages.SyncReport:
        """Return what to send now: the report that wasn't answered, or else a new one of all that was noted."""
        pending = self._pending
        if pending is None or (leaving and not pending.leaving):
            if pending is not None:  # the last report of all has to tell what that one did
                unsent = _joined(pending.report, self._unsent) if self._unsent is not None else pending.report
            else:
                unsent = self._unsent or LaneReport({}, [], [], [])
            self._seq += 1
            minute = {key: dict(ring) for key, ring in self._used.items()} if self._tell_minute else None
            pending = self._pending = _Pending(self._seq, now, unsent, minute, leaving)
            self._unsent = None
        return self._built(now, pending)

    def _built(self, now: float, pending: _Pending) -> messages.SyncReport:
        told, level = pending.report, None if self.reply is None else self.reply.level
        minute = pending.minute
        windows = {_named(key): _demand(now, window, told=minute is None) for key, window in told.windows.items()}
        return messages.SyncReport(
            protocol=messages.PROTOCOL,
            member=self.member,
            seq=pending.seq,
            epoch=self.epoch,
            version=self._version,
            windows=windows,
            minute={} if minute is None else {_named(key): _ages(now, ring) for key, ring in minute.items()},
            in_flight=list(told.in_flight),
            waiting=list(told.waiting),
            agents=[float(each) for each in told.agents],
            ceiling=None if math.isinf(told.ceiling) else told.ceiling,
            begin=None if math.isinf(told.begin) else told.begin,
            level=level,
            pauses={"*" if family is None else family: for_s for family, for_s in told.pauses.items()},
            leaving=pending.leaving,
            **_values(ReportedLane, told),
        )

    # --- Answers ----------------------------------------------------------------------------------------------------

    def answered(self, now: float, reply: messages.SyncReply) -> Lease | None:
        """Take the answer to the last :meth:`report`. Return the lease; None if it came too late to be used."""
        pending = self._pending
        if pending is None:
            return None
        self._pending = None
        if pending.minute is not None:
            self._tell_minute = False
        if reply.epoch != self.epoch:
            # Before its first lease the lane has used nothing, so there is nothing that a lost state would need.
            self._tell_minute = bool(self.epoch)
            self.epoch, self._version = reply.epoch, 0
        self._version = max(self._version, reply.version)
        if now >= pending.at + messages.CREDITS_TTL_S:
            return None  # the store may have taken it back already; the next report tells what is left without it
        self.reply = reply
        self.ends_at = pending.at + messages.CREDITS_TTL_S
        self._slots_until = pending.at + messages.SLOTS_TTL_S
        self.state = LeaseState.LEARNING if reply.learning else LeaseState.LEASED
        known = {key: window for name, window in reply.windows.items() if (key := _key(name)) is not None}
        return Lease(
            self.state,
            credits={key: window.give for key, window in known.items()},
            tight=frozenset(key for key, window in known.items() if window.tight),
            in_force=_in_force(reply),
            used={key: window.used for key, window in known.items()},
            changes={key: window.changes for key, window in known.items() if window.changes},
            refused=frozenset(key for key, window in known.items() if window.refused),
            until=self.ends_at,
            slots=math.inf if reply.slots is None else float(reply.slots),
            level=math.inf if reply.level is None else reply.level,
            pauses={None if family == "*" else family: for_s for family, for_s in reply.pauses.items()},
            in_flight=reply.in_flight,
            waiting=reply.waiting,
            **_values(LeasedLane, reply),
        )

    # --- Without an answer ------------------------------------------------------------------------------------------

    @property
    def leased(self) -> bool:
        """Whether the lane goes by an answer of the store."""
        return self.state in (LeaseState.LEASED, LeaseState.LEARNING)

    def without(self, now: float, away_until: float | None) -> Lease | None:
        """Return the lease without an answer, if what was leased has ended: a share within the limits.

        `away_until`: until then it is known that the store is away for all proxies; None or past: it isn't. None is
        returned where what was leased holds, or there was none yet, so that nothing may be sent.
        """
        reply = self.reply
        if reply is None or (self.leased and now < self.ends_at):
            return None
        if self.leased:
            self._safe_from = self.ends_at
        away = away_until is not None and now < away_until
        state = LeaseState.SAFE if away else LeaseState.ALONE
        if away and self.state is not LeaseState.SAFE:
            self._kept = {key: self._own(now, key) for key in self._used}
        self.state = state
        return Lease(
            state,
            until=away_until if away and away_until is not None else math.inf,
            limits=self._limits(now, reply, away=away),
            in_force=_in_force(reply),
            slots=self._slots(now, reply, away=away),
            level=math.inf if reply.level is None else reply.level,
            cuts=reply.cuts,
            trips=reply.trips,
            members=reply.members,
        )

    def _limits(self, now: float, reply: messages.SyncReply, *, away: bool) -> dict[WindowKey, float]:
        limits = {}
        for name, window in reply.windows.items():
            key = _key(name)
            if key is None or window.limit is None:
                continue
            share = window.limit / max(1, reply.members)
            limits[key] = self._safe(now, key, window, reply.members) if away else ALONE_SHARE * share
        return limits

    def _safe(self, now: float, key: WindowKey, window: messages.WindowLease, members: int) -> float:
        assert window.limit is not None
        share = SAFE_SHARE * window.limit / max(1, members)
        if now >= self._safe_from + messages.RING_S:
            return share
        # What others used or hold is within the last minute still, so only what nobody had is shared.
        room = max(0.0, window.limit - window.used) if window.room is None else window.room
        return min(share, self._kept.get(key, 0.0) + SAFE_SHARE * room / max(1, members))

    def own_use(self, now: float, name: str) -> float:
        """Return what this lane used of a window in the last minute, as far as it was noted."""
        key = _key(name)
        return 0.0 if key is None else self._own(now, key)

    def _own(self, now: float, key: WindowKey) -> float:
        oldest = int(now) - messages.RING_S
        return max(0.0, sum(amount for second, amount in self._used.get(key, {}).items() if second > oldest))

    def _slots(self, now: float, reply: messages.SyncReply, *, away: bool) -> float:
        if reply.slots is None:
            return math.inf
        last = float(reply.slots)
        if not away:
            return last if now < self._slots_until else min(last, 1.0)
        if reply.level is None:
            return last
        share = math.floor(SAFE_SHARE * reply.level / max(1, reply.members))
        if share >= 1 and now >= self._slots_until + messages.SLOTS_TTL_S:
            return float(share)  # by now every proxy is down to its share
        return min(last, max(1.0, share))


def _demand(now: float, window: WindowReport, *, told: bool) -> messages.WindowDemand:
    stated = window.stated
    return messages.WindowDemand(
        used=_ages(now, window.used) if told else [],
        wanted=list(window.wanted) if any(window.wanted) else [],
        rank=_RANKS[window.source],
        stated=None if stated is None else messages.Stated(stated.limit, stated.remaining, max(0.0, now - stated.at)),
        **_values(ReportedWindow, window),
    )


def _values(kind: type[T], record: T) -> dict[str, Any]:
    """Return what two records have in common, by the names that this kind has."""
    return {name: getattr(record, name) for name in kind.__struct_fields__}


def _ages(now: float, used: dict[int, float]) -> list[tuple[float, float]]:
    """Return the amounts with the seconds since the last moment at which they may have been used, or, of what is taken
    off again, since the first one; without those that count in no window any more."""
    ages = (
        (max(0.0, now - second - (1 if amount > 0 else 0)), amount)
        for second, amount in sorted(used.items(), reverse=True)
        if amount
    )
    return [(age, amount) for age, amount in ages if age < messages.RING_S - 1]


def _in_force(reply: messages.SyncReply) -> dict[WindowKey, float]:
    """Return the limits of all proxies together."""
    limits = ((_key(name), window.limit) for name, window in reply.windows.items())
    return {key: limit for key, limit in limits if key is not None and limit is not None}


def _named(key: WindowKey) -> str:
    return f"{key[0]}|{key[1].value}"


_KINDS = {kind.value: kind for kind in WindowKind}


def _key(name: str) -> WindowKey | None:
    family, _, kind = name.rpartition("|")
    return (family, _KINDS[kind]) if kind in _KINDS else None


def _joined(first: LaneReport, then: LaneReport) -> LaneReport:
    """Return one report of two: the later one's state, both ones' use, and what happened in either."""
    windows = dict(then.windows)
    for key, before in first.windows.items():
        after = windows.get(key)
        windows[key] = _joined_window(before, after) if after is not None else replace(before, wanted=[0.0] * 5)
    cut = then.cut if first.cut is None or first.cuts != then.cuts else first.cut * (then.cut or 1.0)
    same = first.trips == then.trips
    return replace(
        then,
        windows=windows,
        cut=cut,
        grow=0.0 if cut is not None else max(first.grow, then.grow),
        resumed=then.resumed or (first.resumed and not then.pauses),
        opened_for_s=first.opened_for_s if then.opened_for_s is None and same else then.opened_for_s,
        opened_family=first.opened_family if then.opened_for_s is None and same else then.opened_family,
        probe_ok=first.probe_ok if then.probe_ok is None and same else then.probe_ok,
        forced=then.forced or first.forced,
        pin=first.pin if then.pin is None else then.pin,
    )


def _joined_window(before: WindowReport, after: WindowReport) -> WindowReport:
    used = dict(before.used)
    for second, amount in after.used.items():
        used[second] = used.get(second, 0.0) + amount
    stated: StatedWindow | None = after.stated or before.stated
    refused = after.refused or (before.refused and before.changes == after.changes)
    returned = before.returned + after.returned
    return replace(after, used=used, returned=returned, stated=stated, refused=refused)
