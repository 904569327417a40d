"""Simulates recorded traffic under other settings: runs the real scheduler in virtual time, by a heap of timed
happenings.

Each request arrives as long after the step that it followed as it did in the recording; the scheduler grants it, and
the fitted provider decides how its attempts end.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Literal

from msgspec import Struct, field

from hivemind.gc_pause import gc_paused
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.lab.fit.clients import ClientState
from hivemind.lab.fit.limits import limiters
from hivemind.lab.fit.provider import ProviderModel
from hivemind.lab.fit.service_clock import Job, Milestone, ServiceClock
from hivemind.lab.fit.size import loads
from hivemind.lab.simulate.altered import altered
from hivemind.lab.simulate.overrides import Change, agent_commands, apply_changes, questions
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.trace.steps import CommandStep, RequestStep, TracedAttempt, TraceStep, Work, usage_at_start
from hivemind.records import replace
from hivemind.scheduler.commands import ClaimTask, Command, Rejected
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import Event
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import FINAL_STATUS, Refusal, Ticket, TicketState
from hivemind.scheduler.types import Price, Usage

Faults = Literal["recorded", "drawn"]
"""`recorded`: each request has the faults that it had; `drawn`: faults and latencies are drawn by a seed from what was
fitted."""
_DIGITS = 6
"""Times are rounded to so many decimals for ordering, so that rounding errors don't reorder simultaneous happenings."""
_SHORTEST_S = 2e-6
"""The shortest attempt: its end comes after arrivals at the time of its beginning."""
_HELD = frozenset({"waiting", "blocked", "paused"})
"""States of tasks that can't be claimed yet."""
SAMPLE_S = 1.0
"""Between two samples of the gauges."""


class _Run(Struct, eq=False):
    """A request while it is simulated."""

    request: RequestStep
    ticket: Ticket
    next_attempt: int
    """Index of the next inherent attempt to repeat."""
    result: TracedAttempt = field(default_factory=partial(TracedAttempt, charged=False))
    """Of the attempt in flight."""
    job: Job | None = None
    """That attempt at the provider, if it keeps that at work."""
    clock: ServiceClock | None = None
    """The provider's."""


