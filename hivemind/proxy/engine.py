"""The scheduler on a live event loop: passes it the time, sets its timers, wakes the requests it grants."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from hivemind.agent_names import BadName, KnownNames, normalised
from hivemind.providers.base import Limits
from hivemind.proxy.day_clock import DayClock
from hivemind.records import replace
from hivemind.redaction.text import redact
from hivemind.scheduler import invariants
from hivemind.scheduler.accounts import Account
from hivemind.scheduler.admission.retry import backoff_s
from hivemind.scheduler.commands import Command, Conflict, Drain
from hivemind.scheduler.config import LaneConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import BudgetState, Event, Noticed, Prefill
from hivemind.scheduler.invariants import Violation
from hivemind.scheduler.lease import LaneReport, Lease
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.shared_budgets import BudgetsLease, BudgetsReport, SharedBudgets
from hivemind.scheduler.ticket import Agent, Ticket
from hivemind.scheduler.types import Computed, Failure, Price, Request, Usage
from hivemind.scheduler.work import Kind
from hivemind.store.ledger import LedgerStore
from hivemind.store.store import Store
from hivemind.wire.command_names import fit_to_show, spelled
from hivemind.world.snapshot import Alarm, RequestDetail, Requests, Snapshot
from hivemind.world.world import World

SAMPLE_EVERY_S = 1.0
"""Between two samples of every lane's gauges."""
MOST_NOTICES = 40


class Server(Protocol):
    """What serves a request: the tag of its ticket from its first step to its end."""

    @property
    def without_task(self) -> bool:
        """Whether it has no task of its own at this moment."""

    def decided(self) -> None:
        """Go on: the scheduler has granted or refused the request."""


class _Unattended(Struct, frozen=True):
    """Serves a request whose reply is over, but not the work that it began."""

    engine: Engine
    ticket: Ticket
    without_task: bool = False

    def decided(self) -> None:
        asyncio.get_running_loop().call_soon(self.engine.abandon, self.ticket)


class FleetWorks(Protocol):
    """What is used of :class:`hivemind.fleet.works.Works`."""

    def begun(self, names: Sequence[str], agent: str) -> None: ...
    def claim(self, names: Sequence[str], then: Callable[[bool, str], object], *, sure: bool) -> None: ...


class Hooks(Struct):
    """What an engine calls when something has happened."""

    watched: dict[type[Event], Callable[[Any], object]] = field(default_factory=dict)
    """Callbacks by event type, called when the world's views show the event; they may read, but change nothing."""
    record: Callable[[Sequence[Event]], object] | None = None
    """Called with each step's events, before the world applies them, for a journal."""
    lane_opened: Callable[[str, LaneConfig], object] | None = None
    lease_short: Callable[[str], object] | None = None
    """Called with a lane whose report the other proxies should get at once: something waits there for want of a
    lease, or was met that concerns them all. Called once a report."""
    decided: Callable[[Command], object] | None = None
    """Called with each command that was carried out."""
    works: FleetWorks | None = None
    """Decides which proxy of a fleet books what work used; None: there are no others."""


