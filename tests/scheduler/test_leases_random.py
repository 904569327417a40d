"""Random histories in which leases come, are lost and change, each step checked against a simple model."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from examples import of_histories
from hypothesis import strategies as st
from hypothesis.stateful import rule
from scheduler.driving import LANE
from scheduler.reference import LARGE, SLACK_S, Entry, Reference
from scheduler.test_invariants import Histories, Told

from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command, ReleaseLane
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.lease import LaneReport, Lease, LeaseState, WindowKey
from hivemind.scheduler.types import Usage, WindowKind

KINDS = {"r": WindowKind.REQUESTS, "t": WindowKind.TOKENS}
SHARED = (LeaseState.LEASED, LeaseState.LEARNING)
SHARES = {LeaseState.SAFE: 0.9, LeaseState.ALONE: 0.01}
RING_S = 61.0
KEYS = [(family, kind) for family in "mn" for kind in KINDS.values()]
CREDITS = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from([0.5, 1.0, 3.0, 700.0, 20_000.0, 20_000.0]) for key in KEYS}
)
LEASES = st.builds(
    Lease,
    st.sampled_from([*SHARED, *SHARED, *LeaseState]),
    credits=CREDITS,
    limits=st.one_of(
        st.none(), st.fixed_dictionaries({}, optional={key: st.sampled_from([0.3, 4.0, 900.0]) for key in KEYS})
    ),
    in_force=st.fixed_dictionaries({}, optional={key: st.sampled_from([4.0, 900.0]) for key in KEYS}),
    tight=st.sampled_from([frozenset[WindowKey](), frozenset(KEYS)]),
    slots=st.sampled_from([0.0, 1.0, 2.0, 5.0, math.inf]),
    level=st.sampled_from([1.0, 4.5, 8.0, math.inf]),
    cuts=st.integers(0, 2),
    pauses=st.sampled_from([{}, {}, {}, {None: 5.0}, {"m": 5.0}]),
    circuit=st.sampled_from(["closed", "closed", "closed", "open", "probe"]),
    trips=st.integers(0, 2),
    reopens_in_s=st.sampled_from([None, 0.0, 5.0]),
    forced=st.sampled_from([None, None, None, "open", "closed"]),
    pinned=st.sampled_from([None, None, 2.0]),
    members=st.integers(1, 3),
)


@dataclass(eq=False)
class Book:
    """What one lane was leased, and what it used."""

    lease: Lease = field(default_factory=lambda: Lease(LeaseState.JOINING, slots=0))
    since: float = -math.inf
    left: dict[WindowKey, float] = field(default_factory=lambda: defaultdict(float))
    used: dict[WindowKey, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """Not reported yet, by second."""
    charges: dict[tuple[int, WindowKey], tuple[float, float]] = field(default_factory=dict)
    """By ticket in flight: when it was granted, and what it was estimated to take."""
    own_pauses: set[str | None] = field(default_factory=set)
    resumed: bool = False

    @property
    def by_credits(self) -> bool:
        return self.lease.state not in SHARES


class LeasedReference(Reference):
    """The rules under leases."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.books: dict[str, Book] = defaultdict(Book)
        self.lanes: dict[str, Lane] = {}

    def take(self, lane: Lane, lease: Lease, now: float) -> None:
        """Take over a lease that the lane has just taken."""
        book, road = self.books[lane.key], self.roads[lane.key]
        shared, had = lease.state in SHARED, book.lease.state in SHARED
        for key in {*book.left, *(lease.credits if shared else ())}:
            left = book.left[key] if had else min(book.left[key], 0.0)
            given = lease.credits.get(key, 0.0) if key in self.kept(lane.key) else 0.0
            book.left[key] = left + given if shared else 0.0
        if lease.state is not book.lease.state:
            book.since = now
        book.lease = lease
        road.forced_open = lane.circuit.forced == "open"
        if not shared:
            return
        book.own_pauses -= lease.pauses.keys()
        for family, for_s in lease.pauses.items() if not book.resumed else ():
            if family is None:
                road.paused_until = max(road.paused_until, now + for_s)
                road.was_paused = True
            else:
                road.pauses[family] = max(road.pauses.get(family, now), now + for_s)
        pauses: dict[str | None, float] = {None: road.paused_until, **road.pauses}  # type: ignore[dict-item]
        known = {*lease.pauses, *book.own_pauses}
        if any(until - now > 1.0 for family, until in pauses.items() if family not in known):
            road.paused_until = -math.inf
            road.pauses.clear()

    def report(self, lane: str, report: LaneReport, now: float) -> None:
        """Check what the lane tells of its windows."""
        book, road = self.books[lane], self.roads[lane]
        in_flight = [0] * 4
        for entry in self.of("in flight", lane):
            in_flight[entry.ticket.served_as] += 1
        assert report.in_flight == in_flight
        lined_up = [entry for entry in self.of("waits", lane) if not entry.ticket.agent.held]
        gate = self.lanes[lane].family_gate
        assert sum(report.waiting) == sum(gate(entry.ticket.request.family, now) is None for entry in lined_up)
        book.resumed = False
        for key, window in report.windows.items():
            if key[1] not in KINDS.values():
                continue
            assert math.isclose(window.left + window.returned, book.left[key], abs_tol=1e-3), key
            assert window.returned >= 0
            book.left[key] = window.left
            if window.limit is None:
                continue  # while nothing limits it, nothing is told of its use
            known = {second: amount for second, amount in book.used.pop(key, {}).items() if second > now - 60}
            seen = {second: amount for second, amount in window.used.items() if second > now - 60}
            for second in known.keys() | seen.keys():
                assert math.isclose(known.get(second, 0.0), seen.get(second, 0.0), abs_tol=1e-3), (key, second)
            if key[0] not in road.stated and window.limit is not None:
                assert window.limit == (road.rpm if key[1] is WindowKind.REQUESTS else road.tpm)[0]

    def kept(self, lane: str) -> set[WindowKey]:
        """The windows that there are."""
        allowances = self.lanes[lane].allowances.items() if lane in self.lanes else ()
        return {(family, kind) for family, allowance in allowances for kind in allowance.windows}

    def slots(self, lane: str) -> float:
        """As leased; a cut that no lease knows of yet may make it less."""
        return self.books[lane].lease.slots if self.books[lane].lease.state is not LeaseState.JOINING else 0.0

    def may_go(self, lane: str, now: float) -> bool:
        book, gate = self.books[lane], self.lanes[lane].gate
        return super().may_go(lane, now) and gate.active + 1 <= gate.limit and now < book.lease.until

    def fits(self, entry: Entry, now: float, *, surely: bool) -> bool:
        road, book, family = self.roads[entry.lane], self.books[entry.lane], entry.ticket.request.family
        if surely and self.is_shut(road, family, now):
            return False
        for kind, (limit, binding), amount in (("r", road.rpm, 1.0), ("t", road.tpm, float(entry.tokens))):
            if not limit or (not surely and not binding and family in road.stated):
                continue
            key = family, KINDS[kind]
            full = self.in_force(entry.lane, key, float(limit))
            amount = min(amount, LARGE * full)
            slack = 1e-3 if not surely else 0.0
            if book.by_credits:
                if amount > book.left[key] + slack:
                    return False
                continue
            share = SHARES[book.lease.state] / book.lease.members * full
            if now < book.since + RING_S:
                share = 0.0
            most = (book.lease.limits or {}).get(key, share)
            cut = now - RING_S + (-SLACK_S if surely else SLACK_S)
            taken = sum(each.amount for each in road.charges[family, kind] if each.at > cut)
            if taken + amount > most + (1e-6 if not surely else 0.0):
                return False
        return True

    def in_force(self, lane: str, key: WindowKey, own: float) -> float:
        """The limit of all proxies, where the window was there when the lease was taken; else the lane's own."""
        allowance = self.lanes[lane].allowances.get(key[0]) if lane in self.lanes else None
        window = allowance.windows.get(key[1]) if allowance is not None else None
        credits = window.credits if window is not None else None
        known = credits.in_force if credits is not None else None
        assert known in (None, self.books[lane].lease.in_force.get(key))
        return own if known is None else known

    def granted(self, event: ev.Granted, *, ranked: bool) -> None:
        super().granted(event, ranked=False)
        entry, book = self.entries[event.ticket], self.books[event.lane]
        assert event.at < book.lease.until, "its lease was over"
        family = entry.ticket.request.family
        # Windows that have no limit, and never had one, count nothing.
        kinds = {window.kind for window, _ in entry.ticket.reservation or ()}
        for kind, amount in (("r", 1.0), ("t", float(entry.tokens))):
            key = family, KINDS[kind]
            if KINDS[kind] not in kinds:
                self.roads[event.lane].charges[family, kind].pop()
                continue
            book.charges[event.ticket, key] = event.at, amount
            book.used[key][math.floor(event.at)] += amount
            if book.by_credits:
                book.left[key] -= amount

    def ended(self, entry: Entry, at: float, usage: Usage | None) -> None:
        book = self.books[entry.lane]
        for kind in KINDS.values() if entry.state == "in flight" else ():
            key = entry.ticket.request.family, kind
            granted_at, estimate = book.charges.pop((entry.ticket.id, key), (at, 0.0))
            real = estimate
            if not self.usage_sent:
                real = 0.0
            elif usage is not None and kind is WindowKind.TOKENS and estimate:
                real = float(usage.total)
            more = real - estimate
            if more > 0:
                book.used[key][math.floor(at)] += more
            elif more < 0 and granted_at > at - 60.0:
                book.used[key][math.floor(granted_at)] += more
            else:
                continue
            if book.by_credits:
                book.left[key] -= more
        super().ended(entry, at, usage)

    def failed(self, event: ev.AttemptFailed) -> None:
        road = self.roads[event.lane]
        before: dict[str | None, float] = {None: road.paused_until, **road.pauses}  # type: ignore[dict-item]
        super().failed(event)
        after: dict[str | None, float] = {None: road.paused_until, **road.pauses}  # type: ignore[dict-item]
        for family, until in after.items():
            if until > before.get(family, -math.inf):
                self.books[event.lane].own_pauses.add(family)


