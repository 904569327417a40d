"""A lane: one upstream under one credential, with its own gate, AIMD level, circuit, rate windows and queue."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.aimd import Aimd
from hivemind.scheduler.admission.circuit import Circuit, CircuitState
from hivemind.scheduler.admission.gate import Gate
from hivemind.scheduler.admission.queue import LaneQueue
from hivemind.scheduler.admission.retry import MAX_PARK_S, RetryBudget
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.explain.why import holds
from hivemind.scheduler.gauges import LaneState
from hivemind.scheduler.limits.allowance import Allowance
from hivemind.scheduler.limits.estimate import Estimators
from hivemind.scheduler.limits.window import MOST_RESET_S
from hivemind.scheduler.operator.tune import readings
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Failure, FailureKind, Utilisation, WindowKind, WindowReading

LATEST_WEIGHT = 0.1
"""Of the latest attempt, in means that follow the present."""
MOSTLY = 0.3
"""A lane of which no larger share fails, the last failure included, works but for bad luck."""
TELL_EVERY_S = 1.0
"""Between two events that tell what replies say of a family's rate windows."""
LONGEST_TOLD_S = 1e12
"""Resets are told as at most this, some 30,000 years, so that each is a number that JSON has."""
MOST_STAGGERED = 20
"""Grants that are spaced out after a pause; whoever comes later meets a lane at work."""

_INNOCENT = frozenset({FailureKind.QUOTA, FailureKind.CLIENT_ERROR})
"""Failures that say nothing about congestion."""
_REFUSING = frozenset({FailureKind.RATE_LIMITED, FailureKind.QUOTA})
"""Failures by which the provider enforces a limit."""
_PARKING = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.SERVER_ERROR})


