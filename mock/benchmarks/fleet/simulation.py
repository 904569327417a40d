"""A fleet in virtual time: real schedulers, real memberships and the real allocator, with everything between them made
up: agents, latencies, the network, clocks that differ, and faults.

What a provider would count is noted when a request reaches it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from fleet.lua import State, sync

from hivemind.fleet.member import Membership
from hivemind.fleet.messages import CREDITS_TTL_S, IDLE_SYNC_S, KICK_APART_S, SYNC_S, SyncReply, SyncReport
from hivemind.scheduler.config import AimdConfig, LaneConfig, QueueConfig, SchedulerConfig
from hivemind.scheduler.lease import Lease
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority, Request, Usage

LANE = "simulated"
CHECK_S = 0.2  # between two looks of a proxy whether its lease has ended
START = 1_700_000_000.0  # of the store's clock


@dataclass(frozen=True, slots=True)
class Crowd:
    """Agents of one proxy, each of which sends a request when the last one is answered and it has thought."""

    proxy: int
    agents: int
    priority: Priority = Priority.NORMAL
    begins_s: float = 0.0
    ends_s: float = float("inf")
    thinks_s: float = 0.2
    """Mean; exponentially distributed."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated."""

    name: str
    crowds: tuple[Crowd, ...]
    rpm: int = 0  # limit of requests a minute; 0: none
    slots: int = 0  # concurrency level; 0: no limit
    lasts_s: float = 300.0
    latency_s: float = 2.0  # median of an answer's, log-normally distributed
    kills: tuple[tuple[float, int], ...] = ()  # when which proxy is killed
    away: tuple[float, float] | None = None  # from when to when no proxy gets to the store, which says so
    cut_off: tuple[float, float, int] | None = None  # from when to when which proxy doesn't, and doesn't hear why
    lost: tuple[float, ...] = ()  # when the store loses its state
    seed: int = 1


@dataclass(slots=True)
class Sent:
    """A request that reached the provider."""

    at: float
    proxy: int
    priority: Priority
    waited_s: float


@dataclass(slots=True)
class Run:
    """What happened."""

    case: Case
    sent: list[Sent] = field(default_factory=list)
    waiting: list[tuple[Priority, float]] = field(default_factory=list)
    """Of those that wait at the end: class and wait so far."""
    in_flight: int = 0
    most_in_flight: int = 0
    """Requests in flight, those of killed proxies included: at the end, and at most."""
    syncs: int = 0
    kicks: int = 0
    states: set[str] = field(default_factory=set)
    """Of leases, by name."""


class Simulation:
    """One case."""

    def __init__(self, case: Case, allocate: Callable[..., tuple[State, SyncReply]] = sync) -> None:
        self.case = case
        self.random = random.Random(case.seed)
        self.run_ = Run(case)
        self.now = 0.0
        self._allocate = allocate
        self._state: State | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        proxies = max(crowd.proxy for crowd in case.crowds) + 1
        self.proxies = [_Proxy(self, number) for number in range(proxies)]

    def run(self) -> Run:
        """Simulate the case. Returns what happened."""
        for proxy in self.proxies:
            self.after(self.random.random() * SYNC_S, proxy.begin)
        for crowd in self.case.crowds:
            proxy = self.proxies[crowd.proxy]
            for number in range(crowd.agents):
                name = f"{crowd.priority.name.lower()}-{crowd.begins_s:.0f}-{number}"
                self.after(crowd.begins_s + SYNC_S + self.random.random(), partial(proxy.send, crowd, name))
        for at, number in self.case.kills:
            self.after(at, self.proxies[number].die)
        for at in self.case.lost:
            self.after(at, self._lose)
        while self._heap and self._heap[0][0] <= self.case.lasts_s:
            self.now, _, happen = heapq.heappop(self._heap)
            happen()
        for proxy in self.proxies:
            self.run_.waiting += proxy.waits()
        self.run_.sent.sort(key=lambda sent: sent.at)
        return self.run_

    def after(self, delay_s: float, happen: Callable[[], None]) -> None:
        """Let something happen so much later."""
        heapq.heappush(self._heap, (self.now + delay_s, next(self._numbers), happen))

    def store_is_away(self) -> bool:
        """Whether the store tells everybody that it is away."""
        away = self.case.away
        return away is not None and away[0] <= self.now < away[1]

    def is_cut_off(self, proxy: int) -> bool:
        """Whether a proxy's packets get lost."""
        cut_off = self.case.cut_off
        return cut_off is not None and cut_off[0] <= self.now < cut_off[1] and cut_off[2] == proxy

    def sync(self, report: SyncReport) -> SyncReply:
        """Do what the store does."""
        self.run_.syncs += 1
        self._state, reply = self._allocate(self._state, report, START + self.now, f"{self.random.getrandbits(32):08x}")
        for name in reply.kick:
            self.run_.kicks += 1
            self.after(self.network_s(), self.proxies[int(name)].hurry)
        return reply

    def network_s(self) -> float:
        """Return how long a message to or from the store takes."""
        return self.random.uniform(0.0005, 0.005)

    def _lose(self) -> None:
        self._state = None