class Leased(Told):
    """A scheduler whose lanes need leases."""

    def __init__(self, lane: LaneConfig, config: SchedulerConfig, draw: float) -> None:
        super().__init__(lane, config, draw, LeasedReference(config))

    @property
    def model(self) -> LeasedReference:
        assert isinstance(self.reference, LeasedReference)
        return self.reference

    def take_lease(self, key: str, lease: Lease) -> None:
        self.scheduler.take_lease(self.now, key, lease)
        self.model.take(self.scheduler.lanes[key], lease, self.now)
        self.gather()

    def tell(self, key: str) -> None:
        leasing = self.scheduler.lanes[key].leasing
        assert leasing is not None
        for window, amount in leasing.unclaimed.items():
            self.model.books[key].left[window] += amount
        report = self.scheduler.lease_report(self.now, key)
        assert report is not None
        self.model.report(key, report, self.now)

    def _note(self, command: Command) -> None:
        super()._note(command)
        match command:
            case ReleaseLane(lane):
                self.model.books[lane].own_pauses, self.model.books[lane].resumed = set(), True

    def gather(self) -> None:
        if hasattr(self, "scheduler"):
            model = self.model
            model.lanes = dict(self.scheduler.lanes)
            for event in self.scheduler.events:
                if isinstance(event, ev.LaneOpened):
                    model.books[event.lane] = Book()
        super().gather()


