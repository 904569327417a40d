"""Small models of rate-limited providers, and agents that ask them through the scheduler in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Protocol

from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Request, Usage, WindowKind, WindowReading

SPAN_S = 60.0


class Provider(Protocol):
    """Takes requests or refuses them."""

    def admit(self, now: float) -> bool:
        """Charge one request where it fits."""

    def reading(self, now: float) -> WindowReading:
        """What the headers of a reply say now."""

    def again_in_s(self, now: float) -> float:
        """Until one more request would fit."""


class FixedWindow:
    """So many requests in a minute that begins with the first request after the last minute was over."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._began = -math.inf
        self._used = 0

    def admit(self, now: float) -> bool:
        if now >= self._began + SPAN_S:
            self._began, self._used = now, 0
        if self._used >= self.limit:
            return False
        self._used += 1
        return True

    def reading(self, now: float) -> WindowReading:
        left_s = max(0.0, self._began + SPAN_S - now)
        return WindowReading(WindowKind.REQUESTS, self.limit, self.limit - (self._used if left_s else 0), left_s)

    def again_in_s(self, now: float) -> float:
        return max(0.0, self._began + SPAN_S - now)


class Bucket:
    """Refilled steadily; a reply states as its reset the moment the bucket would be full."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rate = limit / SPAN_S
        self._level = float(limit)
        self._at = 0.0

    def admit(self, now: float) -> bool:
        self._fill(now)
        if self._level < 1 - 1e-9:
            return False
        self._level -= 1
        return True

    def reading(self, now: float) -> WindowReading:
        self._fill(now)
        missing = self.limit - self._level
        return WindowReading(WindowKind.REQUESTS, self.limit, int(self._level + 1e-9), missing / self._rate)

    def again_in_s(self, now: float) -> float:
        self._fill(now)
        return max(0.0, 1 - self._level) / self._rate

    def _fill(self, now: float) -> None:
        self._level = min(float(self.limit), self._level + (now - self._at) * self._rate)
        self._at = now


@dataclass(frozen=True, slots=True)
class Traffic:
    """Agents that each ask `turns` times, `think_s` after the last answer, and answers that take so long."""

    agents: int
    turns: int
    think_s: float = 0.05
    latency_s: float = 0.08
    jitter_s: float = 0.05
    uplink_s: float = 0.005
    """A request reaches the provider after up to this long, so requests may overtake each other."""
    models: int = 1  # agents use them in turn
    stamped_late: bool = False
    """The headers tell of the moment the answer leaves rather than of the moment the request was admitted."""


@dataclass(slots=True)
class Result:
    """What came of it."""

    finished_at: list[float] = field(default_factory=list)
    refused_at: list[float] = field(default_factory=list)
    """Moments at which the provider answered 429."""
    dead: int = 0

    @property
    def wall_s(self) -> float:
        return max(self.finished_at)

    def between(self, start: float, end: float) -> int:
        return sum(start <= at < end for at in self.finished_at)


class Play:
    """Runs the traffic against the provider through a scheduler."""

    def __init__(self, provider: Provider, lane: LaneConfig, traffic: Traffic, seed: int = 1, *more: Provider) -> None:
        """`more` are what the other models take from; without, all take from the first."""
        self.result = Result()
        self.now = 0.0
        self._provider = provider
        self._providers = (provider, *more)
        self._traffic = traffic
        self._rng = Random(seed)
        self._scheduler = Scheduler(SchedulerConfig(), self._rng.random)
        self._scheduler.open_lane(0.0, "l", lane)
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._launched: dict[int, int] = {}
        self._turns: dict[str, int] = {}

    def run(self, until_s: float = math.inf) -> Result:
        for number in range(self._traffic.agents):
            self._at(0.0, self._asking(f"agent-{number}", self._traffic.turns))
        while True:
            wake = self._scheduler.wake_at()
            next_at = min(self._todo[0][0] if self._todo else math.inf, math.inf if wake is None else wake)
            if not self._turns and not self._todo:
                return self.result
            if next_at > until_s or math.isinf(next_at):
                return self.result
            self.now = max(self.now, next_at)
            if wake is not None and wake <= self.now:
                self._scheduler.advance(self.now)
            else:
                heappop(self._todo)[2]()
            self._settle()

    def also_ask(self, every_s: float, until_s: float) -> None:
        """Another client of the same key, whom the scheduler doesn't know, asks at this pace."""

        def ask() -> None:
            self._provider.admit(self.now)
            if self.now + every_s < until_s:
                self._at(self.now + every_s, ask)

        self._at(every_s, ask)

    def _at(self, at: float, what: Callable[[], None]) -> None:
        self._numbers += 1
        heappush(self._todo, (at, self._numbers, what))

    def _asking(self, agent: str, turns: int) -> Callable[[], None]:
        def ask() -> None:
            self._turns[agent] = turns
            model = f"m{int(agent.partition('-')[2]) % self._traffic.models}"
            ticket = self._scheduler.arrive(self.now, Request(agent, "l", model, model, 240, 400, False))
            if ticket.state is TicketState.IN_FLIGHT:
                self._launch(ticket)

        return ask

    def _settle(self) -> None:
        decided = list(self._scheduler.decisions)
        self._scheduler.decisions.clear()
        self._scheduler.events.clear()
        for ticket in decided:
            if ticket.state is TicketState.IN_FLIGHT:
                self._launch(ticket)
            elif ticket.refusal is not None:
                self._end(ticket)

    def _launch(self, ticket: Ticket) -> None:
        if self._launched.get(ticket.id) == ticket.attempts:
            return
        self._launched[ticket.id] = ticket.attempts
        traffic = self._traffic
        self._at(self.now + self._rng.uniform(0, traffic.uplink_s), lambda: self._reach(ticket))

    def _reach(self, ticket: Ticket) -> None:
        provider = self._providers[int(ticket.request.family[1:]) % len(self._providers)]
        admitted = provider.admit(self.now)
        reading, began = provider.reading(self.now), self.now
        wait_s = math.ceil(provider.again_in_s(self.now))
        if not admitted:
            self.result.refused_at.append(self.now)
        latency = self._traffic.latency_s + self._rng.uniform(-1, 1) * self._traffic.jitter_s if admitted else 0.005

        def reply() -> None:
            said = provider.reading(self.now) if self._traffic.stamped_late else _aged(reading, self.now - began)
            self._scheduler.headers(self.now, ticket, (said,))
            if admitted:
                self._scheduler.succeed(self.now, ticket, 200, Usage(60, 0, 0, 150))
                self.result.finished_at.append(self.now)
                self._end(ticket, answered=True)
            else:
                refused = Failure(FailureKind.RATE_LIMITED, True, 429, delay_s=wait_s)
                if self._scheduler.fail(self.now, ticket, refused) is None:
                    self._end(ticket)

        self._at(self.now + latency, reply)

    def _end(self, ticket: Ticket, *, answered: bool = False) -> None:
        agent = ticket.agent.name
        self._launched.pop(ticket.id, None)
        left = self._turns.pop(agent) - 1
        if not answered:
            self.result.dead += 1
        elif left:
            self._turns[agent] = left
            self._at(self.now + self._traffic.think_s, self._asking(agent, left))


def _aged(reading: WindowReading, by_s: float) -> WindowReading:
    """The same moment of reset, seen from a later one (as an absolute time in a header would be)."""
    assert reading.reset_in_s is not None
    return WindowReading(reading.kind, reading.limit, reading.remaining, max(0.0, reading.reset_in_s - by_s))