class Engine:
    """One scheduler, the loop's clock, and the world that the screen reads.

    Created on a running loop. Every method is called from that loop and returns at once. `wall` is the time of day in
    seconds since the epoch; `store` holds the initial state, and gets every change. `hooks` are filled in before the
    first request. Without `price` no dollars are counted.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        rng: random.Random,
        world: Callable[[float], World],
        wall: Callable[[], float],
        store: Store | None = None,
        *,
        hooks: Hooks,
        price: Price | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._draw = rng.random
        self._scheduler = Scheduler(config, rng.random)
        self._scheduler.joins = True
        self.agents = self._scheduler.agents
        """Every agent; read-only."""
        self.pool = self._scheduler.pool
        """The account of all agents together; read-only."""
        self.tasks = self._scheduler.tasks
        """The graph of tasks; read-only."""
        self.hooks = hooks
        self._stalls = invariants.Stalls(self._scheduler)
        self._world = world(self._time())
        self.batches = False
        """Requests are served in quick succession, so what they bring is published once a turn of the event loop."""
        self._unpublished = False  # something is published at the end of this turn
        if price is not None:
            self.price_by(price)
        self._ending = False
        self._noticed: set[str] = set()
        self._wall = wall
        self._note_clock()
        self._day_clock = DayClock(wall(), self._time(), "" if store is None else store.day)
        self.ledger = None if store is None else LedgerStore(self._scheduler, store, wall, self._day_clock.last)
        """Persistent books; None where nothing outlives the proxy."""
        self.names = KnownNames(self._is_called)
        """The spellings of all known agents."""
        for name in (*self.agents, *self.agents.past, *(task.agent for task in self.tasks.values())):
            self.names.add(name)
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at: float | None = None
        self._sampler = self._loop.call_later(SAMPLE_EVERY_S, self._sample_again)

    @property
    def world(self) -> World:
        """The views of everything that has happened."""
        if self._unpublished:
            self._settle()
        return self._world

    def price_by(self, price: Price) -> None:
        """Price everything used from now on."""
        self.world.price_by(price)
        self._scheduler.ledger.price_by(price)

    def now(self) -> float:
        """Return the time on the clock of every event."""
        return self._time()

    def find(self, name: str) -> Agent | None:
        """Return the agent of that name in any spelling, also one that isn't at hand any more; None: it isn't known."""
        return self.agents.find(self.spelling(name))

    def covered(self, state: BudgetState) -> list[Agent]:
        """Return the agents whose requests are charged to a budget."""
        if state.owner is None:
            return self._at_hand(self.pool)
        agent = self.agents.get(state.owner)
        if agent is None:
            return []
        return [agent] if state.covers == "agent" else self._at_hand(agent.tree)

    def _at_hand(self, account: Account) -> list[Agent]:
        return [agent for name in account.members if (agent := self.agents.get(name)) is not None]

    @property
    def arrived(self) -> int:
        """Number of requests so far, those that cost nothing left out."""
        return self._scheduler.arrived

    def open_lane(self, key: str, config: LaneConfig) -> None:
        """Open a lane unless it is open; cheap when it is."""
        if key not in self._scheduler.lanes:
            lane = self._scheduler.open_lane(self._time(), key, config)
            self._settle()
            if self.hooks.lane_opened is not None:
                self.hooks.lane_opened(key, lane.config)

    def reconfigure(self, config: LaneConfig) -> None:
        """Have the lanes of an upstream go on by another configuration."""
        self._scheduler.reconfigure(self._time(), config)
        self._settle()

    def need_leases(self) -> None:
        """Have lanes that are opened from now on grant nothing without a lease, because other proxies use the same
        credentials."""
        self._scheduler.leasing = True

    def take_lease(self, key: str, lease: Lease) -> None:
        """Have a lane go on under this lease (:meth:`Scheduler.take_lease`)."""
        self._scheduler.take_lease(self._time(), key, lease)
        self._settle()

    def share_budgets(self, on_short: Callable[[], object]) -> None:
        """Have budgets hold for this proxy and others together (:meth:`Scheduler.share_budgets`); before any request.
        `on_short` is called when something waits for more of one, and when one was decided."""
        self._scheduler.share_budgets(self._time())
        self._scheduler.ledger.on_short = on_short
        self._settle()

    @property
    def day(self) -> str:
        """The day that the budgets of a day count."""
        return self._day_clock.last

    def budgets_report(self) -> BudgetsReport:
        """Return what was used of budgets, to be told to the other proxies."""
        report = self._shared.report(self._time())
        self._settle()
        return report

    def take_budgets(self, lease: BudgetsLease) -> None:
        """Go on with these parts of the budgets that other proxies count against too."""
        self._shared.take(self._time(), lease)
        self._settle()

    @property
    def _shared(self) -> SharedBudgets:
        assert self._scheduler.sharing is not None
        return self._scheduler.sharing

    def lease_report(self, key: str) -> LaneReport | None:
        """Return what a lane used and wants, to be delivered (:meth:`Scheduler.lease_report`)."""
        return self._scheduler.lease_report(self._time(), key)

    def paused_s(self, lane: str) -> float:
        """Return for how many more seconds the provider has asked a lane to wait, with all models that it knows; 0: it
        hasn't."""
        known = self._scheduler.lanes.get(lane)
        if known is None:
            return 0.0
        until = min(map(known.paused_family_until, known.allowances), default=known.paused_until)
        return max(0.0, until - self._time())

    @property
    def retry(self) -> RetryConfig:
        """When failed requests are tried again, and how often."""
        return self._scheduler.config.retry

    def backoff_s(self, failures: int) -> float:
        """Return the delay after so many earlier failures in a row (paper, equation 4)."""
        return backoff_s(self.retry, failures, self._draw())

    def arrive(self, request: Request) -> Ticket:
        """Schedule a request; its ticket may be in flight already, wait, or be refused."""
        ticket = self._scheduler.arrive(self._time(), request)
        self._settle_once_a_turn()
        return ticket

    def begins_s(self, ticket: Ticket) -> float:
        """Return how long a stream that is sent now takes to begin (:meth:`Lane.begins_s`)."""
        return self._scheduler.lanes[ticket.request.lane].begins_s(ticket)

    def in_flight_at(self, upstream: str) -> int:
        """Return how many requests are in flight at an upstream."""
        return self._scheduler.in_flight_at(upstream)

    def tell_others(self, upstream: str, others: int) -> None:
        """Note how many requests an upstream has that didn't come from here."""
        self._scheduler.tell_others(self._time(), upstream, others)

    def headers(self, ticket: Ticket, limits: Limits, *, ending: bool = False) -> None:
        """Note a reply's rate limits; call before the end of the attempt. `ending`: that end is reported next."""
        if limits.readings or limits.plan:
            looked = self._scheduler.headers(self._time(), ticket, limits.readings, limits.plan, ending=ending)
            if looked:
                self._settle()

    def of_window(self, ticket: Ticket, failure: Failure) -> Failure:
        """Return the failure as it counts (:meth:`Scheduler.of_window`)."""
        return self._scheduler.of_window(self._time(), ticket, failure)

    def prefill(self, ticket: Ticket, read: int, total: int) -> None:
        """Note how many tokens of its prompt the server has read, of how many."""
        self.publish(Prefill(self._time(), ticket.id, ticket.agent.name, ticket.request.lane, read, total))

    def first_content(self, ticket: Ticket, so_far: Usage | None = None, *, whole: bool = False) -> None:
        """Note the first content of the answer; usage as in :meth:`progress`. `whole`: it was held until now."""
        self._scheduler.first_content(self._time(), ticket, so_far, whole=whole)
        self._settle()

    def progress(self, streams: Iterable[tuple[Ticket, int, Usage | None]]) -> None:
        """Note the output tokens of streams so far, and their usage as far as it is known."""
        now = self._time()
        for ticket, output_tokens, so_far in streams:
            self._scheduler.progress(now, ticket, output_tokens, so_far)
        self._settle()

    def succeed(self, ticket: Ticket, status: int, usage: Usage | None, computed: Computed | None = None) -> None:
        """Complete a request whose answer came whole; `computed`: what the server says that it took."""
        self._scheduler.succeed(self._time(), ticket, status, usage, computed)
        self._settle_once_a_turn()

    def begin_work(self, ticket: Ticket, name: str, kind: Kind, booked: bool | None) -> None:
        """Note what a request began (:meth:`Scheduler.begin_work`)."""
        self._scheduler.begin_work(self._time(), ticket, name, kind, booked)
        self._settle()
        if self.hooks.works is not None:
            self.hooks.works.begun((name,), ticket.agent.name)
            if booked:
                self.hooks.works.claim((name,), lambda first, agent: None, sure=True)

    def leave_work(self, ticket: Ticket) -> None:
        """Have a ticket in flight until the work in the background has ended that it began, since its reply is over."""
        ticket.tag = _Unattended(self, ticket)
        self._scheduler.leave_work(self._time(), ticket)

    def ask_for_work(self, name: str) -> bool:
        """Note that work is asked for. Return whether it is known."""
        self._scheduler.ask_for_work(self._time(), name)
        return self._scheduler.works.find(name) is not None

    def end_work(
        self,
        name: str,
        request: Request,
        kind: Kind,
        used: Mapping[str, Usage],
        names: tuple[str, ...] = (),
        *,
        sure: bool = True,
    ) -> None:
        """Note that work has ended, and book what it used (:meth:`Scheduler.end_work`), unless another proxy of the
        fleet has. Unless `sure`, it is work only where this proxy or another has begun it."""
        works, fleet = self._scheduler.works, self.hooks.works
        work = works.find(name)

        def end(first: bool, agent: str) -> None:
            asked = replace(request, agent=self.spelling(agent), parent=None) if agent else request
            self._scheduler.end_work(self._time(), name, asked, kind, used, names, elsewhere=not first)
            self._settle()

        if fleet is None or not used or works.tells_later(name, names):
            if sure or work is not None:
                end(True, "")
            return
        if work is not None and names:
            fleet.begun(names, work.agent)
        ids = dict.fromkeys((works.id_of(name), name, *names, *(() if work is None else work.names)))
        fleet.claim([*ids], end, sure=sure or work is not None)

    def booked_elsewhere(self, name: str) -> None:
        """Note that another proxy of the fleet has booked what this work used."""
        self._scheduler.booked_elsewhere(self._time(), name)
        self._settle()

    def book(self, request: Request, model: str, usage: Usage) -> None:
        """Charge what another model used on account of a request (:meth:`Scheduler.book`)."""
        self._scheduler.book(self._time(), request, model, usage)
        self._settle()

    def fail(self, ticket: Ticket, failure: Failure, usage: Usage | None = None) -> bool:
        """End an attempt that failed. Return whether the ticket waits for another one."""
        # The message is the upstream's, which may quote what it was sent.
        failure = replace(failure, message=redact(failure.message))
        retry_at = self._scheduler.fail(self._time(), ticket, failure, usage)
        self._settle()
        return retry_at is not None

    def abandon(self, ticket: Ticket, usage: Usage | None = None, *, sent: bool = True) -> None:
        """End a request whose client left or that was cancelled; `sent` False: nothing had reached the upstream."""
        self._scheduler.abandon(self._time(), ticket, usage, sent=sent)
        self._settle()

    def apply(self, command: Command, who: str) -> None:
        """Carry out an operator's command. Raises: Rejected."""
        if self._ending and isinstance(command, Drain) and not command.draining:
            raise Conflict("the proxy is shutting down, which can't be taken back")
        command = spelled(command, self.names, self._is_called)
        try:
            self._scheduler.apply(self._time(), fit_to_show(command), who)
        finally:
            self._sample()
        if self.hooks.decided is not None:
            self.hooks.decided(command)

    def spelling(self, name: str) -> str:
        """Return the known spelling of an agent's name, or the name itself where the agent isn't known."""
        if self._is_called(name):
            return name
        try:
            return self.names.find(normalised(name)) or name
        except BadName:
            return name

    def _is_called(self, name: str) -> bool:
        """Return whether an agent has exactly this name."""
        return name in self.agents or name in self.agents.past or bool(self.tasks.of_agent(name))

    def publish(self, event: Event) -> None:
        """Publish an event that isn't the scheduler's."""
        self._scheduler.events.append(event)
        self._settle()

    def notice(self, text: str) -> None:
        """Tell the operator something once; of very many things nothing more is told."""
        if text not in self._noticed and len(self._noticed) < MOST_NOTICES:
            self._noticed.add(text)
            self.publish(Noticed(self._time(), redact(text)))

    def drain(self) -> None:
        """Grant nothing more before the end; refuse all that wait."""
        self._ending = True
        self.world.end()
        self._scheduler.drain(self._time())
        self._settle()

    def snapshot(self, *, newest: int | None = None) -> Snapshot:
        """Return the state of the world at this moment (:meth:`World.snapshot`)."""
        self._sample()
        return self.world.snapshot(self._time(), newest=newest)

    def health(self) -> tuple[str, float, tuple[Alarm, ...]]:
        """Return :attr:`World.mode`, the uptime in seconds, and what is broken."""
        return self.world.mode, self.world.uptime_s(self._time()), self.world.alarms

    def checks(self) -> Iterator[list[Violation]]:
        """Yield what doesn't hold, part by part (:func:`.invariants.steps`)."""
        yield from invariants.steps(self._scheduler, self._time)
        yield self._stalls.look(self._time())
        if self._scheduler.timers.next_at is not None and self._wake is None and not self._unpublished:
            yield [Violation("timer", "", "", "The scheduler has timers, but the event loop has none for them.")]

    @property
    def tickets(self) -> list[Ticket]:
        """The tickets that aren't done."""
        return [ticket for agent in self.agents.values() for ticket in agent.tickets.values()]

    def requests(self, since: int) -> Requests:
        """Return a page of the requests that changed after that revision."""
        return self.world.requests(since, self._time())

    def detail(self, ticket: int) -> RequestDetail | None:
        """Return what the events tell of one request; None where it was dropped."""
        return self.world.detail(ticket, self._time())

    async def settled(self) -> None:
        """Wait until the changes so far would survive a crash, where there is a store."""
        if self.ledger is not None:
            await self.ledger.settled()

    def close(self) -> None:
        """Stop the timers."""
        if self.ledger is not None:
            self.ledger.flush()
        self._sampler.cancel()
        if self._wake is not None:
            self._wake.cancel()

    def _sample(self) -> None:
        self._scheduler.events.append(self._scheduler.sample_changes(self._time()))
        self._settle()

    def _sample_again(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_EVERY_S, self._sample_again)
        self._note_clock()
        self._check_day()
        self._sample()

    def _note_clock(self) -> None:
        self.tasks.epoch = self._world.wall_offset = self._wall() - self._time()

    def _check_day(self) -> None:
        """Begin a new day, and maybe a month, at local midnight."""
        month = self._day_clock.last[:7]
        if self._day_clock.check(self._wall(), self._time()):
            self._scheduler.begin_period(self._time(), "day")
            if self._day_clock.last[:7] != month:
                self._scheduler.begin_period(self._time(), "month")
            if self.ledger is not None:
                self.ledger.day = self._day_clock.last

    def _advance(self) -> None:
        self._wake = self._wake_at = None
        # A timer may fire a clock tick early; the scheduler only acts on what is due.
        self._scheduler.advance(self._time())
        self._settle()

    def _settle_once_a_turn(self) -> None:
        """Publish the events of the last call, in batches at the end of the turn, unless another request waits for a
        decision."""
        if not self.batches or self._scheduler.decisions:
            self._settle()
        elif not self._unpublished:
            self._unpublished = True
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        """Publish the events and decisions of the last calls."""
        self._unpublished = False
        scheduler = self._scheduler
        events = scheduler.events
        if events:
            hooks = self.hooks
            if hooks.record is not None:
                hooks.record(events)
            self._world.follow(events)
            watched = hooks.watched
            for event in events:
                watcher = watched.get(type(event))
                if watcher is not None:
                    watcher(event)
            events.clear()
        if scheduler.decisions:
            for ticket in scheduler.decisions:
                server: Server | None = ticket.tag
                if server is not None:
                    server.decided()
            scheduler.decisions.clear()
        if scheduler.short:
            lanes = tuple(scheduler.short)
            scheduler.short.clear()
            if self.hooks.lease_short is not None:
                for key in lanes:
                    self.hooks.lease_short(key)
        ledger = self.ledger
        if ledger is not None and ledger.timer is None:
            ledger.look()
        at = scheduler.timers.next_at
        if at != self._wake_at:
            self._set_wake(at)

    def _set_wake(self, at: float | None) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = at
        self._wake = None if at is None else self._loop.call_at(max(at, self._time()), self._advance)
