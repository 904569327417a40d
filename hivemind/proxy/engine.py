"""The scheduler on a live event loop: it gets the time, its timers are set, its decisions reach whoever waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hivemind.agent_names import BadName, KnownNames, normalised
from hivemind.providers.base import Limits
from hivemind.proxy.day_clock import Days
from hivemind.redaction.text import redact
from hivemind.scheduler.agents import Agents
from hivemind.scheduler.commands import Command, Drain, Rejected
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.events import BudgetState, Event
from hivemind.scheduler.ledger.accounts import Account
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.tasks.graph import Tasks
from hivemind.scheduler.ticket import Agent, Ticket, TicketState
from hivemind.scheduler.types import Failure, Price, Request, Usage
from hivemind.store.ledger import Ledger
from hivemind.store.store import Store
from hivemind.wire.command_names import fit_to_show, spelled
from hivemind.world.request_view import RequestDetail, Requests
from hivemind.world.snapshot import Snapshot
from hivemind.world.world import World

SAMPLE_EVERY_S = 1.0
"""Between two samples of every lane's gauges."""


class Engine:
    """One scheduler, the loop's clock, and the fold that the screen reads.

    Created on a running loop. Every method is called from that loop and returns at once. `wall` is the time of day in
    seconds since the epoch; what `store` holds is where it begins, and what changes goes there.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        rng: random.Random,
        world: Callable[[float], World],
        wall: Callable[[], float],
        store: Store | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._scheduler = Scheduler(config, rng.random)
        self.world = world(self._time())
        self.watched: dict[type[Event], Callable[[Any], None]] = {}
        """Called with each event of that very type, after the fold has heard of it; may look, but change nothing."""
        self.record: Callable[[Sequence[Event]], object] | None = None
        """Called with what each step brings about, before the fold hears of it, for a journal."""
        self._ending = False
        self._wall = wall
        self._days = Days(wall(), self._time(), "" if store is None else store.day)
        self.ledger = None if store is None else Ledger(self._scheduler, store, wall, self._days.last)
        """None: nothing outlives the proxy."""
        self.names = KnownNames(self._is_called)
        """The spellings of all agents that are known."""
        agents, tasks = self._scheduler.agents, self._scheduler.tasks
        for name in (*agents, *agents.past, *(task.agent for task in tasks.values())):
            self.names.add(name)
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at: float | None = None
        self._sampler = self._loop.call_later(SAMPLE_EVERY_S, self._sample_again)

    def price_by(self, price: Price) -> None:
        """Prices are known from now on, for what was used before too."""
        self.world.price_by(price)
        self._scheduler.price_by(price, self._time())
        self._settle()

    @property
    def counts_dollars(self) -> bool:
        """Some budget is in dollars, or each new agent's is."""
        if self._scheduler.config.budget.dollars is not None:
            return True
        return any(state.dollars is not None for state in self._scheduler.budgets())

    def now(self) -> float:
        """The moment, on the clock of every event."""
        return self._time()

    def agent(self, name: str) -> Agent | None:
        """The agent of that name, if it is known."""
        return self._scheduler.agents.get(name)

    @property
    def pool(self) -> Account:
        """The books of all agents together, to be read."""
        return self._scheduler.pool

    def covered(self, state: BudgetState) -> list[Agent]:
        """The agents whose requests that budget is charged with."""
        if state.owner is None:
            return self._at_hand(self._scheduler.pool)
        agent = self.agent(state.owner)
        if agent is None:
            return []
        return [agent] if state.covers == "agent" else self._at_hand(agent.tree)

    def _at_hand(self, account: Account) -> list[Agent]:
        return [agent for name in account.members if (agent := self.agent(name)) is not None]

    @property
    def books(self) -> tuple[Agents, Account]:
        """Every agent and the account of all together, to be read."""
        return self._scheduler.agents, self._scheduler.pool

    @property
    def tasks(self) -> Tasks:
        """The graph, to be read."""
        return self._scheduler.tasks

    def open_lane(self, key: str, config: LaneConfig) -> None:
        """Make the lane known; cheap when it is."""
        if key not in self._scheduler.lanes:
            self._scheduler.open_lane(self._time(), key, config)
            self._settle()

    def arrive(self, request: Request) -> Ticket:
        """A request came in; its ticket may fly already, wait, or be turned away."""
        ticket = self._scheduler.arrive(self._time(), request)
        self._settle()
        return ticket

    async def granted(self, ticket: Ticket) -> None:
        """Wait until the ticket no longer waits: it flies, or was turned away."""
        if not ticket.waiting:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        ticket.tag = waiter
        try:
            await waiter
        finally:
            ticket.tag = None

    def headers(self, ticket: Ticket, limits: Limits) -> None:
        """What a reply said of the rate limits; call before the attempt's end is told."""
        if limits.readings or limits.plan:
            self._scheduler.headers(self._time(), ticket, limits.readings, limits.plan)

    def first_content(self, ticket: Ticket, so_far: Usage | None = None) -> None:
        """The first content of the answer came; usage as in :meth:`progress`."""
        self._scheduler.first_content(self._time(), ticket, so_far)
        self._settle()

    def progress(self, ticket: Ticket, output_tokens: int, so_far: Usage | None = None) -> None:
        """A stream goes on, with so many output tokens so far, and this usage as far as it is known."""
        self._scheduler.progress(self._time(), ticket, output_tokens, so_far)
        self._settle()

    def succeed(self, ticket: Ticket, status: int, usage: Usage | None) -> None:
        """The answer is complete."""
        self._scheduler.succeed(self._time(), ticket, status, usage)
        self._settle()

    def fail(self, ticket: Ticket, failure: Failure, usage: Usage | None = None) -> bool:
        """Returns whether the ticket waits for another attempt."""
        # Its words are the upstream's, which may quote what it was shown.
        failure = replace(failure, message=redact(failure.message))
        retry_at = self._scheduler.fail(self._time(), ticket, failure, usage)
        self._settle()
        return retry_at is not None

    def abandon(self, ticket: Ticket, usage: Usage | None = None, *, sent: bool = True) -> None:
        """The client left, or the attempt was ended; `sent` False: before anything had reached the upstream."""
        self._scheduler.abandon(self._time(), ticket, usage, sent=sent)
        self._settle()

    def apply(self, command: Command, who: str) -> None:
        """Carry out an operator's command.

        Raises: Rejected.
        """
        if self._ending and isinstance(command, Drain) and not command.draining:
            raise Rejected("the proxy is shutting down, which can't be taken back")
        command = spelled(command, self.names, self._is_called)
        try:
            self._scheduler.apply(self._time(), fit_to_show(command), who)
        finally:
            self._sample()

    def spelling(self, name: str) -> str:
        """The name under which an agent is known, of whatever spelling of it; the same where it isn't."""
        if self._is_called(name):
            return name
        try:
            return self.names.find(normalised(name)) or name
        except BadName:
            return name

    def _is_called(self, name: str) -> bool:
        """Whether an agent has this very name."""
        scheduler = self._scheduler
        return name in scheduler.agents or name in scheduler.agents.past or bool(scheduler.tasks.of_agent(name))

    def tell(self, event: Event) -> None:
        """Something else happened than the scheduler knows of."""
        self._scheduler.events.append(event)
        self._settle()

    def drain(self) -> None:
        """For the end: grant nothing more; whoever waits is turned away."""
        self._ending = True
        self.world.end()
        self._scheduler.drain(self._time())
        self._settle()

    def snapshot(self) -> Snapshot:
        """The world at this moment."""
        self._sample()
        return self.world.snapshot(self._time())

    def health(self) -> tuple[str, float]:
        """As :attr:`World.mode`, and for how many seconds it has been up."""
        return self.world.mode, self.world.uptime_s(self._time())

    def requests(self, since: int) -> Requests:
        """What changed among the requests after that revision."""
        return self.world.requests(since, self._time())

    def detail(self, ticket: int) -> RequestDetail | None:
        """What the events tell of one request; None where it is forgotten."""
        return self.world.detail(ticket, self._time())

    async def settled(self) -> None:
        """Until what happened so far would survive a crash, where anything does."""
        if self.ledger is not None:
            await self.ledger.settled()

    def close(self) -> None:
        """Let go of the timers."""
        if self.ledger is not None:
            self.ledger.close()
        self._sampler.cancel()
        if self._wake is not None:
            self._wake.cancel()

    def _sample(self) -> None:
        self._scheduler.events.append(self._scheduler.sample(self._time()))
        self._settle()

    def _sample_again(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_EVERY_S, self._sample_again)
        self._turn_day()
        self._sample()

    def _turn_day(self) -> None:
        """Notice midnight, local time."""
        if self._days.look(self._wall(), self._time()):
            self._scheduler.begin_period(self._time(), "day")
            if self.ledger is not None:
                self.ledger.day = self._days.last

    def _advance(self) -> None:
        self._wake = self._wake_at = None
        # A timer may fire a clock tick early; the scheduler only acts on what is due.
        self._scheduler.advance(self._time())
        self._settle()

    def _settle(self) -> None:
        """Hand on what the last call brought about."""
        scheduler = self._scheduler
        if self.record is not None and scheduler.events:
            self.record(scheduler.events)
        for event in scheduler.events:
            self.world.apply(event)
            watcher = self.watched.get(type(event))
            if watcher is not None:
                watcher(event)
        scheduler.events.clear()
        for ticket in scheduler.decisions:
            tag = ticket.tag
            if isinstance(tag, asyncio.Future):
                if not tag.done():
                    tag.set_result(None)
            elif ticket.refusal is not None and ticket.state is TicketState.IN_FLIGHT and callable(tag):
                tag()
        scheduler.decisions.clear()
        if self.ledger is not None:
            self.ledger.look()
        at = scheduler.wake_at()
        if at != self._wake_at:
            self._set_wake(at)

    def _set_wake(self, at: float | None) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = at
        self._wake = None if at is None else self._loop.call_at(max(at, self._time()), self._advance)