class LeasedHistories(Histories):
    """As without leases, and leases come and go."""

    hands: Leased

    def make(self, lane: LaneConfig, config: SchedulerConfig, draw: float) -> Told:
        return Leased(lane, config, draw)

    def key(self, which: int) -> str:
        lanes = list(self.hands.scheduler.lanes)
        return LANE if which < 3 and LANE in lanes else lanes[which % len(lanes)]

    @rule(which=st.integers(0, 9), lease=LEASES, for_s=st.sampled_from([3.0, math.inf, math.inf]))
    def lease(self, which: int, lease: Lease, for_s: float) -> None:
        self.take(self.key(which), lease, for_s)

    @rule(which=st.integers(0, 9), credits=CREDITS, slots=st.sampled_from([1.0, 3.0, 8.0]))
    def good_lease(self, which: int, credits: dict[WindowKey, float], slots: float) -> None:
        """The usual one."""
        self.take(self.key(which), Lease(LeaseState.LEASED, credits=credits, slots=slots, level=8.0), math.inf)

    @rule(which=st.integers(0, 9), lease=LEASES)
    def sync(self, which: int, lease: Lease) -> None:
        """A report and its answer."""
        key = self.key(which)
        self.hands.tell(key)
        self.take(key, lease, math.inf)

    @rule(which=st.integers(0, 9))
    def report(self, which: int) -> None:
        self.hands.tell(self.key(which))

    def take(self, key: str, lease: Lease, for_s: float) -> None:
        lease.until = self.hands.now + for_s
        self.hands.take_lease(key, lease)

    def before_each_end(self) -> None:
        credits: dict[WindowKey, float] = dict.fromkeys(KEYS, 1e5)
        for key in list(self.hands.scheduler.lanes):
            self.hands.tell(key)
            self.hands.take_lease(key, Lease(LeaseState.LEASED, credits=credits))


TestLeasedHistories = LeasedHistories.TestCase
TestLeasedHistories.settings = of_histories(200, few=10)
