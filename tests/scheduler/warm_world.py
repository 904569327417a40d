"""A provider with prompt caches and agents that work for hours, in virtual time: what an order of requests costs.

A model of a fleet of coding agents, as in the simulation that the order was designed by: prompts grow from 30 to 150
thousand tokens and are then compacted, the provider keeps each for five minutes from its last use, and a limit of
requests or input tokens makes the agents wait. The provider's caches and its account are the mock's.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from random import Random

from scheduler.driving import LANE

from benchmarks.planned.caches import AgentCaches, AgentFound
from benchmarks.planned.tally import cost
from hivemind.prices import prices_at
from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.warmth import CACHING, HOUR_S, STEP
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Request, Usage, WindowKind, WindowReading
from hivemind_mock.provider.cache import Prompt

MODELS = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-5-5"),
    "openai": ("gpt-5.1", "gpt-5-mini"),
    "google": ("gemini-3.8-flash", "gemini-2.5-flash"),
}
_KINDS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens")
prices = cache(prices_at)


@cache
def _price(kind: str, provider: str, model: str) -> float:
    """Dollars a token, by the library that the mock provider asks."""
    counts = dict.fromkeys(_KINDS, 0) | {kind: 100_000}
    if kind.startswith("cache_"):
        counts["input_tokens"] = 100_000
    if kind == "cache_write_1h_tokens":
        counts["cache_write_tokens"] = 100_000
    dollars = cost("openai_chat" if provider == "openai" else provider, model, counts)
    assert dollars is not None
    return dollars / 100_000


@dataclass
class Worker:
    """One agent and its prompt."""

    name: str
    prompt: float
    thinks_s: list[float]
    grows: list[float]
    answers: list[float]
    sent: Prompt = field(default_factory=Prompt)
    done: int = 0
    since: float = 0.0  # when its client first sent the present request
    model: str = ""

    def asks(self, kept_s: float, step: int) -> Prompt:
        """Return its present prompt, as far as it is whole steps of tokens. It begins with the one before unless that
        was compacted."""
        size = round(self.prompt) // step * step
        if size * 4 < self.sent.size_chars:
            self.sent = Prompt()
        ends = self.sent.ends[:]
        prompt = Prompt(ends, {}, self.sent.size_chars)
        prompt.add((self.name, self.done), size * 4 - prompt.size_chars, kept_s)
        self.sent = prompt
        return prompt


@dataclass
class World:
    """The whole; :meth:`run` returns it with its figures."""

    seed: int
    rpm: float = 0.0
    itpm: float = 0.0
    agents: int = 20
    provider: str = "anthropic"
    requests: int = 50
    sizes: tuple[float, float, float] = (30e3, 60e3, 150e3)
    """Tokens of the first prompts, from and to, and at which they are compacted."""
    hour: float = 0.0
    """Share of agents whose prompts are kept for an hour."""
    switches: float = 0.0
    """Share of requests that go to another model than the one before."""
    dollars: float = field(default=0.0, init=False)
    minutes: float = field(default=0.0, init=False)
    written_again: int = field(default=0, init=False)
    waits: list[float] = field(default_factory=list, init=False)
    """Of each try, to its grant or refusal."""
    refused: int = field(default=0, init=False)
    limited: int = field(default=0, init=False)
    """Attempts that the provider refused because of its limit."""
    account: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float), init=False)
    """The provider's: dollars by agent and by why they wouldn't have been spent, if prompts had been read."""
    ledger: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float), init=False)
    """The scheduler's, and what it takes all requests to have cost."""

    def run(self) -> World:
        draw = Random(self.seed)
        low, high, _ = self.sizes
        prompts = [draw.uniform(low, high) for _ in range(self.agents)]
        thinks = [[draw.lognormvariate(3.6, 0.9) for _ in range(4000)] for _ in prompts]
        grows = [[draw.uniform(500, 3000) for _ in range(4000)] for _ in prompts]
        answers = [[draw.uniform(200, 1500) for _ in range(4000)] for _ in prompts]
        names, self._caching = map(str, range(self.agents)), CACHING[self.provider]
        self._workers = [Worker(*each) for each in zip(names, prompts, thinks, grows, answers, strict=True)]
        self._draw, self._left, self._left_at = draw, self.itpm, 0.0
        self._caches, self._choose = AgentCaches(), Random(-1 - self.seed)
        self._scheduler = Scheduler(SchedulerConfig(), lambda: 0.0)
        self._scheduler.open_lane(
            0.0,
            LANE,
            LaneConfig(
                *("up", self.provider, 8, int(self.rpm), int(self.itpm)), rpm_binding=True, count_cache_reads=False
            ),
        )
        self._heap: list[tuple[float, int, str, Worker | tuple[Ticket, Usage, AgentFound]]] = []
        self._numbers, now = 0, 0.0
        for worker in self._workers:
            worker.model = MODELS[self.provider][0]
            self._at(draw.uniform(0, 60), "first sends", worker)
        while self._heap or any(worker.done < self.requests for worker in self._workers):
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
            for event in self._scheduler.events:
                self._told(event)
            self._scheduler.events.clear()
            if any(worker.done < self.requests for worker in self._workers):
                self.minutes = now / 60
        return self

    def _at(self, at: float, what: str, about: Worker | tuple[Ticket, Usage, AgentFound]) -> None:
        self._numbers += 1
        heapq.heappush(self._heap, (at, self._numbers, what, about))

    def _happens(self, now: float, what: str, about: Worker | tuple[Ticket, Usage, AgentFound]) -> None:
        if isinstance(about, Worker):
            if what == "first sends":
                about.since = now
                if self.switches and self._choose.random() < self.switches:
                    first, second = MODELS[self.provider]
                    about.model = second if about.model == first else first
            size, waited_s = round(about.prompt) * 4, now - about.since
            request = Request(about.name, LANE, about.model, "m", size, None, True, waited_s=waited_s)
            ticket = self._scheduler.arrive(now, request)
            ticket.tag = about
            if ticket.state is not TicketState.QUEUED:
                self._decided(now, ticket)
            return
        ticket, usage, found = about
        if what == "begins":
            self._refill(now)
            if self.itpm:
                reading = WindowReading(
                    WindowKind.INPUT, int(self.itpm), int(self._left), (self.itpm - self._left) * 60 / self.itpm
                )
                self._scheduler.headers(now, ticket, (reading,))
            self._caches.keep(now, found)
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
        hour = int(worker.name) < self.hour * self.agents
        before = worker.sent
        automatic = self._caching.automatic
        prompt = worker.asks(HOUR_S if hour else self._caching.kept_s, STEP if automatic else 1)
        where = "key", worker.model
        found = self._caches.look_for(worker.name, now, where, prompt)
        new, answer = round(worker.prompt) - found.read, worker.answers[worker.done]
        self._refill(now)
        if self.itpm and self._left < 0.9 * min(new, self.itpm) - 1:
            self.limited += 1
            worker.sent = before
            wait_s = (min(new, self.itpm) - self._left) * 60 / self.itpm
            self._scheduler.fail(now, ticket, Failure(FailureKind.RATE_LIMITED, True, 429, wait_s))
            self.waits.pop()
            return
        self._left = max(0.0, self._left - new)
        self.written_again += found.lost > 0
        written = 0 if automatic else found.written  # in their usage writes aren't told from other input
        usage = Usage(new - written, found.read, written, int(answer), found.written_1h if written else 0)
        self._book(worker, usage, found, self._caches.look_for(worker.name, worker.since, where, prompt))
        first_s = 1 + new * 2e-5
        self._at(now + first_s, "begins", (ticket, usage, found))
        self._at(now + first_s + answer * 0.012, "ends", (ticket, usage, found))
        worker.prompt += worker.grows[worker.done]
        worker.done += 1
        if worker.prompt > self.sizes[2]:
            worker.prompt = self._draw.uniform(self.sizes[0], self.sizes[0] * 4 / 3)

    def _book(self, worker: Worker, usage: Usage, found: AgentFound, when_sent: AgentFound) -> None:
        """Enter what a request costs, and what it wouldn't have, in the provider's account."""
        written = (
            ("cache_write_1h" if usage.cache_write_1h_tokens else "cache_write")
            if usage.cache_write_tokens
            else "input"
        )
        kinds = "cache_read_tokens", f"{written}_tokens", "output_tokens"
        read, write, output = (_price(kind, self.provider, worker.model) for kind in kinds)
        new = usage.cache_write_tokens + usage.input_tokens
        self.dollars += usage.cache_read_tokens * read + new * write + usage.output_tokens * output
        self.account[worker.name, "switched"] += found.switched * (write - read)
        why = "waited" if when_sent.read > found.read else "thought"
        self.account[worker.name, why] += found.lost * (write - read)

    def _told(self, event: ev.Event) -> None:
        if isinstance(event, ev.PromptCached):
            self.ledger[event.agent, event.why] += event.dollars(self.provider, prices())
        elif isinstance(event, ev.Finished) and event.usage is not None:
            self.ledger["", "spent"] += prices()(self.provider, event.model, event.usage) or 0.0
