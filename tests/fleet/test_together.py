"""Schedulers, memberships and the allocator in virtual time: what a whole fleet lets through."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fleet.lua import State, sync

from hivemind.fleet.member import Membership
from hivemind.fleet.messages import IDLE_SYNC_S, KICK_APART_S, SYNC_S
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority, Request

LANE = "up/1"
BEGAN = 1000.0


class World:
    """A clock, the store, and every request that was sent."""

    def __init__(self, config: LaneConfig, agents: list[int], *, priority: Priority | None = None) -> None:
        """So many agents at each proxy, each of which sends its next request when it has got an answer."""
        self.now = BEGAN
        self.state: State | None = None
        self.sent: list[float] = []
        self._steps: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.proxies = [Proxy(self, f"p{n}", config) for n in range(len(agents))]
        for proxy, count in zip(self.proxies, agents, strict=True):
            for n in range(count):
                self.begin(proxy, f"{proxy.name}-{n}", priority)

    def begin(self, proxy: Proxy, name: str, priority: Priority | None = None, *, pause_s: float = 0.0) -> None:
        agent = Agent(name, priority, pause_s, random.Random(name))
        self.at(self.now + agent.rng.random(), lambda: proxy.send(agent))

    def at(self, when: float, step: Callable[[], None]) -> None:
        heapq.heappush(self._steps, (when, next(self._numbers), step))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._steps[0][0] <= until:
            when, _, step = heapq.heappop(self._steps)
            self.now = max(self.now, when)
            step()
        self.now = until

    def worst(self) -> int:
        """The most requests in any 60 seconds."""
        within: deque[float] = deque()
        most = 0
        for at in self.sent:
            within.append(at)
            while within[0] <= at - 60:
                within.popleft()
            most = max(most, len(within))
        return most


@dataclass(eq=False)
class Agent:
    name: str
    priority: Priority | None
    pause_s: float
    """Between an answer and the next request."""
    rng: random.Random


class Proxy:
    """A scheduler under leases, and what syncs it."""

    def __init__(self, world: World, name: str, config: LaneConfig) -> None:
        self.name = name
        self.waits: list[float] = []
        self.sent = 0
        self._world = world
        self._scheduler = Scheduler(SchedulerConfig(), random.Random(name).random)
        self._scheduler.leasing = True
        self._scheduler.open_lane(world.now, LANE, config)
        self._membership = Membership(name)
        self._agents: dict[int, Agent] = {}
        self._synced_at = -1.0
        self._due_at = self._wake_at = -1.0
        self.sync_at(world.now)

    def send(self, agent: Agent) -> None:
        request = Request(agent.name, LANE, "m", "m", 400, None, True, priority=agent.priority)
        ticket = self._scheduler.arrive(self._world.now, request)
        self._agents[ticket.id] = agent
        if ticket.state is TicketState.IN_FLIGHT:
            self._answer(ticket)
        self._settle()

    def sync_at(self, at: float) -> None:
        at = max(at, self._synced_at + KICK_APART_S, self._world.now)
        if not self._world.now <= self._due_at <= at:
            self._due_at = at
            self._world.at(at, lambda: self._sync(at))

    def _sync(self, at: float) -> None:
        if self._due_at != at:
            return
        world, now = self._world, self._world.now
        self._synced_at, self._due_at = now, -1.0
        told = self._scheduler.lease_report(now, LANE)
        assert told is not None
        self._membership.add(now, told)
        world.state, reply = sync(world.state, self._membership.report(now), now, "0" * 16)
        lease = self._membership.answered(now, reply)
        assert lease is not None
        self._scheduler.take_lease(now, LANE, lease)
        self._settle()
        self.sync_at(now + (SYNC_S if any(told.flying) or any(told.waiting) else IDLE_SYNC_S))
        for other in world.proxies:
            if other.name in reply.kick:
                other.sync_at(now + 0.001)

    def _settle(self) -> None:
        scheduler, world = self._scheduler, self._world
        for ticket in scheduler.decisions:
            assert ticket.refusal is None
            self._answer(ticket)
        scheduler.decisions.clear()
        scheduler.events.clear()
        if scheduler.short:
            scheduler.short.clear()
            self.sync_at(world.now)
        wake = scheduler.wake_at()
        if wake is not None and wake != self._wake_at:
            self._wake_at = wake
            world.at(wake, lambda: self._wake(wake))

    def _wake(self, at: float) -> None:
        if self._wake_at == at:
            self._wake_at = -1.0
            self._scheduler.advance(self._world.now)
            self._settle()

    def _answer(self, ticket: Ticket) -> None:
        world, agent = self._world, self._agents.pop(ticket.id)
        world.sent.append(world.now)
        self.sent += 1
        self.waits.append(world.now - ticket.arrived_at)

        def answered() -> None:
            self._scheduler.succeed(world.now, ticket, 200, None)
            self._settle()
            world.at(world.now + agent.rng.random() * 2 * agent.pause_s, lambda: self.send(agent))

        world.at(world.now + agent.rng.uniform(0.7, 1.3), answered)


def limited(*, rpm: int = 0, slots: int = 0) -> LaneConfig:
    return LaneConfig("up", "generic", max_concurrency=slots, rpm=rpm, tpm=0, rpm_binding=bool(rpm))


@pytest.mark.slow
def test_a_rate_limit_is_used_up_and_shared_by_agents() -> None:
    """All of it, never more in any minute, and by the number of agents that want it."""
    world = World(limited(rpm=300), [30, 15, 5])
    world.run(185.0)
    assert world.worst() <= 300
    assert len(world.sent) >= 0.97 * 900
    shares = [proxy.sent / len(world.sent) for proxy in world.proxies]
    assert shares == pytest.approx([0.6, 0.3, 0.1], abs=0.02)


def test_demand_that_moves_finds_what_others_kept() -> None:
    """Credits and slots go to who wants them within a sync or two."""
    world = World(limited(rpm=6000, slots=12), [12, 0, 0])
    world.run(20.0)
    alone = world.proxies[0].sent
    for n in range(12):
        world.begin(world.proxies[1], f"late-{n}")
    world.run(20.0)
    assert alone / 20 > 9
    assert world.proxies[1].sent / 20 == pytest.approx(6.0, abs=0.7)


def test_urgent_requests_pass_those_of_other_proxies() -> None:
    """CRITICAL at a proxy that has nothing else waits for a slot that comes free, not for its turn."""
    world = World(limited(slots=10), [0, 40, 40], priority=Priority.LOW)
    world.begin(world.proxies[0], "urgent", Priority.CRITICAL, pause_s=1.0)
    world.run(90.0)
    waits = sorted(world.proxies[0].waits)
    assert len(waits) > 25
    assert waits[int(0.95 * len(waits))] < 1.0


def test_nothing_waits_while_there_is_enough() -> None:
    """Once each knows what requests take, spare credits are there before they come."""
    world = World(limited(rpm=600, slots=50), [0, 0, 0])
    for proxy in world.proxies:
        for n in range(5):
            world.begin(proxy, f"{proxy.name}-{n}", pause_s=5.0)
    world.run(20.0)
    for proxy in world.proxies:
        proxy.waits.clear()
    world.run(60.0)
    assert all(not any(proxy.waits) and len(proxy.waits) > 30 for proxy in world.proxies)
