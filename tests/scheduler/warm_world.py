"""A provider with prompt caches and agents that work for hours, in virtual time: what an order of requests costs.

A model of a fleet of coding agents, as in the simulation that the order was designed by: prompts grow from 30 to 150
thousand tokens and are then compacted, the provider keeps each for five minutes from its last use, and a limit of
requests or input tokens makes the agents wait.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from random import Random

from scheduler.driving import LANE

from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Request, Usage, WindowKind, WindowReading

KEPT_S = 300.0
READ, WRITE, INPUT, OUTPUT = 0.05, 1.25, 2e-6, 10e-6  # prices: parts of that of input, and dollars a token


@dataclass
class Worker:
    """One agent, its prompt, and what the provider has of it."""

    prompt: float
    thinks_s: list[float]
    grows: list[float]
    answers: list[float]
    cached: float = 0.0
    until: float = -1.0
    done: int = 0
    since: float = 0.0  # when its client first sent the present request


@dataclass
class World:
    """The whole; :meth:`run` returns it with its figures."""

    seed: int
    rpm: float = 0.0
    itpm: float = 0.0
    agents: int = 20
    requests: int = 50
    dollars: float = 0.0
    minutes: float = 0.0
    written_again: int = 0
    waits: list[float] = field(default_factory=list)
    """Of each try, to its grant or refusal."""
    refused: int = 0
    limited: int = 0
    """Attempts that the provider refused because of its limit."""

    def run(self) -> World:
        draw = Random(self.seed)
        prompts = [draw.uniform(30e3, 60e3) for _ in range(self.agents)]
        thinks = [[draw.lognormvariate(3.6, 0.9) for _ in range(4000)] for _ in prompts]
        grows = [[draw.uniform(500, 3000) for _ in range(4000)] for _ in prompts]
        answers = [[draw.uniform(200, 1500) for _ in range(4000)] for _ in prompts]
        self._workers = [Worker(*each) for each in zip(prompts, thinks, grows, answers, strict=True)]
        self._draw, self._left, self._left_at = draw, self.itpm, 0.0
        self._scheduler = Scheduler(SchedulerConfig(), lambda: 0.0)
        self._scheduler.open_lane(
            0.0,
            LANE,
            LaneConfig(
                *("up", "anthropic", 8, int(self.rpm), int(self.itpm)),
                rpm_binding=True,
                count_cache_reads=False,
            ),
        )
        self._heap: list[tuple[float, int, str, Worker | tuple[Ticket, Usage]]] = []
        self._numbers, now = 0, 0.0
        for worker in self._workers:
            self._at(draw.uniform(0, 60), "first sends", worker)
        while any(worker.done < self.requests for worker in self._workers):
            wake_at = self._scheduler.wake_at()
            if wake_at is not None and (not self._heap or wake_at < self._heap[0][0]):
                now = max(now, wake_at)
                self._scheduler.advance(now)
            else:
                now, _, what, about = heapq.heappop(self._heap)
                self._happens(now, what, about)
            decisions, self._scheduler.decisions = self._scheduler.decisions[:], []
            for ticket in decisions:
                self._decided(now, ticket)
            self._scheduler.events.clear()
        self.minutes = now / 60
        return self

    def _at(self, at: float, what: str, about: Worker | tuple[Ticket, Usage]) -> None:
        self._numbers += 1
        heapq.heappush(self._heap, (at, self._numbers, what, about))

    def _happens(self, now: float, what: str, about: Worker | tuple[Ticket, Usage]) -> None:
        if isinstance(about, Worker):
            if what == "first sends":
                about.since = now
            name = str(self._workers.index(about))
            size, waited_s = round(about.prompt * 4), now - about.since
            request = Request(name, LANE, "m", "m", size, None, True, waited_s=waited_s)
            ticket = self._scheduler.arrive(now, request)
            ticket.tag = about
            if ticket.state is not TicketState.QUEUED:
                self._decided(now, ticket)
            return
        ticket, usage = about
        if what == "begins":
            self._refill(now)
            if self.itpm:
                reading = WindowReading(
                    WindowKind.INPUT, int(self.itpm), int(self._left), (self.itpm - self._left) * 60 / self.itpm
                )
                self._scheduler.headers(now, ticket, (reading,))
            self._scheduler.first_content(now, ticket, usage.with_output(1))
            return
        self._scheduler.succeed(now, ticket, 200, usage)
        worker = ticket.tag
        if worker.done < self.requests:
            self._at(now + worker.thinks_s[worker.done], "first sends", worker)

    def _refill(self, now: float) -> None:
        self._left = min(self.itpm, self._left + (now - self._left_at) * self.itpm / 60)
        self._left_at = now

    def _decided(self, now: float, ticket: Ticket) -> None:
        worker: Worker = ticket.tag
        self.waits.append(now - ticket.arrived_at)
        if ticket.refusal is not None:
            self.refused += 1
            self._at(now + (ticket.refusal.retry_after_s or 0.0), "sends again", worker)
            return
        read = worker.cached if worker.until > now else 0.0
        new, answer = worker.prompt - read, worker.answers[worker.done]
        self._refill(now)
        if self.itpm and self._left < 0.9 * min(new, self.itpm) - 1:
            self.limited += 1
            wait_s = (min(new, self.itpm) - self._left) * 60 / self.itpm
            self._scheduler.fail(now, ticket, Failure(FailureKind.RATE_LIMITED, True, 429, wait_s))
            self.waits.pop()
            return
        self._left = max(0.0, self._left - new)
        self.written_again += worker.cached > 0 and not read
        self.dollars += (read * READ + new * WRITE) * INPUT + answer * OUTPUT
        worker.cached, worker.until = worker.prompt, now + KEPT_S
        first_s = 1 + new * 2e-5
        usage = Usage(0, int(read), int(new), int(answer))
        self._at(now + first_s, "begins", (ticket, usage))
        self._at(now + first_s + answer * 0.012, "ends", (ticket, usage))
        worker.prompt += worker.grows[worker.done]
        worker.done += 1
        if worker.prompt > 150e3:
            worker.prompt, worker.cached = self._draw.uniform(30e3, 40e3), 0.0
