"""The real scheduler on a recording, in virtual time: no event loop, no clock, a heap of what happens next.

Each request comes so long after what it followed as it did in the recording, is granted by the scheduler, and fares as
the fitted upstream has it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from hivemind.lab.simulate.plan import SimulationPlan
from hivemind.lab.simulate.provider_model import AttemptResult
from hivemind.lab.simulate.steps import CommandStep, RequestStep, Step, usage_at_start
from hivemind.scheduler.commands import ClaimTask, Command, Rejected
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Refusal, Ticket, TicketState
from hivemind.scheduler.types import Request, Usage

_ARRIVE, _ORDER, _WAKE, _SAMPLE, _HEAD, _FIRST, _END, _LEAVE, _PROGRESS = range(9)
_PLACES = 6
"""Of a second. Closer together is at the same moment, and keeps its order, whatever is lost in adding up."""
_SOONEST_S = 2e-6
"""In which an attempt may end: whoever comes at the moment when it begins goes before that."""
PROGRESS_S = 1.0
"""Between two signs of life of a stream; it has :data:`MOST_PROGRESS` of them at most."""
MOST_PROGRESS = 8
_FINAL = 403
"""Status of a refusal after which clients don't ask again."""
_HELD = frozenset({"waiting", "blocked"})
"""States of tasks that can't be claimed yet."""
SAMPLE_S = 1.0
"""Between two samples of the gauges, where somebody looks."""


@dataclass(slots=True, eq=False)
class _Flight:
    """A request while it is simulated."""

    request: RequestStep
    next_try: int = 0
    answer: AttemptResult | None = None
    ticket: Ticket | None = None