class Simulation:
    """One simulation, carried out by :meth:`run`."""

    def __init__(
        self,
        recording: Recording,
        changes: Sequence[Change],
        on_event: Callable[[Event], object],
        *,
        seed: int,
        draws: bool,
        price: Price | None,
        sampled: bool,
    ) -> None:
        """`draws`: faults and latencies are drawn anew; `sampled`: samples of the gauges are taken.

        Raises: UsageError: the changes don't go together.
        """
        recording = altered(recording, questions(changes))
        trace = self._trace = recording.trace
        own_seed = random.Random(f"clients {seed}").getrandbits(62)
        self._clients = ClientState(recording.clients, own_seed, draws)
        self._changes = changes
        self._on_event = on_event
        self._draws = draws
        self._price = price
        self._config = recording.began.config
        self._lanes: dict[str, LaneConfig] = {}
        for key, lane in recording.lanes.items():
            self._config, self._lanes[key] = apply_changes(changes, recording.began.config, lane)
        rng = self._rng = random.Random(seed)
        providers = recording.providers
        lanes = {key: each.lane for key, each in providers.items()}
        in_use = limiters(trace, lanes, {key: each.limits for key, each in providers.items()})
        models = {key: ProviderModel(each, in_use[key], trace.began.at, rng, draws) for key, each in providers.items()}
        self._upstreams = models
        self._clocks = _clocks_of(models.values())
        self._sampled = sampled
        self._heap: list[tuple[float, int, float, int, Callable[[float], None]]] = []
        self._numbers = count(-(10**15))
        """Order happenings that aren't steps; at the same time they come before steps."""
        self._draw: float | None = None
        """The scheduler's next random number, where it follows from the recording."""
        self._scheduler = Scheduler(self._config, self._random)
        self._wake_at = math.inf
        self._awaits: dict[TraceStep, int] = {}
        """By step that follows from several others, how many of these aren't over yet."""
        self._claims: list[CommandStep] = []
        """Claims of tasks that can't be claimed yet."""
        self._remaining = sum(1 for request in trace.requests if request.end != "open")
        """Requests that aren't over here, but were when the recording ended."""
        self._dead: set[tuple[int, str]] = set()
        """Agents that ended with an error, by proxy and name."""
        self._client_retries_of: dict[RequestStep, tuple[int, int, float]] = {}
        """By request, retries of its client beyond the recorded ones, the next inherent attempt, and since when the
        request waits unsent (inf: it was sent)."""
        self._pending_commands: dict[str, list[Command]] = {}
        """Commands about agents that haven't come yet."""

    def run(self) -> None:
        """Simulate until every request is over that was over in the recording."""
        began = self._trace.began.at
        if self._price is not None:
            self._scheduler.ledger.price_by(self._price)
        for command in agent_commands(self._changes):
            if not self._apply(began, command, "what-if"):
                self._apply_later(command)
        for delay_s, step in self._trace.start:
            self._follow(began, delay_s, step)
        if self._sampled:
            self._push(began + SAMPLE_S, self._sample)
        heap, now, timers = self._heap, began, self._scheduler.timers
        settle, take, clocks = self._settle, heapq.heappop, self._clocks
        while heap and self._remaining:
            _, _, at, _, happen = take(heap)
            if at > now:
                now = at
            happen(now)
            settle(now)
            for clock in clocks:
                if clock.changed:
                    self._await(clock)
            wake_at = timers.next_at
            if wake_at is not None and wake_at < self._wake_at:
                self._wake_at = max(wake_at, now)
                self._push(self._wake_at, partial(self._wake, self._wake_at))
            if self._claims and not heap:
                # Its task will never be free.
                for delay_s, step in self._claims.pop(0).after:
                    self._follow(now, delay_s, step)

    def _push(
        self,
        at: float,
        happen: Callable[[float], None],
        number: int | None = None,
        *,
        not_before: float = 0.0,
        version: int = 0,
    ) -> None:
        """Let something happen, at least this late.

        `number` orders it among simultaneous happenings, as recorded; everything until `not_before` happens first.
        `version` tells two times of the same happening apart.
        """
        order = next(self._numbers) if number is None else number
        sorted_as = round(at if at > not_before else not_before, _DIGITS)
        heapq.heappush(self._heap, (sorted_as, order, at, version, happen))

    def _random(self) -> float:
        drawn, self._draw = self._draw, None
        return self._rng.random() if drawn is None else drawn

    def _wake(self, at: float, now: float) -> None:
        if self._wake_at == at:
            self._wake_at = math.inf
            self._scheduler.advance(now)

    def _sample(self, now: float) -> None:
        self._scheduler.events.append(self._scheduler.sample(now))
        if self._heap:  # otherwise nothing else will happen
            self._push(now + SAMPLE_S, self._sample)

    # --- Requests ------------------------------------------------------------------------------------------------

    def _arrive(self, request: RequestStep, now: float) -> None:
        arrived = request.arrived
        if (request.proxy, arrived.agent) in self._dead:
            self._skip(now, request)
            return
        scheduler = self._scheduler
        if arrived.lane not in scheduler.lanes:
            scheduler.open_lane(now, arrived.lane, self._lanes[arrived.lane])
        retries, next_attempt, since = self._client_retries_of.get(request, (0, 0, math.inf))
        if arrived.agent in self._pending_commands:
            scheduler.meet(arrived.agent, now, arrived.parent)
            for command in self._pending_commands.pop(arrived.agent):
                self._apply(now, command, "what-if")
        asked = request.request if since > now else replace(request.request, waited_s=now - since)
        ticket = scheduler.arrive(now, asked)
        run = ticket.tag = _Run(request, ticket, next_attempt)
        if not retries:
            for delay_s, step in request.concurrent:
                self._follow(now, delay_s, step)
        if ticket.state is TicketState.IN_FLIGHT:
            self._start_attempt(now, run)
        elif ticket.refusal is not None:
            self._refused(now, run, ticket.refusal)
            return
        timeout_s = self._clients.timeout_s(arrived.agent)
        if timeout_s is not None:
            self._push(now + timeout_s, partial(self._leave, run, 0))
        elif request.end == "left" and request.left_in_flight_s is None:
            self._push(now + request.ended_at - request.at, partial(self._leave, run, 0))

    def _start_attempt(self, now: float, run: _Run) -> None:
        request, lane, attempt = run.request, run.ticket.request.lane, run.ticket.attempts
        own = request.inherent[run.next_attempt] if run.next_attempt < len(request.inherent) else None
        leaves_s = None
        unfinished = None
        if own is not None and not own.complete:
            leaves_s, unfinished, own = request.left_in_flight_s, own, None
        upstream = self._upstreams[lane]
        in_flight = self._scheduler.lanes[lane].gate.active
        result = run.result = upstream.answer(now, request, own, in_flight)
        run.next_attempt += result.end_number is not None
        if unfinished is not None:
            upstream.service.outlast(result, unfinished, leaves_s)
        if leaves_s is not None and self._clients.timeout_s(request.arrived.agent) is None:
            self._push(now + leaves_s, partial(self._leave, run, attempt))
        clock = run.clock = upstream.clock
        run.job = None
        if clock is None or not loads(result):
            self._time(now, run, attempt)
        elif result.work is None:
            self._time(now, run, attempt)
            run.job = clock.enter(now, ())
        else:
            run.job = clock.enter(now, self._milestones(now, run, attempt, result.work))

    def _time(self, now: float, run: _Run, attempt: int) -> None:
        """Let what happens in an attempt happen at given times."""
        result = run.result
        if result.headed_s is not None:
            self._push(now + result.headed_s, partial(self._during, run, attempt, self._read_headers))
        if result.first_s is not None:
            first = partial(self._during, run, attempt, self._first_content)
            self._push(now + result.first_s, first, result.first_number)
        end = partial(self._during, run, attempt, self._end)
        self._push(now + result.duration_s, end, result.end_number, not_before=now + _SHORTEST_S)

    def _milestones(self, now: float, run: _Run, attempt: int, work: Work) -> list[Milestone]:
        """Return what happens in an attempt, by the work that is done until then."""
        result, during = run.result, partial(partial, self._during, run, attempt)
        found: list[Milestone] = []
        if result.headed_s is not None:
            if work.head > 0:
                found.append((work.head, next(self._numbers), during(self._read_headers)))
            else:
                self._push(now + result.headed_s, during(self._read_headers))
        if result.first_s is not None:
            found.append((work.first, self._order(result.first_number), during(self._first_content)))
        found.append((max(work.whole, _SHORTEST_S), self._order(result.end_number), during(self._end)))
        return found

    def _order(self, number: int | None) -> int:
        return next(self._numbers) if number is None else number

    def _await(self, clock: ServiceClock) -> None:
        """Let the next milestone of a provider happen when its clock shows it."""
        clock.changed = False
        clock.version += 1
        found = clock.next()
        if found is not None:
            at, order = found
            self._push(at, partial(self._reach, clock, clock.version), order, version=clock.version)

    def _reach(self, clock: ServiceClock, version: int, now: float) -> None:
        if clock.version == version:
            clock.take(now)(now)

    def _during(self, run: _Run, attempt: int, happen: Callable[[float, _Run], None], now: float) -> None:
        """Let something happen if this attempt is still in flight."""
        if run.ticket.attempts == attempt and run.ticket.state is TicketState.IN_FLIGHT:
            happen(now, run)

    def _first_content(self, now: float, run: _Run) -> None:
        self._scheduler.first_content(now, run.ticket, usage_at_start(run.result.usage))

    def _end(self, now: float, run: _Run) -> None:
        request, ticket, result = run.request, run.ticket, run.result
        if result.headed_s is None:
            self._read_headers(now, run, ending=True)
        self._stop(now, run)
        self._upstreams[ticket.request.lane].over(now, request, result)
        if result.failure is None:
            self._scheduler.succeed(now, ticket, result.status, result.usage)
            self._over(now, request, "answered")
            return
        self._draw = self._recorded_draw(request, ticket.attempts)
        retry_at = self._scheduler.fail(now, ticket, result.failure, result.usage)
        if retry_at is None and not self._client_retries(now, run, asked_s=result.failure.delay_s):
            self._over(now, request, "failed")
        self._draw = None

    def _read_headers(self, now: float, run: _Run, *, ending: bool = False) -> None:
        ticket, result = run.ticket, run.result
        ending = ending or (result.failure is not None and result.first_s is None)
        readings = self._upstreams[ticket.request.lane].limiter.readings(now, ticket.request.family)
        if readings:
            self._scheduler.headers(now, ticket, readings, ending=ending)

    def _recorded_draw(self, request: RequestStep, attempt: int) -> float | None:
        """Return the random number behind the recorded retry delay: equation 4 of the paper, solved for it."""
        recorded = not self._draws and attempt <= len(request.attempts)
        retry_in_s = request.attempts[attempt - 1].retry_in_s if recorded else None
        return None if retry_in_s is None else (retry_in_s / self._trace.began.config.retry.base_s) % 1.0

    def _leave(self, run: _Run, attempt: int, now: float) -> None:
        """Let the client leave; during an attempt only in that very attempt."""
        ticket = run.ticket
        if ticket.state is TicketState.DONE or (attempt and ticket.attempts != attempt):
            return
        self._scheduler.abandon(now, ticket, self._abandoned_usage(now, run))
        if not self._client_retries(now, run, left=True):
            self._over(now, run.request, "left")

    def _stop(self, now: float, run: _Run) -> None:
        """Let the provider work no longer on an attempt."""
        if run.job is not None and run.clock is not None:
            run.clock.leave(now, run.job)
            run.job = None

    def _abandoned_usage(self, now: float, run: _Run) -> Usage | None:
        """End the attempt in flight, if any, and return what it has used."""
        ticket = run.ticket
        if ticket.state is not TicketState.IN_FLIGHT:
            return None
        self._stop(now, run)
        self._upstreams[ticket.request.lane].left(run.result)
        return usage_at_start(run.result.usage) if ticket.content_started else None

    def _refused(self, now: float, run: _Run, refusal: Refusal) -> None:
        if refusal.status == FINAL_STATUS or not self._client_retries(now, run):
            self._over(now, run.request, "refused")

    def _client_retries(self, now: float, run: _Run, *, left: bool = False, asked_s: float | None = None) -> bool:
        """Let the client repeat the request, as its clients do; return whether it does."""
        request = run.request
        if request.end != "answered":
            return False
        retries = self._client_retries_of.get(request, (0, 0, math.inf))[0] + 1
        delay_s = self._clients.retry_in_s(request, request.repeated + retries, left=left, asked_s=asked_s)
        if delay_s is None:
            return False
        ticket = run.ticket
        since = ticket.arrived_at - ticket.request.waited_s if ticket.refusal or not ticket.attempts else math.inf
        self._client_retries_of[request] = retries, run.next_attempt, since
        self._push(now + delay_s, partial(self._arrive, request))
        return True

    def _over(self, now: float, request: RequestStep, how: str) -> None:
        """Schedule what followed from the end of the request."""
        self._remaining -= request.end != "open"
        agent = request.arrived.agent
        if how != "answered" and request.end == "answered" and not self._clients.survives(agent, left=how == "left"):
            self._dead.add((request.proxy, agent))
        for delay_s, step in request.after:
            if isinstance(step, RequestStep) and step.repeats is request and how == "answered":
                self._skip(now, step)
            else:
                self._follow(now, self._clients.thinks_s(request, delay_s), step)

    def _skip(self, now: float, request: RequestStep) -> None:
        """Leave out a request whose client has its answer or whose agent is dead, but not what followed from it."""
        self._remaining -= request.end != "open"
        for delay_s, step in (*request.concurrent, *request.after):
            if isinstance(step, RequestStep) and step.repeats is request:
                self._skip(now, step)
            else:
                self._follow(now, delay_s, step)

    def _follow(self, now: float, delay_s: float, step: TraceStep) -> None:
        """Schedule a step after a delay, once everything that it follows from is over."""
        if step.awaits > 1:
            awaits = self._awaits[step] = self._awaits.get(step, step.awaits) - 1
            if awaits:
                return
        if isinstance(step, RequestStep):
            self._push(now + delay_s, partial(self._arrive, step), step.number)
        elif isinstance(step, CommandStep):
            self._push(now + delay_s, partial(self._command, step), step.number)

    # --- Commands ------------------------------------------------------------------------------------------------

    def _command(self, recorded: CommandStep, now: float) -> None:
        try:
            overruled = any(change.name == recorded.setting for change in self._changes)
            command = None if overruled else recorded.command()
        except Rejected:
            command = None  # another version knew other commands
        if command is not None and not self._apply(now, command, recorded.who):
            if isinstance(command, ClaimTask):
                task = self._scheduler.tasks.get(command.task)
                if task is not None and task.state in _HELD:
                    self._claims.append(recorded)
                    return
            self._apply_later(command)
        for delay_s, step in recorded.after:
            self._follow(now, delay_s, step)
        if recorded.name in ("FinishTask", "CancelTask") and self._claims:
            claims, self._claims = self._claims, []
            for claim in claims:
                self._follow(now, 0.0, claim)

    def _apply_later(self, command: Command) -> None:
        """Keep a command for an agent that hasn't come yet."""
        agent = getattr(command, "agent", None)
        if isinstance(agent, str) and agent not in self._scheduler.agents:
            self._pending_commands.setdefault(agent, []).append(command)

    def _apply(self, now: float, command: Command, who: str) -> bool:
        try:
            self._scheduler.apply(now, command, who)
        except Rejected:
            return False  # this simulation has taken another course, in which the command makes no sense
        return True

    # --- Decisions and events of the scheduler --------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        scheduler = self._scheduler
        while scheduler.decisions:
            decided = scheduler.decisions[:]
            scheduler.decisions.clear()
            for ticket in decided:
                run = ticket.tag
                assert isinstance(run, _Run)
                if ticket.refusal is not None:
                    if ticket.state is TicketState.IN_FLIGHT:
                        scheduler.abandon(now, ticket, self._abandoned_usage(now, run))
                    self._refused(now, run, ticket.refusal)
                elif ticket.state is TicketState.IN_FLIGHT:
                    self._start_attempt(now, run)
        if scheduler.events:
            for event in scheduler.events:
                self._on_event(event)
            scheduler.events.clear()


