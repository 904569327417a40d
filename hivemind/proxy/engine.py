"""The scheduler on a live event loop: passes it the time, sets its timers, wakes the requests it grants."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from hivemind.agent_names import BadName, KnownNames, normalised
from hivemind.providers.base import Limits
from hivemind.redaction.text import redact
from hivemind.scheduler import invariants
from hivemind.scheduler.accounts import Account
from hivemind.scheduler.agents import Agents
from hivemind.scheduler.commands import Command, Conflict, Drain
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.events import BudgetState, Event
from hivemind.scheduler.invariants import Violation
from hivemind.scheduler.lease import LaneReport, Lease
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.shared_budgets import BudgetsLease, BudgetsReport, SharedBudgets
from hivemind.scheduler.tasks import Tasks
from hivemind.scheduler.ticket import Agent, Ticket
from hivemind.scheduler.types import Failure, Price, Request, Usage
from hivemind.store.ledger import LedgerStore
from hivemind.store.store import Store
from hivemind.wire.command_names import fit_to_show, spelled
from hivemind.world.snapshot import Alarm, RequestDetail, Requests, Snapshot
from hivemind.world.world import World

SAMPLE_EVERY_S = 1.0
"""Between two samples of every lane's gauges."""


class Server(Protocol):
    """What serves a request: the tag of its ticket from its first step to its end."""

    @property
    def without_task(self) -> bool:
        """Whether it has no task of its own at this moment."""

    def decided(self) -> None:
        """Go on: the scheduler has granted or refused the request."""


