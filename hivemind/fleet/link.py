"""The task that keeps every lane of a proxy in step with the fleet.

It alone talks to the store about leases, so no request ever waits for the store: requests are granted from what was
leased. To ask it for each request would cost a round trip each, and everything while the store is away. Whatever
happens to the store ends as a state of the lanes (:class:`.LeaseState`), a line in the log when that changes, and
another attempt.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import secrets
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from hivemind.fleet.member import Membership
from hivemind.fleet.messages import CREDITS_TTL_S, IDLE_SYNC_S, KICK_APART_S, SYNC_S, SyncReply, WindowLease
from hivemind.fleet.store import Answer, Fault, FleetStore, Script, ScriptRun, StoreError
from hivemind.scheduler.lease import LaneReport, Lease, LeaseState
from hivemind.waiting import cancel_all, wait_up_to
from hivemind.world.fleet import MemberLane, MemberWindow
from hivemind.world.snapshot import FleetView

_log = logging.getLogger(__name__)

MOST_AT_ONCE = 16
"""Lanes in one exchange with the store; one takes a part of a millisecond, here and there."""
DORMANT_AFTER_S = 90.0
"""A lane without requests for so long leaves the fleet, and joins again with its next one."""
MOST_DORMANT = 1024
"""Such lanes that are remembered, more than the scheduler does."""
CHECK_S = 0.2
"""Between two looks whether leases have ended."""
BYE_S = 1.0
"""Longest farewell."""
_DECODER = msgspec.json.Decoder(SyncReply)


class Leases(Protocol):
    """What is used of :class:`hivemind.proxy.engine.Engine`."""

    def take_lease(self, key: str, lease: Lease) -> None: ...
    def lease_report(self, key: str) -> LaneReport | None: ...


class _Lane(Struct):
    key: str
    name: str
    """The fleet's."""
    upstream: str
    membership: Membership
    due_at: float
    sent_at: float = -math.inf
    busy_at: float = -math.inf
    """When it last had requests."""
    lease: Lease | None = None
    """The one in force; None: there was none yet."""
    told: LaneReport | None = None
    """The last report."""


_ORDER = (LeaseState.LEASED, LeaseState.LEARNING, LeaseState.JOINING, LeaseState.SAFE, LeaseState.ALONE)
"""From best to worst."""