class Lane:
    """Answers whether a ticket may fly now; the scheduler decides what follows from it."""

    __slots__ = (
        "_doubted",
        "_events",
        "_knobs",
        "_knobs_of",
        "_staggered",
        "aimd",
        "allowances",
        "circuit",
        "config",
        "estimators",
        "failure_share",
        "failures_in_row",
        "gate",
        "hold_s",
        "key",
        "last_grant",
        "next_grant_at",
        "parked_until",
        "plan",
        "proven",
        "queue",
        "retries",
        "retry_budget",
        "settings",
        "total",
        "used_at",
        "wake_at",
    )

    def __init__(
        self,
        key: str,
        config: LaneConfig,
        settings: SchedulerConfig,
        events: list[ev.Event],
        total: Gate | None = None,
    ) -> None:
        self.key = key
        self._events = events
        self.config = config
        self.settings = settings
        ceiling = _ceiling(config, settings)
        self.aimd = Aimd(config.aimd, ceiling)
        self.gate = Gate(ceiling)
        self.total = total
        """The gate that all lanes of the upstream share; None: their number together has no limit."""
        self.last_grant = 0
        """Number of the scheduler's grant that was its last; 0: there was none."""
        self.proven = False
        """A request of it was answered, so that its credential isn't made up."""
        self.circuit = Circuit(config.circuit)
        self.queue = LaneQueue(settings.queue)
        self.allowances: dict[str, Allowance] = {}
        self.estimators = Estimators()
        self.plan: tuple[Utilisation, ...] = ()
        self.parked_until = -math.inf
        self.next_grant_at = -math.inf
        self._staggered = 0
        self.retry_budget = RetryBudget(settings.retry)
        self.failure_share = 0.5
        """Of recent attempts, each weighing less than the next; a half until there are any."""
        self.failures_in_row = 0
        """Since the last success of anybody."""
        self.retries: dict[int, Ticket] = {}
        """Those between two attempts, by number."""
        self.hold_s: float | None = None
        """How long a slot is held by one attempt, each weighing less than the next; None until the first has ended."""
        self.used_at = -math.inf
        """When a request last came for it."""
        self.wake_at = math.inf
        """A timer for this moment is set."""
        self._knobs: Mapping[str, float] = {}
        self._knobs_of: tuple[object, ...] = ()
        """What the readings of the knobs were made of."""
        self._doubted: set[tuple[WindowKind, bool]] = set()
        """Kinds of windows of which it was told that a reset was doubted, and whether as absurd."""

    def configure(self, now: float, config: LaneConfig, settings: SchedulerConfig) -> None:
        """Go on with other knobs, at once; what is in flight stays there."""
        level = self.aimd.level
        self.config, self.settings = config, settings
        self.aimd.configure(config.aimd, _ceiling(config, settings))
        self.circuit.configure(config.circuit)
        self.retry_budget.config = settings.retry
        for allowance in self.allowances.values():
            allowance.configure(config)
        if self.aimd.level != level:
            self._level_changed(now, "operator")

    @property
    def knobs(self) -> Mapping[str, float]:
        """Every knob's value now; the same mapping until one changes."""
        superseded = tuple(
            name
            for name, kind in (("rpm", WindowKind.REQUESTS), ("tpm", WindowKind.TOKENS))
            if any(allowance.superseded(kind) for allowance in self.allowances.values())
        )
        source = (self.config, self.settings.retry, superseded)
        if source != self._knobs_of:
            self._knobs_of = source
            self._knobs = readings(self.config, self.settings.retry, superseded)
        return self._knobs

    @property
    def vacant(self) -> float:
        """How many more fit, here and in the upstream as a whole."""
        return self.gate.vacant if self.total is None else min(self.gate.vacant, self.total.vacant)

    @property
    def at_rest(self) -> bool:
        """Nothing is on it, and nobody decided anything about it that would be lost with it."""
        busy = self.gate.active or self.queue.waiting or self.retries
        return not (busy or self.aimd.pinned or self.circuit.forced)

    def forget(self, agent: str) -> None:
        """The agent is gone."""
        self.queue.forget(agent)
        self.estimators.forget(agent)

    def allowance(self, family: str) -> Allowance:
        """The rate windows of a family of models; made when it is first asked for."""
        allowance = self.allowances.get(family)
        if allowance is None:
            allowance = self.allowances[family] = Allowance(self.config)
        return allowance

    def window_delay_s(self, ticket: Ticket, now: float) -> float:
        """How long the rate windows hold the ticket, 0 for not at all."""
        if not self.settings.rate_windows:
            return 0.0
        return self.allowance(ticket.request.family).delay_s(
            now, ticket.estimated_input, ticket.estimated_output, ticket.request.max_output_tokens
        )

    def closed_until(self, now: float) -> float | None:
        """None when a ticket may fly as far as the lane goes, else when to ask again (inf: when something happens)."""
        if now < self.parked_until:
            return self.parked_until
        if self.settings.backpressure and not self.circuit.admits():
            return self.circuit.reopens_at or math.inf
        if not self.gate.free:
            self.aimd.gate_full()
            return math.inf
        if self.total is not None and not self.total.free:
            return math.inf  # whoever gives a slot of it back asks all lanes that share it
        return self.next_grant_at if now < self.next_grant_at else None

    def enter(self, ticket: Ticket, now: float) -> None:
        """Take a slot and the reservations for the ticket."""
        self.gate.enter()
        if self.total is not None:
            self.total.enter()
        if not self.gate.free:
            self.aimd.gate_full()
        if self.settings.backpressure:
            self.circuit.lease(ticket.id)
        ticket.epoch = self.circuit.epoch
        request = ticket.request
        ticket.reservation = self.allowance(request.family).take(
            now, ticket.estimated_input, ticket.estimated_output, request.max_output_tokens
        )
        if self._staggered:
            self._staggered -= 1
            self.next_grant_at = now + self.settings.retry.stagger_s

    def leave(self, ticket: Ticket, now: float) -> None:
        """Give the slot back; what was reserved is settled apart."""
        self.gate.leave()
        if self.total is not None:
            self.total.leave()
        self.circuit.return_lease(ticket.id)
        held_s = now - ticket.granted_at
        self.hold_s = held_s if self.hold_s is None else self.hold_s + LATEST_WEIGHT * (held_s - self.hold_s)

    @property
    def mostly_works(self) -> bool:
        """Faults are rare here lately, so a single one is chance rather than trouble."""
        return self.failure_share <= MOSTLY

    def heard(
        self, now: float, ticket: Ticket, readings: tuple[WindowReading, ...], plan: tuple[Utilisation, ...]
    ) -> None:
        """What a reply said of the rate windows."""
        if plan:
            self.plan = plan
        if readings:
            ticket.headed_at = now
            family = ticket.request.family
            allowance = self.allowance(family)
            doubted = allowance.read(now, readings, ticket.granted_at, ticket.reservation)
            if doubted:
                self._tell_doubts(now, family, doubted)
            if now >= allowance.tell_at:
                allowance.tell_at = now + TELL_EVERY_S
                self._events.append(ev.LimitsRead(now, self.key, family, readings))

    def _tell_doubts(self, now: float, family: str, doubted: list[WindowReading]) -> None:
        for reading in doubted:
            reset_in_s = LONGEST_TOLD_S
            if reading.reset_in_s is not None and reading.reset_in_s < LONGEST_TOLD_S:
                reset_in_s = reading.reset_in_s
            absurd = reset_in_s > MOST_RESET_S
            if (reading.kind, absurd) not in self._doubted:
                self._doubted.add((reading.kind, absurd))
                self._events.append(ev.ResetDoubted(now, self.key, family, reading.kind, reset_in_s, absurd))

    # --- What results say about the lane ---------------------------------------------------------------------------

    def succeeded(self, now: float, ticket: Ticket, ttft_s: float) -> None:
        """First content came."""
        self.proven = True
        if self.allowances[ticket.request.family].doubtful:
            for window, charge in ticket.reservation or ():
                if charge.probe:
                    window.probe_answered()
        self.failure_share -= LATEST_WEIGHT * self.failure_share
        self.failures_in_row = 0
        if not self.settings.backpressure:
            return
        before = self.aimd.level
        if self.aimd.sample(now, ttft_s, ticket.granted_at):
            self._level_changed(now, "grow" if self.aimd.level > before else "latency")
        if self.circuit.report(now, ticket.id, ticket.epoch, ok=True):
            self._circuit_changed(now, "probe succeeded")

    def failed(self, now: float, ticket: Ticket, failure: Failure) -> bool:
        """An attempt failed. Returns whether that opened the circuit."""
        cause = str(failure.status) if failure.status is not None else failure.kind.value
        if failure.kind in _REFUSING:
            for window, charge in ticket.reservation or ():
                if charge.probe:
                    window.probe_refused()
        if failure.kind in _INNOCENT:
            # The request's own fault only shows that the upstream is there, which is what a probe asks.
            half_open = self.circuit.state is CircuitState.HALF_OPEN
            if half_open and self.circuit.report(now, ticket.id, ticket.epoch, ok=True):
                self._circuit_changed(now, "probe was answered")
            return False
        if failure.delay_s and failure.retryable and failure.kind in _PARKING and failure.delay_s <= MAX_PARK_S:
            self.park(now, failure.delay_s, cause)
        self.failures_in_row += 1
        self.failure_share += LATEST_WEIGHT * (1 - self.failure_share)
        return self.settings.backpressure and self._congested(now, ticket, failure.kind.value, cause)

    def _congested(self, now: float, ticket: Ticket, kind: str, cause: str) -> bool:
        """Cut the level, count the result. Returns whether that opened the circuit."""
        if self.aimd.congested(now, ticket.granted_at, self.gate.active):
            self._level_changed(now, kind)
        if not self.circuit.report(now, ticket.id, ticket.epoch, ok=False):
            return False
        self._circuit_changed(now, cause)
        if self.aimd.open_circuit(now, self.gate.active):
            self._level_changed(now, "circuit")
        return True

    def poll_circuit(self, now: float) -> None:
        """Let time act on the circuit."""
        if self.settings.backpressure and self.circuit.poll(now):
            self._circuit_changed(now, "cooldown over")

    def park(self, now: float, for_s: float, cause: str) -> None:
        """The provider asks for a pause: nothing flies for so long; afterwards the lane starts again one by one."""
        until = now + for_s
        if for_s <= 0 or until <= self.parked_until:
            return
        news = now >= self.parked_until or until > self.parked_until + 1.0
        self.parked_until = until
        self._staggered = int(min(self.gate.slots, MOST_STAGGERED))
        if news:
            self._events.append(ev.LaneParked(now, self.key, for_s, cause))

    def release_if_due(self, now: float) -> None:
        """End the pause if its time has come."""
        if -math.inf < self.parked_until <= now:
            self.release(now)

    def release(self, now: float) -> None:
        """The pause is over."""
        self.parked_until = -math.inf
        self._events.append(ev.LaneReleased(now, self.key))

    def reopen(self, now: float) -> None:
        """By an operator: the pause is over, and so is what headers have said of used-up windows. Our own limits
        hold."""
        for allowance in self.allowances.values():
            allowance.release(now)
        self.release(now)

    def follow_level(self) -> None:
        """Hand AIMD's level to the gate (paper, Direct Backpressure-Admission Wiring)."""
        if self.settings.admission:
            self.gate.limit = self.aimd.level

    def _level_changed(self, now: float, cause: str) -> None:
        self.follow_level()
        self._events.append(ev.LevelChanged(now, self.key, self.aimd.level, cause))

    def _circuit_changed(self, now: float, cause: str) -> None:
        reopens_at = self.circuit.reopens_at
        wait_s = None if reopens_at is None else reopens_at - now
        self._events.append(ev.CircuitChanged(now, self.key, self.circuit.state.value, cause, wait_s))

    def state(self, now: float, paused: bool) -> LaneState:
        """Gauges for people."""
        circuit, aimd = self.circuit, self.aimd
        reopens_at = circuit.reopens_at
        return LaneState(
            lane=self.key,
            upstream=self.config.upstream,
            provider=self.config.provider,
            active=self.gate.active,
            waiting=self.queue.waiting,
            retrying=len(self.retries),
            level=aimd.level,
            ceiling=aimd.ceiling,
            floor=aimd.config.floor,
            pinned=aimd.pinned,
            mean_ttft_s=aimd.mean_latency_s,
            latency_target_s=aimd.config.latency_target_s,
            parked_for_s=max(0.0, self.parked_until - now),
            paused=paused,
            circuit=circuit.state.value,
            circuit_forced=circuit.forced is not None,
            circuit_errors=circuit.errors,
            circuit_results=circuit.results,
            circuit_window=circuit.config.window,
            circuit_threshold=circuit.config.threshold,
            circuit_reopens_in_s=None if reopens_at is None else max(0.0, reopens_at - now),
            windows=tuple(s for family, a in self.allowances.items() for s in a.states(family, now)),
            plan=self.plan,
            knobs=self.knobs,
            upcoming=holds(self, now, paused),
            upstream_active=0 if self.total is None else self.total.active,
            upstream_limit=0 if self.total is None else int(self.total.limit),
        )

    @property
    def refuses(self) -> bool:
        """The circuit turns requests away rather than holding them."""
        if not self.settings.backpressure or self.circuit.state is not CircuitState.OPEN:
            return False
        return self.circuit.forced == "open" or self.circuit.config.when_open == "refuse"


def _ceiling(config: LaneConfig, settings: SchedulerConfig) -> float:
    return float(config.max_concurrency) if config.max_concurrency and settings.admission else math.inf