class Engine:
    """One scheduler, the loop's clock, and the world that the screen reads.

    Created on a running loop. Every method is called from that loop and returns at once. `wall` is the time of day in
    seconds since the epoch; `store` holds the initial state, and gets every change.
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
        self._stalls = invariants.Stalls(self._scheduler)
        self.world = world(self._time())
        self.watched: dict[type[Event], Callable[[Any], object]] = {}
        """Callbacks by event type, called when the world's views show the event; they may read, but change nothing."""
        self.record: Callable[[Sequence[Event]], object] | None = None
        """Called with each step's events, before the world applies them, for a journal."""
        self.on_lane_opened: Callable[[str, LaneConfig], object] | None = None
        """Called with each lane that is opened."""
        self.on_lease_short: Callable[[str], object] | None = None
        """Called with a lane whose report the other proxies should get at once: something waits there for want of a
        lease, or was met that concerns them all. Called once a report."""
        self.on_decision: Callable[[Command], object] | None = None
        """Called with each command that was carried out."""
        self._ending = False
        self._wall = wall
        self._day_clock = DayClock(wall(), self._time(), "" if store is None else store.day)
        self.ledger = None if store is None else LedgerStore(self._scheduler, store, wall, self._day_clock.last)
        """Persistent books; None where nothing outlives the proxy."""
        self.names = KnownNames(self._is_called)
        """The spellings of all known agents."""
        agents, tasks = self._scheduler.agents, self._scheduler.tasks
        for name in (*agents, *agents.past, *(task.agent for task in tasks.values())):
            self.names.add(name)
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at: float | None = None
        self._sampler = self._loop.call_later(SAMPLE_EVERY_S, self._sample_again)

    def price_by(self, price: Price) -> None:
        """Price everything used from now on, and before."""
        self.world.price_by(price)
        self._scheduler.price_by(price, self._time())
        self._settle()

    @property
    def counts_dollars(self) -> bool:
        """Whether some budget is in dollars, or each new agent's is."""
        ledger = self._scheduler.ledger
        if ledger.config.dollars is not None or any(known.dollars is not None for known in ledger.known.values()):
            return True
        return any(state.dollars is not None for state in ledger.states())

    def now(self) -> float:
        """Return the time on the clock of every event."""
        return self._time()

    def agent(self, name: str) -> Agent | None:
        """Return the agent of that name; None where it isn't known."""
        return self._scheduler.agents.get(name)

    def find(self, name: str) -> Agent | None:
        """Return the agent of that name in any spelling, also one that isn't at hand any more; None: it isn't known."""
        return self._scheduler.agents.find(self.spelling(name))

    def below(self, agent: Agent) -> list[Agent]:
        """Return the agents that it started, those that they started, and so on, at hand or not."""
        return self._scheduler.agents.below(agent)

    def covered(self, state: BudgetState) -> list[Agent]:
        """Return the agents whose requests are charged to a budget."""
        if state.owner is None:
            return self._at_hand(self._scheduler.pool)
        agent = self.agent(state.owner)
        if agent is None:
            return []
        return [agent] if state.covers == "agent" else self._at_hand(agent.tree)

    def _at_hand(self, account: Account) -> list[Agent]:
        return [agent for name in account.members if (agent := self.agent(name)) is not None]

    @property
    def arrived(self) -> int:
        """Number of requests so far, those that cost nothing left out."""
        return self._scheduler.arrived

    @property
    def accounts(self) -> tuple[Agents, Account]:
        """Every agent, and the account of all together; read-only."""
        return self._scheduler.agents, self._scheduler.pool

    @property
    def tasks(self) -> Tasks:
        """The graph of tasks; read-only."""
        return self._scheduler.tasks

    def open_lane(self, key: str, config: LaneConfig) -> None:
        """Open a lane unless it is open; cheap when it is."""
        if key not in self._scheduler.lanes:
            lane = self._scheduler.open_lane(self._time(), key, config)
            self._settle()
            if self.on_lane_opened is not None:
                self.on_lane_opened(key, lane.config)

    @property
    def leasing(self) -> bool:
        """Whether lanes that are opened from now on grant nothing without a lease, because other proxies use the same
        credentials."""
        return self._scheduler.leasing

    @leasing.setter
    def leasing(self, leasing: bool) -> None:
        self._scheduler.leasing = leasing

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

    def arrive(self, request: Request) -> Ticket:
        """Schedule a request; its ticket may be in flight already, wait, or be refused."""
        ticket = self._scheduler.arrive(self._time(), request)
        self._settle()
        return ticket

    def headers(self, ticket: Ticket, limits: Limits, *, ending: bool = False) -> None:
        """Note a reply's rate limits; call before the end of the attempt. `ending`: that end is reported next."""
        if limits.readings or limits.plan:
            looked = self._scheduler.headers(self._time(), ticket, limits.readings, limits.plan, ending=ending)
            if looked:
                self._settle()

    def first_content(self, ticket: Ticket, so_far: Usage | None = None) -> None:
        """Note the first content of the answer; usage as in :meth:`progress`."""
        self._scheduler.first_content(self._time(), ticket, so_far)
        self._settle()

    def progress(self, streams: Iterable[tuple[Ticket, int, Usage | None]]) -> None:
        """Note the output tokens of streams so far, and their usage as far as it is known."""
        now = self._time()
        for ticket, output_tokens, so_far in streams:
            self._scheduler.progress(now, ticket, output_tokens, so_far)
        self._settle()

    def succeed(self, ticket: Ticket, status: int, usage: Usage | None) -> None:
        """Complete a request whose answer came whole."""
        self._scheduler.succeed(self._time(), ticket, status, usage)
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
        if self.on_decision is not None:
            self.on_decision(command)

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
        scheduler = self._scheduler
        return name in scheduler.agents or name in scheduler.agents.past or bool(scheduler.tasks.of_agent(name))

    def publish(self, event: Event) -> None:
        """Publish an event that isn't the scheduler's."""
        self._scheduler.events.append(event)
        self._settle()

    def drain(self) -> None:
        """Grant nothing more before the end; refuse all that wait."""
        self._ending = True
        self.world.end()
        self._scheduler.drain(self._time())
        self._settle()

    def snapshot(self) -> Snapshot:
        """Return the state of the world at this moment."""
        self._sample()
        return self.world.snapshot(self._time())

    def traffic(self, agent: str, client: str) -> tuple[int, tuple[str, ...]]:
        """Return what :meth:`World.traffic` does."""
        return self.world.traffic(agent, client)

    def health(self) -> tuple[str, float, tuple[Alarm, ...]]:
        """Return :attr:`World.mode`, the uptime in seconds, and what is broken."""
        return self.world.mode, self.world.uptime_s(self._time()), self.world.alarms

    def checks(self) -> Iterator[list[Violation]]:
        """Yield what doesn't hold, part by part (:func:`.invariants.steps`)."""
        yield from invariants.steps(self._scheduler, self._time)
        yield self._stalls.look(self._time())
        if self._scheduler.timers.next_at is not None and self._wake is None:
            yield [Violation("timer", "", "", "The scheduler has timers, but the event loop has none for them.")]

    @property
    def tickets(self) -> list[Ticket]:
        """The tickets that aren't done."""
        return [ticket for agent in self._scheduler.agents.values() for ticket in agent.tickets.values()]

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
        self._scheduler.events.append(self._scheduler.sample(self._time()))
        self._settle()

    def _sample_again(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_EVERY_S, self._sample_again)
        self._check_day()
        self._sample()

    def _check_day(self) -> None:
        """Begin a new day at local midnight."""
        if self._day_clock.check(self._wall(), self._time()):
            self._scheduler.begin_period(self._time(), "day")
            if self.ledger is not None:
                self.ledger.day = self._day_clock.last

    def _advance(self) -> None:
        self._wake = self._wake_at = None
        # A timer may fire a clock tick early; the scheduler only acts on what is due.
        self._scheduler.advance(self._time())
        self._settle()

    def _settle(self) -> None:
        """Publish the events and decisions of the last call."""
        scheduler = self._scheduler
        events = scheduler.events
        if events:
            if self.record is not None:
                self.record(events)
            self.world.follow(events)
            watched = self.watched
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
            if self.on_lease_short is not None:
                for key in lanes:
                    self.on_lease_short(key)
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