class Link:
    """The lanes of one proxy in the fleet. Made, started and closed on one event loop."""

    def __init__(
        self,
        store: FleetStore,
        leases: Leases,
        script: Script,
        name_of: Callable[[str], str],
        *,
        member: str | None = None,
    ) -> None:
        """`name_of` returns the fleet's name of a lane, `script` is the allocator; `member` is random, of this
        process."""
        self.member = member or secrets.token_hex(8)
        self.store = store
        self._leases = leases
        self._script = script
        self._name_of = name_of
        self._lanes: dict[str, _Lane] = {}
        self._dormant: dict[str, tuple[str, str]] = {}
        """Name and upstream of lanes that have left until they have requests."""
        self._joins: dict[str, int] = {}
        """How often a lane of that name joined."""
        self._leaving: list[_Lane] = []
        """Lanes that are to be told that they have left."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: StoreError | None = None
        """Why the last exchange failed; None: it didn't."""
        self._error_at = -math.inf
        self._reached = False
        self._told: tuple[str, str] = ("", "")
        self._loop = asyncio.get_running_loop()
        self._syncs = self._reports = 0
        self._sync_s = 0.0
        self._errors: dict[str, int] = {}

    # --- Lifecycle --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="fleet-link")
        self._timer = self._loop.call_later(CHECK_S, self._check)

    async def aclose(self) -> None:
        """Leave the fleet: what is held here is free for the others at once. Then close."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await cancel_all((self._task,))
            self._leaving += self._lanes.values()
            self._lanes.clear()
            try:
                async with asyncio.timeout(BYE_S):
                    while self._leaving:
                        await self._say_goodbye()
            except (StoreError, TimeoutError):
                pass  # the store finds out by itself

    # --- Lanes ------------------------------------------------------------------------------------------------------

    def open(self, key: str, upstream: str) -> None:
        """Join the fleet with a lane that has just been opened, to an upstream of that name."""
        self._join(key, self._name_of(key), upstream)

    def _join(self, key: str, name: str, upstream: str) -> None:
        now = self._loop.time()
        self._dormant.pop(key, None)
        old = self._lanes.get(key)
        if old is not None:  # the scheduler has forgotten it and opened it again
            self._leave(old)
        # A name that was used before is another member's for the store, which counts the reports of each.
        joins = self._joins[name] = self._joins.get(name, 0) + 1
        member = self.member if joins == 1 else f"{self.member}.{joins}"
        self._lanes[key] = _Lane(key, name, upstream, Membership(member), now, busy_at=now)
        self.store.subscribe(_channel(name), functools.partial(self._on_kick, name))
        self._wake.set()

    def hurry(self, key: str) -> None:
        """Sync a lane soon."""
        if key in self._dormant:
            self._join(key, *self._dormant[key])
        lane = self._lanes.get(key)
        if lane is not None:
            lane.due_at = min(lane.due_at, lane.sent_at + KICK_APART_S)
            self._wake.set()

    def _on_kick(self, name: str, member: str | None) -> None:
        if member is not None and member.startswith(self.member):
            for lane in self._lanes.values():
                if lane.name == name and lane.membership.member == member:
                    self.hurry(lane.key)

    def _leave(self, lane: _Lane) -> None:
        self._lanes.pop(lane.key, None)
        self._leaving.append(lane)
        if not any(each.name == lane.name for each in self._lanes.values()):
            self.store.unsubscribe(_channel(lane.name))

    # --- Syncing ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._next()
            except StoreError as error:
                self._failed(error)
                await asyncio.sleep(KICK_APART_S)
            except Exception as error:  # leases end by themselves, so requests are safe whatever this is
                _log.exception("the fleet: a sync failed for a reason of our own")
                self._failed(StoreError(f"the fleet: {error!r}", "defect", Fault.UNREACHABLE))
                await asyncio.sleep(IDLE_SYNC_S)

    async def _next(self) -> None:
        """Wait until lanes are due, and sync them."""
        self._wake.clear()
        now = self._loop.time()
        wait_s = min((lane.due_at - now for lane in self._lanes.values()), default=None)
        if not self._leaving and (wait_s is None or wait_s > 0):
            if wait_s is None and not self._reached:
                wait_s = IDLE_SYNC_S
                await self.store.call("PING")  # so that a wrong password is known before there are requests
                self._succeeded()
            await wait_up_to(self._wake, wait_s)
            return
        if self._leaving:
            await self._say_goodbye()
        due = [lane for lane in self._lanes.values() if lane.due_at <= now]
        await self._sync(due[:MOST_AT_ONCE])

    async def _sync(self, lanes: list[_Lane]) -> None:
        """Report of some lanes, and take their leases. Raises: StoreError."""
        began = self._loop.time()
        sent: list[_Lane] = []
        runs: list[ScriptRun] = []
        for lane in lanes:
            report = self._leases.lease_report(lane.key)
            if report is None:
                self._leave(lane)
                continue
            busy = any(report.in_flight) or any(report.waiting)
            lane.busy_at = began if busy else lane.busy_at
            lane.sent_at, lane.due_at = began, began + (SYNC_S if busy else IDLE_SYNC_S)
            lane.told = report
            lane.membership.add(began, report)
            sent.append(lane)
            runs.append(self._command(lane, began))
        if not runs:
            return
        self._syncs += 1
        answers = await self.store.pipeline(runs)
        now = self._loop.time()
        self._sync_s += now - began
        self._reports += len(sent)
        errors = [answer for answer in answers if isinstance(answer, StoreError)]
        for lane, answer in zip(sent, answers, strict=True):
            if not isinstance(answer, StoreError):
                self._take(lane, answer, now)
        if errors:
            raise errors[0]
        self._succeeded()
        for lane in sent:
            if now - lane.busy_at > DORMANT_AFTER_S:
                self._rest(lane)

    def _command(self, lane: _Lane, now: float, *, leaving: bool = False) -> ScriptRun:
        report = lane.membership.report(now, leaving=leaving)
        return ScriptRun(self._script, f"hm:lane:{lane.name}", (msgspec.json.encode(report), secrets.token_hex(8)))

    def _take(self, lane: _Lane, answer: Answer, now: float) -> None:
        reply = _decoded(self.store, answer)
        lost = lane.membership.epoch not in ("", reply.epoch)
        lease = lane.membership.answered(now, reply)
        if lost:
            _log.warning(
                "the fleet's store %s lost its state of lane %s: for %.0f s nothing is leased, until all proxies have"
                " told it what they used",
                self.store.shown,
                lane.key,
                CREDITS_TTL_S,
            )
            lane.due_at = now + KICK_APART_S
        if lease is None or self._lanes.get(lane.key) is not lane:
            self.hurry(lane.key)
            return
        lane.lease = lease
        self._leases.take_lease(lane.key, lease)

    def _rest(self, lane: _Lane) -> None:
        """Have a lane without requests leave. With the next one the scheduler asks for a lease."""
        if self._lanes.get(lane.key) is lane:
            self._leave(lane)
            if len(self._dormant) >= MOST_DORMANT:
                del self._dormant[next(iter(self._dormant))]
            self._dormant[lane.key] = lane.name, lane.upstream
            self._leases.take_lease(lane.key, Lease(LeaseState.JOINING, slots=0))

    async def _say_goodbye(self) -> None:
        now, leaving = self._loop.time(), self._leaving[:MOST_AT_ONCE]
        runs = []
        for lane in leaving:
            if lane.key not in self._lanes:  # else what it reports is told by the membership that followed
                report = self._leases.lease_report(lane.key)
                if report is not None:
                    lane.membership.add(now, report)
            runs.append(self._command(lane, now, leaving=True))
        await self.store.pipeline(runs)
        del self._leaving[: len(leaving)]

    # --- Without the store ------------------------------------------------------------------------------------------

    def _succeeded(self) -> None:
        self._error, self._reached = None, True
        self._tell()

    def _failed(self, error: StoreError) -> None:
        self._errors[error.kind] = self._errors.get(error.kind, 0) + 1
        self._error, self._error_at = error, self._loop.time()
        self._tell()

    def _check(self) -> None:
        """Put lanes whose lease has ended on a share that is safe; called by a timer, whatever the task waits for."""
        now = self._loop.time()
        self._timer = self._loop.call_later(CHECK_S, self._check)
        error = self._error
        # Without an error an answer is on its way, and a lease that has ended grants nothing meanwhile.
        lanes = [] if error is None else [*self._lanes.values()]
        away_until = self._error_at + CREDITS_TTL_S if error is not None and error.fault is Fault.AWAY else None
        for lane in lanes:
            lease = lane.membership.without(now, away_until)
            if lease is not None and lease != lane.lease:
                lane.lease = lease
                self._leases.take_lease(lane.key, lease)
        self._tell()

    # --- Telling ----------------------------------------------------------------------------------------------------

    def view(self) -> FleetView:
        """Return how the proxy stands to its fleet now."""
        now = self._loop.time()
        memberships = [lane.membership for lane in self._lanes.values()]
        state = self._worst()
        ages = [now - (each.ends_at - CREDITS_TTL_S) for each in memberships if each.leased]
        members = max((each.reply.members for each in memberships if each.reply is not None), default=1)
        why = "" if self._error is None else f"; {self._error}"
        return FleetView(
            state,
            _TEXTS[state] + why,
            len(memberships),
            members,
            max(ages, default=None),
            self._syncs,
            self._sync_s,
            self._reports,
            dict(self._errors),
        )

    def lanes(self) -> tuple[MemberLane, ...]:
        """Return the lanes as this proxy tells the others of them."""
        now = self._loop.time()
        return tuple(_told(lane, now) for lane in self._lanes.values())

    def _worst(self) -> str:
        if not self._reached:
            return "connecting"
        states = {lane.membership.state for lane in self._lanes.values()}
        return next((state.value for state in reversed(_ORDER) if state in states), "idle")

    def _tell(self) -> None:
        """Log the state if it is another one than was logged last."""
        state, error = self._worst(), self._error
        kind = "" if error is None else error.kind
        if error is not None and state in ("leased", "idle", "learning"):
            return  # it may be over before the leases are
        if self._told == (state, kind) or (self._told[0] == state and not kind):
            return
        before, self._told = self._told, (state, kind)
        if error is not None:
            _log.warning("%s; %s", error, _TEXTS[state])
        elif state in ("leased", "idle") and before[0] in ("", "connecting"):
            _log.info("the fleet's store %s is there; this proxy is member %s", self.store.shown, self.member)
        elif state in ("leased", "idle", "learning") and before[0] in ("safe", "alone"):
            _log.info("the fleet's store %s is back: %s", self.store.shown, _TEXTS[state])


_TEXTS = {
    "connecting": "requests wait until the fleet's store is reached",
    "idle": "no lane has requests",
    "leased": "requests go on with leases",
    "learning": "the store learns what was used; nothing is leased meanwhile",
    "joining": "requests wait for their first lease",
    "safe": "requests go on with a safe share of the limits, as at all other proxies",
    "alone": "this proxy may be cut off alone, so nearly all requests wait",
}


def _told(lane: _Lane, now: float) -> MemberLane:
    report, lease, membership = lane.told or LaneReport({}, [], [], []), lane.lease, lane.membership
    reply = membership.reply
    windows = (
        () if reply is None else tuple(_window(name, window, membership, now) for name, window in reply.windows.items())
    )
    return MemberLane(
        lane.name,
        lane.key,
        lane.upstream,
        membership.state.value,
        None if reply is None else now - (membership.ends_at - CREDITS_TTL_S),
        sum(report.in_flight),
        sum(report.waiting),
        float(sum(report.agents)),
        None if lease is None or math.isinf(lease.slots) else lease.slots,
        None if lease is None or math.isinf(lease.level) else lease.level,
        windows,
    )


def _window(name: str, window: WindowLease, membership: Membership, now: float) -> MemberWindow:
    family, _, kind = name.rpartition("|")
    return MemberWindow(family, kind, window.limit, window.used, membership.own_use(now, name))


def _channel(name: str) -> str:
    return f"hm:kick:{name}"


def _decoded(store: FleetStore, answer: Answer) -> SyncReply:
    """Return an answer of the script. Raises: StoreError: it is none."""
    try:
        return _DECODER.decode(answer if isinstance(answer, bytes) else b"")
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        text = f"the fleet's store {store.shown} answers in a form that this version doesn't know ({error})"
        raise StoreError(text, "version", Fault.UNREACHABLE) from None