class _Proxy:
    """One proxy: a scheduler, its membership, and what :class:`hivemind.fleet.link.Link` does."""

    def __init__(self, world: Simulation, number: int) -> None:
        self._world = world
        self._number = number
        self._clock = world.random.uniform(0, 1e6)
        """Its clock's difference."""
        case = world.case
        self._lane = LaneConfig(
            "simulated",
            "simulated",
            max_concurrency=case.slots,
            rpm=case.rpm,
            rpm_binding=True,
            tpm=0,
            aimd=AimdConfig(latency_target_s=1e6),
        )
        queue = QueueConfig(max_wait_s=1e9)
        self._scheduler = Scheduler(SchedulerConfig(queue=queue), world.random.random)
        self._scheduler.leasing = True
        self._membership = Membership(f"{number:03d}")
        self._lease: Lease | None = None
        self._dead = False
        self._syncing = False
        self._due_at = self._sent_at = -1e9
        self._failed_at: float | None = None
        self._wake_at: float | None = None

    @property
    def _now(self) -> float:
        return self._world.now + self._clock

    def begin(self) -> None:
        """Join the fleet."""
        self._scheduler.open_lane(self._now, LANE, self._lane)
        self._due_at = self._world.now
        self._sync_if_due()
        self._check()

    def die(self) -> None:
        """End at once; requests in flight are gone."""
        self._dead = True

    def waits(self) -> list[tuple[Priority, float]]:
        """Return the requests that wait, by class, and for how long."""
        if self._dead:
            return []
        tickets = [ticket for agent in self._scheduler.agents.values() for ticket in agent.tickets.values()]
        queued = [ticket for ticket in tickets if ticket.state is TicketState.QUEUED]
        return [(ticket.priority, self._now - ticket.arrived_at) for ticket in queued]

    # --- requests

    def send(self, crowd: Crowd, name: str) -> None:
        """Have an agent send its next request."""
        if self._dead or self._world.now >= crowd.ends_s:
            return
        request = Request(name, LANE, "m", "m", 400, 100, True, priority=crowd.priority)
        ticket = self._scheduler.arrive(self._now, request)
        ticket.tag = crowd
        if ticket.state is TicketState.IN_FLIGHT:
            self._granted(ticket)
        self._settle()

    def _granted(self, ticket: Ticket) -> None:
        world = self._world
        reached_s = world.random.uniform(0.005, 0.03)
        waited_s = self._now - ticket.arrived_at
        world.run_.sent.append(Sent(world.now + reached_s, self._number, ticket.priority, waited_s))
        world.run_.in_flight += 1
        world.run_.most_in_flight = max(world.run_.most_in_flight, world.run_.in_flight)
        lasts_s = reached_s + world.case.latency_s * world.random.lognormvariate(0, 0.5)
        world.after(lasts_s, partial(self._answered, ticket))

    def _answered(self, ticket: Ticket) -> None:
        self._world.run_.in_flight -= 1
        if self._dead:
            return
        self._scheduler.first_content(self._now, ticket)
        self._scheduler.succeed(self._now, ticket, 200, Usage(100, 0, 0, 50))
        crowd = ticket.tag
        assert isinstance(crowd, Crowd)
        thinks_s = self._world.random.expovariate(1 / crowd.thinks_s)
        self._world.after(thinks_s, partial(self.send, crowd, ticket.agent.name))
        self._settle()

    def _settle(self) -> None:
        """Carry out what the scheduler has decided."""
        scheduler = self._scheduler
        for ticket in scheduler.decisions:
            assert ticket.refusal is None, ticket.refusal
            self._granted(ticket)
        scheduler.decisions.clear()
        scheduler.events.clear()
        if scheduler.short:
            scheduler.short.clear()
            self.hurry()
        wake_at = scheduler.timers.next_at
        if wake_at is not None and (self._wake_at is None or wake_at < self._wake_at):
            self._wake_at = wake_at
            self._world.after(max(0.0, wake_at - self._now), partial(self._wake, wake_at))

    def _wake(self, at: float) -> None:
        if self._wake_at == at and not self._dead:
            self._wake_at = None
            self._scheduler.advance(max(at, self._now))
            self._settle()

    # --- the fleet

    def hurry(self) -> None:
        """Sync soon."""
        self._due_at = min(self._due_at, self._sent_at + KICK_APART_S)
        self._world.after(max(0.0, self._due_at - self._world.now), self._sync_if_due)

    def _sync_if_due(self) -> None:
        world = self._world
        if self._dead or self._syncing or world.now < self._due_at - 1e-9:
            return
        report = self._scheduler.lease_report(self._now, LANE)
        assert report is not None
        busy = any(report.in_flight) or any(report.waiting)
        self._sent_at = world.now
        self._plan(SYNC_S if busy else IDLE_SYNC_S)
        self._membership.add(self._now, report)
        if world.is_cut_off(self._number):
            return
        if world.store_is_away():
            self._failed_at = self._now
            return
        self._failed_at = None
        self._syncing = True
        message = self._membership.report(self._now)
        world.after(world.network_s(), partial(self._arrive, message))

    def _plan(self, delay_s: float) -> None:
        self._due_at = self._world.now + delay_s
        self._world.after(delay_s, self._sync_if_due)

    def _arrive(self, message: SyncReport) -> None:
        if self._world.store_is_away() or self._world.is_cut_off(self._number):
            self._syncing = False
            return
        reply = self._world.sync(message)
        self._world.after(self._world.network_s(), partial(self._take, reply))

    def _take(self, reply: SyncReply) -> None:
        if self._dead:
            return
        self._syncing = False
        lost = self._membership.epoch not in ("", reply.epoch)
        lease = self._membership.answered(self._now, reply)
        if lost or lease is None:
            self.hurry()
        if lease is not None:
            self._go_on(lease)
        if self._world.now >= self._due_at:
            self._sync_if_due()

    def _check(self) -> None:
        if self._dead:
            return
        away_until = None if self._failed_at is None else self._failed_at + CREDITS_TTL_S
        lease = self._membership.without(self._now, away_until)
        if lease is not None and lease != self._lease:
            self._go_on(lease)
        self._world.after(CHECK_S, self._check)

    def _go_on(self, lease: Lease) -> None:
        self._lease = lease
        self._world.run_.states.add(lease.state.value)
        self._scheduler.take_lease(self._now, LANE, lease)
        self._settle()


def worst_minute(sent: Sequence[Sent], window_s: float = 60.0) -> int:
    """Return the most requests that reached the provider in any window, which begins with one."""
    worst = begin = 0
    for end, last in enumerate(sent):
        while sent[begin].at <= last.at - window_s:
            begin += 1
        worst = max(worst, end - begin + 1)
    return worst