_log = logging.getLogger(__name__)

JUMP_S = 30.0
"""A wall clock that moves by more than this against the monotonic one, between two checks, was set. Late checks and NTP
slewing move it by less, and can bring midnight forward by no more than that."""
STEADY_S = 300.0
"""Time that a clock must run steadily after it was set, before a new day is taken from it. Corrections of a wrong clock
(NTP after the start of a virtual machine, an operator's mistake) usually come sooner."""


class DayClock:
    """Begins each day once, by a wall clock that may be set at any time.

    A day begins at local midnight. The wall clock alone can't be trusted for that: one that is set forward by a day and
    back again would renew every day's budgets, and one that is set back over midnight would renew them at the second
    midnight. So the day that began last is kept, in the database too, and

    * a day begins when its date is later than that of the last one, and the wall clock agrees with the monotonic clock.
      After a jump it must first agree for :data:`STEADY_S`. That also covers a suspended machine, whose monotonic clock
      stands still on Linux: the day begins some minutes after it wakes up;
    * a day that has begun doesn't begin again. Dates are compared, not times, so that the hour that daylight saving
      skips or repeats makes no difference;
    * a date earlier than the last one means that the last one was taken from a wrong clock. Nothing begins until a
      midnight has passed while the clock ran steadily: then the day begins that it shows, and is the last from then on.
      So a clock that was years ahead for a while doesn't end daily budgets for years.

    At a start only the wall clock can tell the day, and its date is believed.
    """

    def __init__(self, wall: float, now: float, last: str = "") -> None:
        """`wall` is in seconds since the epoch, `now` of a monotonic clock; `last` is the day that began last, if
        any."""
        today = day_of(wall)
        self.last = max(last, today)
        """The day that began last, as `2026-11-22`."""
        self._wall, self._now = wall, now
        self._steady_from = now
        self._seen = today
        """The date at the last check, while the clock ran steadily; empty after it was set."""
        if last > today:
            _log.warning(
                "it is %s by this machine's clock, but %s had begun already in an earlier run: budgets of a day go on,"
                " and are renewed at the next midnight",
                today,
                last,
            )

    def check(self, wall: float, now: float) -> bool:
        """Check the time, about once a second. Return whether a day begins, which is :attr:`last` then."""
        jump_s = (wall - self._wall) - (now - self._now)
        self._wall, self._now = wall, now
        today = day_of(wall)
        if abs(jump_s) > JUMP_S:
            if now >= self._steady_from and today != self._seen:
                _log.warning(
                    "this machine slept, or its clock was set by %+.0f s, from %s to %s: budgets of a day are renewed"
                    " once a later day than %s has stayed for %.0f minutes",
                    jump_s,
                    self._seen,
                    today,
                    self.last,
                    STEADY_S / 60,
                )
            self._steady_from = now + STEADY_S
            self._seen = ""
        if now < self._steady_from:
            return False
        passed = bool(self._seen) and today > self._seen
        self._seen = today
        if today > self.last or (passed and today < self.last):
            self.last = today
            return True
        return False


def day_of(wall: float) -> str:
    """Return the local date, as `2026-11-22`."""
    return time.strftime("%Y-%m-%d", time.localtime(wall))