class Simulation:
    """One run; :meth:`run` carries it out."""

    def __init__(self, plan: SimulationPlan) -> None:
        self._plan = plan
        self._trace = plan.trace
        self._heap: list[tuple[float, int, float, int, object, int]] = []
        self._numbers = count(-(10**15))
        """Of what isn't a step, which at the same moment comes before any."""
        self._draw: float | None = None
        """For the scheduler's next throw of the dice, where the recording shows how it fell."""
        self._scheduler = Scheduler(plan.config, self._throw)
        self._requests: dict[int, Request] = {}
        self._wake_at = math.inf
        self._awaits: dict[Step, int] = {}
        """Of steps that follow from several, how many of these aren't over yet."""
        self._claims: list[CommandStep] = []
        """Refused because what they wait for isn't done yet."""
        self._to_do = sum(1 for request in plan.trace.requests if request.end != "open")
        """Requests that aren't over, of those that were when the recording ended."""
        self._dead: set[str] = set()
        self._again: dict[RequestStep, tuple[int, int]] = {}
        """Of requests that are asked again without having been so in the recording: how often, and their tries."""
        self._later: dict[str, list[Command]] = {}
        """What was ordered of agents that nobody knows yet."""

    def run(self) -> None:
        """From the beginning until everything is over that was over in the recording."""
        began = self._trace.began_at
        if self._plan.price is not None:
            self._scheduler.price_by(self._plan.price, began)
        for order in self._plan.commands:
            if not self._apply(began, order, "what-if"):
                self._put_off(order)
        for delay_s, step in self._trace.start:
            self._follow(began, delay_s, step)
        if self._plan.sampled or self._plan.config.feedback.enabled:
            self._push(began + SAMPLE_S, _SAMPLE, None)
        heap, now, timers = self._heap, began, self._scheduler.timers
        happen, settle, take = self._happen, self._settle, heapq.heappop
        while heap and self._to_do:
            _, _, at, kind, subject, attempt = take(heap)
            if at > now:
                now = at
            happen(now, at, kind, subject, attempt)
            settle(now)
            wake_at = timers.next_at
            if wake_at is not None and wake_at < self._wake_at:
                self._wake_at = max(wake_at, now)
                self._push(self._wake_at, _WAKE, None)
            if self._claims and not heap:
                self._unclaimed(now)

    def _push(self, at: float, kind: int, subject: object, attempt: int = 0, number: int | None = None) -> None:
        """`number`: its place in the recording, which decides of what comes at the same moment."""
        place = next(self._numbers) if number is None else number
        heapq.heappush(self._heap, (round(at, _PLACES), place, at, kind, subject, attempt))

    def _throw(self) -> float:
        drawn, self._draw = self._draw, None
        return self._plan.rng.random() if drawn is None else drawn

    def _happen(self, now: float, at: float, kind: int, subject: object, attempt: int) -> None:
        if _HEAD <= kind <= _PROGRESS:
            flight: _Flight = subject  # type: ignore[assignment]  # whoever pushed it saw to that
            ticket = flight.ticket
            if ticket is None or ticket.state is TicketState.DONE:
                return
            if kind == _LEAVE:
                self._leave(now, flight, ticket, attempt)
            elif ticket.attempts == attempt and ticket.state is TicketState.IN_FLIGHT:
                self._go_on(now, kind, flight, ticket)
        elif kind == _ARRIVE:
            self._arrive(now, subject)  # type: ignore[arg-type]  # likewise
        elif kind == _WAKE:
            if self._wake_at == at:
                self._wake_at = math.inf
                self._scheduler.advance(now)
        elif kind == _ORDER:
            self._order(now, subject)  # type: ignore[arg-type]  # likewise
        else:
            self._scheduler.events.append(self._scheduler.sample(now))
            if self._heap:  # else nothing will ever happen again
                self._push(now + SAMPLE_S, _SAMPLE, None)

    # --- Requests ------------------------------------------------------------------------------------------------

    def _arrive(self, now: float, request: RequestStep) -> None:
        arrived = request.arrived
        if arrived.agent in self._dead:
            self._skip(now, request)
            return
        scheduler = self._scheduler
        if arrived.lane not in scheduler.lanes:
            scheduler.open_lane(now, arrived.lane, self._plan.lanes[arrived.lane])
        again, tried = self._again.get(request, (0, 0))
        flight = _Flight(request, tried)
        if self._later and arrived.agent in self._later:
            scheduler.meet(arrived.agent, now, arrived.parent)
            for order in self._later.pop(arrived.agent):
                self._apply(now, order, "what-if")
        ticket = scheduler.arrive(now, request.request)
        ticket.tag = flight
        flight.ticket = ticket
        if not again:
            for delay_s, step in request.concurrent:
                self._follow(now, delay_s, step)
        if ticket.state is TicketState.IN_FLIGHT:
            self._fly(now, flight, ticket)
        elif ticket.refusal is not None:
            self._turned_away(now, flight, ticket.refusal)
            return
        client_timeout_s = self._plan.client_timeout_s.get(arrived.agent)
        if client_timeout_s is not None:
            self._push(now + client_timeout_s, _LEAVE, flight, 0)
        elif request.end == "left" and request.left_in_flight_s is None:
            self._push(now + (request.left_after_s or 0.0), _LEAVE, flight, 0)

    def _fly(self, now: float, flight: _Flight, ticket: Ticket) -> None:
        """Its turn has come."""
        request, upstream = flight.request, self._plan.upstreams[ticket.request.lane]
        inherent = request.inherent[flight.next_try] if flight.next_try < len(request.inherent) else None
        leaves_s = None
        if inherent is not None and not inherent.complete:
            leaves_s, inherent = request.left_in_flight_s, None
        active = self._scheduler.lanes[ticket.request.lane].gate.active
        answer = flight.answer = upstream.answer(now, request, inherent, active)
        recorded = answer.recorded
        flight.next_try += recorded is not None
        attempt = ticket.attempts
        if leaves_s is not None:
            answer.duration_s = max(answer.duration_s, leaves_s * 2)
            if request.arrived.agent not in self._plan.client_timeout_s:
                self._push(now + leaves_s, _LEAVE, flight, attempt)
        if answer.headed_s is not None:
            self._push(now + answer.headed_s, _HEAD, flight, attempt)
        if answer.first_s is not None:
            number = None if recorded is None else recorded.first_number
            self._push(now + answer.first_s, _FIRST, flight, attempt, number)
            self._stream(now, flight, answer, answer.first_s, attempt)
        ends_at = now + answer.duration_s
        key = round(max(ends_at, now + _SOONEST_S), _PLACES)
        number = None if recorded is None else recorded.end_number
        heapq.heappush(
            self._heap, (key, next(self._numbers) if number is None else number, ends_at, _END, flight, attempt)
        )

    def _stream(self, now: float, flight: _Flight, answer: AttemptResult, first_s: float, attempt: int) -> None:
        """Signs of life between its first content and its end."""
        lasts_s = answer.duration_s - first_s
        told = min(MOST_PROGRESS, int(lasts_s / PROGRESS_S))
        for number in range(1, told + 1):
            self._push(now + first_s + lasts_s * number / (told + 1), _PROGRESS, flight, attempt)

    def _go_on(self, now: float, kind: int, flight: _Flight, ticket: Ticket) -> None:
        """Something of the attempt came."""
        answer = flight.answer
        assert answer is not None
        if kind == _END:
            self._end(now, flight, ticket, answer)
        elif kind == _HEAD:
            self._read(now, ticket)
        elif kind == _FIRST:
            self._scheduler.first_content(now, ticket, usage_at_start(answer.usage))
        elif answer.usage is not None and answer.first_s is not None:
            share = (now - ticket.granted_at - answer.first_s) / max(1e-9, answer.duration_s - answer.first_s)
            tokens = int(answer.usage.output_tokens * share)
            so_far = Usage(
                answer.usage.input_tokens, answer.usage.cache_read_tokens, answer.usage.cache_write_tokens, tokens
            )
            self._scheduler.progress(now, ticket, tokens, so_far)

    def _end(self, now: float, flight: _Flight, ticket: Ticket, answer: AttemptResult) -> None:
        """The attempt is over."""
        request = flight.request
        if answer.headed_s is None:
            self._read(now, ticket)
        self._plan.upstreams[ticket.request.lane].over(now, request, answer)
        if answer.failure is None:
            self._scheduler.succeed(now, ticket, answer.status, answer.usage)
            self._over(now, request, "answered")
            return
        self._draw = self._thrown(request, ticket.attempts)
        if self._scheduler.fail(now, ticket, answer.failure, answer.usage) is None and not self._ask_again(
            now, flight, self._plan.error_retry_delays_s
        ):
            self._over(now, request, "failed")
        self._draw = None

    def _read(self, now: float, ticket: Ticket) -> None:
        readings = self._plan.upstreams[ticket.request.lane].readings(now, ticket.request.family)
        if readings:
            self._scheduler.headers(now, ticket, readings)

    def _thrown(self, request: RequestStep, attempt: int) -> float | None:
        """How the dice fell for the pause after this attempt: paper, equation 4, solved for its draw."""
        if self._plan.draws or attempt > len(request.attempts):
            return None
        told = request.attempts[attempt - 1].failure
        if told is None or told.retry_in_s is None:
            return None
        return (told.retry_in_s / self._trace.began.config.retry.base_s) % 1.0

    def _leave(self, now: float, flight: _Flight, ticket: Ticket, attempt: int) -> None:
        """Its client has had enough; one that left in mid-flight (`attempt`) does so in that very attempt."""
        if attempt and ticket.attempts != attempt:
            return
        usage = self._given_up(flight, ticket)
        self._scheduler.abandon(now, ticket, usage)
        if not self._ask_again(now, flight, self._plan.timeout_retry_delays_s):
            self._over(now, flight.request, "left")

    def _given_up(self, flight: _Flight, ticket: Ticket) -> Usage | None:
        """What an attempt has used that isn't seen to its end."""
        answer = flight.answer
        if answer is None or ticket.state is not TicketState.IN_FLIGHT:
            return None
        self._plan.upstreams[ticket.request.lane].left(answer)
        return usage_at_start(answer.usage) if ticket.content_started else None

    def _turned_away(self, now: float, flight: _Flight, refusal: Refusal) -> None:
        if refusal.status == _FINAL or not self._ask_again(now, flight, self._plan.error_retry_delays_s):
            self._over(now, flight.request, "refused")

    def _ask_again(self, now: float, flight: _Flight, pauses: Sequence[float]) -> bool:
        """The client asks once more for what it got no answer to, as clients of this recording do."""
        request = flight.request
        again = self._again.get(request, (0, 0))[0] + 1
        if request.end != "answered" or request.repeated + again > len(pauses):
            return False
        self._again[request] = again, flight.next_try
        self._push(now + pauses[request.repeated + again - 1], _ARRIVE, request)
        return True

    def _over(self, now: float, request: RequestStep, how: str) -> None:
        """A request has ended; whatever followed from that follows."""
        self._to_do -= request.end != "open"
        agent = request.arrived.agent
        died = how in ("failed", "refused") and request.end == "answered" and not self._plan.survives_errors
        if died:
            self._dead.add(agent)
        for delay_s, step in request.after:
            if isinstance(step, RequestStep) and step.repeats is request and how == "answered":
                self._skip(now, step)
            else:
                self._follow(now, delay_s, step)

    def _skip(self, now: float, request: RequestStep) -> None:
        """It isn't asked: its client was answered before, or its agent is dead. Others go on all the same."""
        self._to_do -= request.end != "open"
        for delay_s, step in (*request.concurrent, *request.after):
            if isinstance(step, RequestStep) and step.repeats is request:
                self._skip(now, step)
            else:
                self._follow(now, delay_s, step)

    def _follow(self, now: float, delay_s: float, step: Step) -> None:
        """It comes so much later, if all that it follows from is over."""
        if step.awaits > 1:
            awaits = self._awaits[step] = self._awaits.get(step, step.awaits) - 1
            if awaits:
                return
        at = now + delay_s
        kind = _ARRIVE if isinstance(step, RequestStep) else _ORDER
        heapq.heappush(self._heap, (round(at, _PLACES), step.number, at, kind, step, 0))

    # --- Orders --------------------------------------------------------------------------------------------------

    def _order(self, now: float, order: CommandStep) -> None:
        try:
            command = None if order.setting in self._plan.overruled else order.command()
        except Rejected:
            command = None  # of a version that knew other commands
        if command is not None and not self._apply(now, command, order.who):
            if isinstance(command, ClaimTask) and self._waits(command.task):
                self._claims.append(order)
                return
            self._put_off(command)
        for delay_s, step in order.after:
            self._follow(now, delay_s, step)
        if order.name in ("FinishTask", "CancelTask") and self._claims:
            claims, self._claims = self._claims, []
            for claim in claims:
                self._follow(now, 0.0, claim)

    def _put_off(self, command: Command) -> None:
        """It is about an agent that may come later than it came in the recording."""
        agent = getattr(command, "agent", None)
        if isinstance(agent, str) and agent not in self._scheduler.agents:
            self._later.setdefault(agent, []).append(command)

    def _waits(self, task: str) -> bool:
        """It may be claimed later, when others are done."""
        known = self._scheduler.tasks.get(task)
        return known is not None and known.state in _HELD

    def _unclaimed(self, now: float) -> None:
        """What a task waits for will never be done, so nobody waits any longer."""
        order = self._claims.pop(0)
        for delay_s, step in order.after:
            self._follow(now, delay_s, step)

    def _apply(self, now: float, command: Command, who: str) -> bool:
        try:
            self._scheduler.apply(now, command, who)
        except Rejected:
            return False  # the world has come another way, and there it makes no sense
        return True

    # --- What the scheduler answers ------------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        scheduler = self._scheduler
        while scheduler.decisions:
            decided = scheduler.decisions[:]
            scheduler.decisions.clear()
            for ticket in decided:
                flight = ticket.tag
                assert isinstance(flight, _Flight)
                if ticket.refusal is not None:
                    if ticket.state is TicketState.IN_FLIGHT:
                        scheduler.abandon(now, ticket, self._given_up(flight, ticket))
                    self._turned_away(now, flight, ticket.refusal)
                elif ticket.state is TicketState.IN_FLIGHT:
                    self._fly(now, flight, ticket)
        events = scheduler.events
        if events:
            tell = self._plan.tell
            if tell is not None:
                for event in events:
                    tell(event)
            events.clear()