def _clocks_of(models: Iterable[ProviderModel]) -> list[ServiceClock]:
    """Give providers clocks, where the time of answers depends on what else they do; lanes of one share it."""
    clocks: dict[int, ServiceClock] = {}
    for model in models:
        service = model.provider.service
        if not service.plain:
            model.clock = clocks.setdefault(id(service), ServiceClock(service))
    return list(clocks.values())


# --- Simulated runs -----------------------------------------------------------------------------------------------


def simulate(
    recording: Recording,
    changes: Sequence[Change] = (),
    *,
    seed: int = 0,
    faults: Faults = "recorded",
    price: Price | None = None,
    on_event: Callable[[Event], object] | None = None,
    explained: bool = True,
) -> Figures:
    """Run a recording's traffic through the scheduler with these changes, and return its figures.

    The same arguments give the same figures. `on_event` is called with each event, on the clock of the recording;
    `explained`: the figures say why requests waited, which takes time. Takes up to some seconds without reading a
    clock; not for an event loop.

    Raises: UsageError: the changes don't go together.
    """
    tally = FiguresFold(price, explained=explained)

    def on_each(event: Event) -> None:
        tally.apply(event)
        if on_event is not None:
            on_event(event)

    take = tally.apply if on_event is None else on_each
    simulation = Simulation(
        recording, changes, take, seed=seed, draws=faults == "drawn", price=price, sampled=on_event is not None
    )
    with gc_paused():
        simulation.run()
    return tally.figures()
