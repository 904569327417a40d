"""A lane: one upstream under one credential, with its own gate, AIMD level, circuit, rate windows and queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal

from msgspec import Struct

from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.aimd import Aimd, Gate
from hivemind.scheduler.admission.allowance import Allowance
from hivemind.scheduler.admission.circuit import Circuit, CircuitState
from hivemind.scheduler.admission.estimate import Estimators
from hivemind.scheduler.admission.first_writes import FirstWrites
from hivemind.scheduler.admission.leasing import Leasing
from hivemind.scheduler.admission.lockstep import Lockstep
from hivemind.scheduler.admission.long_windows import LongWindows
from hivemind.scheduler.admission.queue import LaneQueue
from hivemind.scheduler.admission.retry import LATEST_WEIGHT, MAX_PAUSE_S, Retries
from hivemind.scheduler.admission.warmth import LEAST
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.faults import Blame, Faults
from hivemind.scheduler.lease import LeaseState
from hivemind.scheduler.limits import MOST_RESET_S, Window
from hivemind.scheduler.pace import ALONE, Knee, Pace
from hivemind.scheduler.ticket import Refusal, Ticket
from hivemind.scheduler.types import Computed, Failure, FailureKind, Usage, Utilisation, WindowKind, WindowReading

MOST_WARMED = 32  # of an agent's requests, of which is looked at anew how much of their prompts is cached
EMIT_EVERY_S = 1.0  # between two events with what replies say of a family's rate windows
LONGEST_RESET_S = 1e12
"""Resets are reported as at most this, some 30,000 years, so that each is a number that JSON has."""
MOST_STAGGERED = 20  # grants that are spaced out after a pause; later ones meet a lane at work

FAMILIES_KEPT = 256
"""Families of models of which a lane keeps the rate windows; beyond it the oldest goes of which no reply stated any and
nothing is in flight, because agents make up models' names."""

KEPT = 256  # lanes remembered; beyond it those go that are at rest and were used longest ago
UNPROVEN_KEPT = 32
"""Of these, lanes whose credential no provider has accepted so far. Made-up ones come as fast as they can be refused,
and mustn't displace what was learned of real ones."""

_CLOSED, _OPEN = CircuitState.CLOSED, CircuitState.OPEN
_INNOCENT = frozenset({FailureKind.QUOTA, FailureKind.CLIENT_ERROR})
"""Failures that say nothing about congestion."""
_EXCUSES = frozenset({Blame.EXCUSED, Blame.OWN})
_REFUSING = frozenset({FailureKind.RATE_LIMITED, FailureKind.QUOTA})
"""Failures by which the provider enforces a limit."""
_PAUSING = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.SERVER_ERROR})
"""Failures whose Retry-After pauses the lane."""
_OF_A_MODEL = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED})
"""Refusals that, as far as a reply tells, are about the model that was asked for."""
TOGETHER_S = 10.0
"""Refusals of two families of models no further apart, without an answer in between, are about the lane."""


class Pause(Struct):
    """A pause that the provider asked for, and how its end is spaced out; of the lane, or of a family of models."""

    until: float = -math.inf
    next_grant_at: float = -math.inf
    staggered: int = 0  # grants that are still to be spaced out

    def granted(self, now: float, stagger_s: float) -> None:
        """Count a grant that is spaced out."""
        self.staggered -= 1
        self.next_grant_at = now + stagger_s


class _Allowances(dict[str, Allowance]):
    """Rate windows by family of models, each opened when it is first asked for."""

    def __init__(self, new: Callable[[], Allowance]) -> None:
        super().__init__()
        self._new = new

    def __missing__(self, family: str) -> Allowance:
        if len(self) >= FAMILIES_KEPT:
            disposable = next((family for family, each in self.items() if each.disposable), None)
            if disposable is not None:
                del self[disposable]
        allowance = self[family] = self._new()
        return allowance


class Lane:
    """Decides whether a ticket may be sent now; the :class:`.dispatcher.Dispatcher` acts on it."""

    def __init__(
        self,
        key: str,
        config: LaneConfig,
        settings: SchedulerConfig,
        emit: Callable[[ev.Event], None],
        total: Gate | None = None,
        leasing: Leasing | None = None,
    ) -> None:
        self.key = key
        self.config = config
        self.settings = settings
        self.leasing = leasing
        """Its lease, which it shares the credential's limits by; None: no other proxy is known."""
        self.leased_until = math.inf
        """When the lease ends; inf: it doesn't by itself, or there is none."""
        self.aimd = Aimd(config.aimd, self.ceiling, self.beginning)
        self.gate = Gate(self.aimd.level) if leasing is None else Gate(0.0, least=0)
        self.total = total
        """The gate that all lanes of the upstream share; None: their number together has no limit."""
        self.last_grant = 0  # number of the scheduler's grant that was its last; 0: there was none
        self.proven = False  # a request of it was answered, so its credential isn't made up
        self.circuit = Circuit(config.circuit)
        self.estimators = Estimators(config.provider)
        caching = self.estimators.caching
        self.first_writes = FirstWrites(caching.kept_s, automatic=caching.automatic) if caching is not None else None
        self.queue = LaneQueue(settings.queue, self._takes_s, self.estimators.guess_cached)
        self.allowances = _Allowances(self._open_allowance)
        self.long = LongWindows(settings.pace, lambda: self.gate.active)
        self.whole = Pause()
        self.pauses: dict[str, Pause] = {}
        """By family of models that alone is or was paused, until its grants aren't spaced out any more."""
        self.retries = Retries(settings.retry)
        self.load = 0.0
        """Requests at the upstream, summed over the seconds until :attr:`_load_at`."""
        self.others = 0
        """Of these, the ones that didn't come through this lane, as far as the server tells."""
        self._load_at = 0.0
        self._knee = Knee()
        self.first_attempts = 0  # requests in flight that were never sent before
        self._faults = Faults()
        self._fault_cut: tuple[float, float] | None = None
        """The level before it was cut because of 500s that may be their requests' own, and when that was."""
        self.backing_off: dict[int, Ticket] = {}  # between two attempts, or set aside for another's, by number
        self.hold_s: float | None = None
        """How long an attempt holds a slot, each weighing less than the next; None until the first has ended."""
        self.used_at = -math.inf  # when a request last came for it
        self.wake_at = math.inf  # a timer is set for this moment
        self.refusal = ""
        """What the upstream said to the last attempt, if that failed."""
        self.used_up = False
        """It said that credit, a plan or a long quota is used up."""
        self.disproved = 0
        """Failures in a row, each of an attempt that began after the one before was known."""
        self._failed_at = -math.inf
        self.emit = emit
        """Publishes an event."""
        self._refused_cut: tuple[str, float] | None = None
        """The level before it was cut because a family was refused, while no other was asked for."""
        self._lockstep: dict[WindowKind, Lockstep] = {}
        self._doubted: set[tuple[WindowKind, bool]] = set()
        """Kinds of windows of which it was reported that a reset was doubted, and whether as absurd."""

    def configure(self, now: float, config: LaneConfig, settings: SchedulerConfig) -> None:
        """Go on with other knobs, at once; what is in flight stays there."""
        level, begin_at = self.aimd.level, self.config.begin_at
        self.config, self.settings = config, settings
        self.aimd.configure(config.aimd, self.ceiling)
        if config.begin_at != begin_at:
            self.aimd.begin(self.beginning)
        self.circuit.configure(config.circuit)
        self.retries.config = settings.retry
        for allowance in self.allowances.values():
            allowance.configure(config)
        if self.aimd.level != level:
            self.push_level(now, "operator")

    @property
    def ceiling(self) -> float:
        """The highest level that the settings, and a share that has to do without the other proxies, allow."""
        leasing, most = self.leasing, self.config.max_concurrency
        ceiling = float(most) if most and self.settings.admission else math.inf
        return ceiling if leasing is None or leasing.terms.by_credits else min(ceiling, leasing.lease.slots)

    @property
    def beginning(self) -> float:
        """The level to begin at, in a fleet for all proxies together; inf: the ceiling."""
        return float(self.config.begin_at) if self.config.begin_at and self.settings.admission else math.inf

    @property
    def paused_until(self) -> float:
        """End of a pause of the whole lane; in the past or -inf: there is none."""
        return self.whole.until

    @property
    def next_grant_at(self) -> float:
        """Before this, nothing is granted because a pause has just ended."""
        return self.whole.next_grant_at

    @property
    def vacant(self) -> float:
        """Number of free slots, here and in the upstream as a whole."""
        return self.gate.vacant if self.total is None else min(self.gate.vacant, self.total.vacant)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is on it, and no decision of the operator would be lost with it."""
        busy = self.gate.active or self.queue.waiting or self.backing_off
        return not (busy or self.aimd.pinned or self.circuit.forced)

    def forget(self, agent: str) -> None:
        """Drop what is kept of an agent that is gone."""
        self.queue.forget(agent)
        self.estimators.forget(agent)

    def _open_allowance(self) -> Allowance:
        return Allowance(self.config, None if self.leasing is None else self.leasing.terms)

    def delay_s(self, ticket: Ticket, now: float) -> float:
        """Return how long the ticket's family of models and its rate windows hold it, 0 for not at all."""
        family, delay_s = ticket.request.family, 0.0
        if (self.pauses or self.circuit.family is not None) and (shut := self.family_gate(family, now)) is not None:
            delay_s = shut[1]
        if not self.settings.rate_windows:
            return delay_s
        allowance = self.allowances[family]
        if not allowance.windows:
            return delay_s
        if ticket.cached and ticket.warm_until <= now:
            self.estimators.guess_cached(ticket, now)
        window_s = allowance.delay_s(now, ticket)
        if self.queue.waiting > 1 and self.queue.warm_first(ticket):
            window_s = max(window_s, allowance.spaced_s(now))
        if window_s > 0 and self.config.grows:
            grown, window_s = allowance.grow(now, ticket, self.aimd.settle_s)
            for window in grown:
                self.assumed_changed(now, family, window)
        return max(delay_s, window_s)

    def _takes_s(self, ticket: Ticket) -> float:
        """Return for how long the ticket takes all of what limits its family: slots, or a rate window."""
        slots_s = (self.hold_s or 0.0) / (self.gate.limit or 1.0)
        allowance = self.allowances[ticket.request.family]
        if not (allowance.windows and self.settings.rate_windows):
            return slots_s
        return max(slots_s, allowance.takes_s(ticket))

    def _cached_anew(self, now: float, ticket: Ticket, usage: Usage, news: tuple[int, float] | None) -> None:
        """Report what the order has saved, and what had expired; have what the ticket's agent has waiting go by what
        the provider's cache now has of the ticket's prompt."""
        request = ticket.request
        head = now, ticket.id, request.agent, self.key, request.model
        if ticket.ahead and usage.cache_read_tokens >= LEAST:
            self.emit(ev.PromptCached(*head, "order", usage.cache_read_tokens, usage))
        if news is None:
            return
        again, expired_at = news
        if again:
            why: Literal["switched", "waited", "thought"] = "thought"
            if ticket.arrived_at - request.waited_s < expired_at:
                why = "switched" if expired_at == math.inf else "waited"
            self.emit(ev.PromptCached(*head, why, again, usage))
        if len(ticket.agent.tickets) == 1:
            return
        for other in islice(ticket.agent.tickets.values(), MOST_WARMED):
            if other.in_queue and other.request.lane == self.key:
                self.estimators.guess_cached(other, now)
                self.queue.warmed(other, now)

    def assumed_changed(self, now: float, family: str, window: Window, *, refused: bool = False) -> None:
        """Report that a limit has changed that is only assumed."""
        self.emit(ev.AssumedLimitChanged(now, self.key, family, window.kind, window.full, refused))

    def family_gate(self, family: str, now: float) -> tuple[str, float] | None:
        """Return the gate that is shut to this family, though not to the lane, and the seconds until it opens (inf:
        when something happens); None: none is."""
        if self.pauses and (pause := self.pauses.get(family)) is not None:
            until = max(pause.until, pause.next_grant_at)
            if now < until:
                return "rate_limited", until - now
        circuit = self.circuit
        if circuit.family == family and self.circuit_shut:
            reopens_at = circuit.reopens_at
            return "circuit", reopens_at - now if reopens_at is not None and reopens_at > now else math.inf
        return None

    @property
    def all_pauses(self) -> dict[str | None, Pause]:
        """The pauses by family, and (None) that of the whole lane."""
        return {None: self.whole, **self.pauses}  # type: ignore[dict-item]

    def paused_family_until(self, family: str) -> float:
        """Return when the pause of the lane or of this family is over; in the past or -inf: there is none."""
        pause = self.pauses.get(family)
        return self.whole.until if pause is None else max(self.whole.until, pause.until)

    @property
    def circuit_shut(self) -> bool:
        """Whether the circuit lets nothing through of what it keeps: all, or a family."""
        return self.settings.backpressure and not self.circuit.admits()

    def probes_with(self, ticket: Ticket) -> bool:
        """Whether the ticket, sent now, is the probe of the circuit."""
        half_open = self.circuit.state is CircuitState.HALF_OPEN and self.settings.backpressure
        return half_open and self.circuit.keeps(ticket.request.family)

    @property
    def shut_for_all(self) -> bool:
        """Whether the circuit lets through no request of any family."""
        return self.circuit.family is None and self.circuit_shut

    def closed_until(self, now: float) -> float | None:
        """Return None if the lane admits a ticket, else when to check again (inf: when something happens)."""
        if now < self.whole.until:
            return self.whole.until
        if self.circuit.state is not _CLOSED and self.shut_for_all:
            reopens_at = self.circuit.reopens_at
            # One that others probe may stay open longer than was thought.
            return reopens_at if reopens_at is not None and reopens_at > now else math.inf
        if now >= self.leased_until:
            return math.inf
        if not self.gate.free:
            self.aimd.saturated = True
            return math.inf
        if self.total is not None and not self.total.free:
            return math.inf  # a slot that is released there is offered to all lanes that share it
        return self.whole.next_grant_at if now < self.whole.next_grant_at else None

    def circuit_refusal(self, ticket: Ticket, now: float) -> Refusal | None:
        """Return why an open circuit refuses the ticket; None: it may wait until the circuit is tried again."""
        circuit = self.circuit
        if circuit.state is not _OPEN or not self.settings.backpressure or not circuit.keeps(ticket.request.family):
            return None
        reopens_at = circuit.reopens_at
        if circuit.shared and reopens_at is not None and reopens_at <= now:
            return None  # whoever has a request waiting may be told to probe
        refuses = circuit.forced == "open" or circuit.config.when_open == "refuse"
        if refuses or (reopens_at is not None and reopens_at > ticket.expires_at):
            wait_s = self.config.circuit.cooldown_s if reopens_at is None else reopens_at - now
            return Refusal("circuit_open", max(wait_s, 1.0))
        return None

    def enter(self, ticket: Ticket, now: float) -> None:
        """Take a slot and the rate windows' reservations for the ticket."""
        gate, circuit, family = self.gate, self.circuit, ticket.request.family
        ticket.load = self.load = self.load + (gate.active + self.others) * (now - self._load_at)
        self._load_at = now
        ticket.at_once = gate.active = gate.active + 1
        if ticket.attempts == 1:
            self.first_attempts += 1
        if self.total is not None:
            self.total.active += 1
        if gate.active + 1 > gate.limit:
            self.aimd.saturated = True
        if circuit.state is not _CLOSED and self.settings.backpressure:
            circuit.lease(ticket.id, family)
        ticket.epoch = circuit.epoch
        ticket.reservation = self.allowances[family].take(now, ticket)
        if self.leasing is not None:
            self.leasing.in_flight[ticket.priority] += 1
            for window, charge in ticket.reservation:
                if window.credits is not None:
                    window.credits.take(now, charge.amount, ticket.priority)
        if self.whole.staggered:
            self.whole.granted(now, self.settings.retry.stagger_s)
        if self.pauses and (pause := self.pauses.get(family)) is not None:
            pause.granted(now, self.settings.retry.stagger_s)
            if not pause.staggered:
                del self.pauses[family]

    def leave(self, ticket: Ticket, now: float) -> None:
        """Release the slot; reservations are settled apart."""
        gate = self.gate
        self.load += (gate.active + self.others) * (now - self._load_at)
        self._load_at = now
        gate.active -= 1
        if ticket.attempts == 1:
            self.first_attempts -= 1
        if self.total is not None:
            self.total.active -= 1
        if self.leasing is not None:
            self.leasing.in_flight[ticket.served_as] -= 1
            if gate.active >= gate.slots:
                self.leasing.urgent = True  # the slot is another proxy's
        if self.circuit.state is not _CLOSED:
            self.circuit.return_lease(ticket.id)
        held_s = now - ticket.granted_at
        self.hold_s = held_s if self.hold_s is None else self.hold_s + LATEST_WEIGHT * (held_s - self.hold_s)

    def read_headers(
        self, now: float, ticket: Ticket, readings: tuple[WindowReading, ...], plan: tuple[Utilisation, ...]
    ) -> None:
        """Take in what a reply said of the rate windows."""
        if plan:
            for news in self.long.read(now, plan, self.key):
                self.emit(news)
            self.queue.paced = self.long.held_s if self.long.paces else None
        if readings:
            ticket.headed_at = now
            family = ticket.request.family
            allowance = self.allowances[family]
            for reading in allowance.read(now, readings, ticket.granted_at, ticket.reservation):
                self._report_doubt(now, family, reading)
            if len(self.allowances) > 1 and self.leasing is None:
                self._compare(now, family, readings, ticket.granted_at)
            if now >= allowance.emit_at:
                allowance.emit_at = now + EMIT_EVERY_S
                self.emit(ev.LimitsRead(now, self.key, family, readings))

    def _compare(self, now: float, family: str, readings: tuple[WindowReading, ...], started_at: float) -> None:
        """Have families that turn out to share a window take from one, or those that don't from windows of their own.
        In a fleet all keep their own, because credits are leased for each."""
        own = self.allowances[family].windows
        for reading in readings:
            window = own.get(reading.kind)
            if window is None:
                continue
            if (lockstep := self._lockstep.get(reading.kind)) is None:
                lockstep = self._lockstep[reading.kind] = Lockstep()
            other = lockstep.read(now, family, window, reading, started_at)
            theirs = (
                None
                if other is None or other not in self.allowances
                else self.allowances[other].windows.get(reading.kind)
            )
            if theirs is None:
                continue
            if theirs is window:
                self.allowances[family].part(reading.kind).read(now, reading, started_at, None)
                continue
            window.join(theirs, now)
            for each in self.allowances.values():
                if each.windows.get(reading.kind) is theirs:
                    each.windows[reading.kind] = window

    @property
    def named_windows(self) -> dict[Window, str]:
        """The windows, and what they are called: the family of models, and how many more take from it."""
        takers: dict[Window, list[str]] = {}
        for family, allowance in self.allowances.items():
            for window in allowance.windows.values():
                takers.setdefault(window, []).append(family)
        return {each: names[0] + (f" +{len(names) - 1}" if len(names) > 1 else "") for each, names in takers.items()}

    def _report_doubt(self, now: float, family: str, reading: WindowReading) -> None:
        stated_s = reading.reset_in_s
        reset_in_s = stated_s if stated_s is not None and stated_s < LONGEST_RESET_S else LONGEST_RESET_S
        absurd = reset_in_s > MOST_RESET_S
        if (reading.kind, absurd) not in self._doubted:
            self._doubted.add((reading.kind, absurd))
            self.emit(ev.ResetDoubted(now, self.key, family, reading.kind, reset_in_s, absurd))

    def succeeded(self, now: float, ticket: Ticket, ttft_s: float | None, so_far: Usage | None, *, whole: bool) -> bool:
        """Count a first content, or a whole answer: a latency sample for AIMD, a success for the circuit; without
        `ttft_s` a reply that is neither. Return whether that may have made room."""
        self.proven = True
        if self.refusal:
            self.refusal, self.used_up, self.disproved = "", False, 0
        family = ticket.request.family
        if self.long.refused:
            self.long.answered(family)
        allowance = self.allowances[family]
        allowance.fate.answered(now, ticket)
        if allowance.doubtful:
            for window, charge in ticket.reservation or ():
                if charge.probe:
                    window.present.stated.probe_answered()
        self.retries.note(ok=True)
        if so_far is not None and not whole:
            ticket.kept = True
            news = self.estimators.keep(ticket, so_far, now)
            if ticket.ahead or news is not None:
                self._cached_anew(now, ticket, so_far, news)
        if ticket.fault is not None:
            self._faults.answered(now, ticket.fault)
        if not self.settings.backpressure:
            return False
        changed = ttft_s is not None and self._sampled(now, ticket, ttft_s, so_far, allowance.pace, whole)
        if self._refused_cut is not None and self._regain(now, family, ticket.granted_at):
            changed = True
        if self.circuit.report(now, ticket.id, ticket.epoch, True, family):
            self.report_circuit(now, "probe succeeded")
            changed = True
        return changed

    def _sampled(
        self, now: float, ticket: Ticket, ttft_s: float, so_far: Usage | None, pace: Pace, whole: bool
    ) -> bool:
        """Take a latency sample for AIMD. Return whether the level changed."""
        before = self.aimd.level
        excess_s, in_flight = 0.0, self._in_flight(now, ticket)
        ticket.in_flight, ticket.ttft_s, alone = in_flight, None if whole else ttft_s, in_flight <= ALONE
        if not alone:
            inputs = self.estimators.fresh_input(ticket, so_far)
            outputs = so_far.output_tokens if whole and so_far is not None else 0
            least_s = (pace.whole if whole else pace.first).estimate(inputs, outputs)
            if ttft_s > least_s:
                excess_s = ttft_s - least_s
        reach = math.inf
        if before < math.inf and self.aimd.ceiling == math.inf:  # a stated ceiling is as far as AIMD goes by itself
            # Throughput shows only as far as agents ask and answers are told from one another, so it leads no lower
            # than where the level begins, which a server with slots has stated.
            reach = max(self._knee.reach(now, before), min(self.beginning, before))
        changed = self.aimd.sample(now, ttft_s, ticket.granted_at, excess_s, alone=alone, reach=reach)
        if changed:
            slow = self.aimd.level < before <= reach
            if slow:
                self._fault_cut = None
            cause = "latency" if slow else "knee" if reach < before else "grow"
            self.push_level(now, cause, self.aimd.too_slow_s if slow else None)
        return changed

    def pass_load(self, now: float) -> None:
        """Count what was at the upstream until now; to be called before that changes."""
        self.load += (self.gate.active + self.others) * (now - self._load_at)
        self._load_at = now

    def _in_flight(self, now: float, ticket: Ticket) -> float:
        """Return how many requests were in flight on average since the ticket was granted; infinity where others' load
        isn't known."""
        if self.leasing is not None or (self.total is not None and self.total.active > self.gate.active):
            return math.inf
        took_s = now - ticket.granted_at
        if took_s <= 0:
            return 1.0 + self.others
        return (self.load + (self.gate.active + self.others) * (now - self._load_at) - ticket.load) / took_s

    def begins_s(self, ticket: Ticket) -> float:
        """Return how long a stream takes to begin that is sent now, if what is at the server is computed before it,
        prompts or whole answers; infinity: that isn't known."""
        prompt_s = self.allowances[ticket.request.family].pace.first.estimate(ticket.estimated_input)
        before = max(0, self.gate.active - 1) + self.others
        return prompt_s + before * max(prompt_s, self.hold_s or 0.0) if before else prompt_s

    def learn(self, now: float, ticket: Ticket, usage: Usage | None, computed: Computed | None = None) -> None:
        """Learn from an answer that ends now, while it still holds its slot, and from its real usage if that is known.
        What the server says that it computed is nearer to what the answer takes alone: nothing of its queue is in."""
        inputs: float = ticket.estimated_input
        outputs = 0
        if usage is not None:
            if not ticket.kept:
                news = self.estimators.keep(ticket, usage, ticket.granted_at + (ticket.ttft_s or 0.0))
                if ticket.ahead or news is not None:
                    self._cached_anew(now, ticket, usage, news)
            inputs, outputs = self.estimators.learn(ticket.request, usage), usage.output_tokens
        took_s, ttft_s = now - ticket.granted_at, ticket.ttft_s
        alone, pace = ticket.in_flight <= ALONE, self.allowances[ticket.request.family].pace
        if ttft_s is None:
            whole_s = took_s if computed is None else min(took_s, computed.prompt_s + computed.answer_s)
            pace.whole.learn(whole_s, inputs, outputs, alone=alone)
        else:
            first_s = ttft_s if computed is None else min(ttft_s, computed.prompt_s)
            pace.first.learn(first_s, inputs, 0, alone=alone)
        if self.aimd.ceiling < math.inf or self.aimd.level == math.inf or took_s <= 0:
            return  # what more at once bring leads nowhere beneath a stated ceiling, nor while there is no level at all
        in_flight = ticket.in_flight if ttft_s is None else self._in_flight(now, ticket)
        if in_flight == math.inf:
            return
        if ttft_s is None:
            alone_s = pace.whole.estimate(inputs, outputs)
        else:
            rest_s = took_s - ttft_s
            if computed is not None:
                rest_s = min(rest_s, computed.answer_s)
            pace.rest.learn(rest_s, 0, outputs, alone=in_flight <= ALONE)
            alone_s = pace.first.estimate(inputs) + pace.rest.estimate(0, outputs)
        self._knee.learn(now, in_flight, took_s, alone_s)

    def failed(self, now: float, ticket: Ticket, failure: Failure) -> bool:
        """Count a failed attempt. Return whether that opened the circuit."""
        cause = str(failure.status) if failure.status is not None else failure.kind.value
        blame = Blame.COUNTS if failure.words is None else self._blame(now, ticket, failure)
        if failure.kind is not FailureKind.CLIENT_ERROR and blame is Blame.COUNTS:
            self.refusal, self.used_up = failure.message or cause, failure.kind is FailureKind.QUOTA
            if not self.used_up and ticket.granted_at >= self._failed_at:
                self.disproved, self._failed_at = self.disproved + 1, now
        if failure.kind in _REFUSING:
            for window, charge in ticket.reservation or ():
                if charge.probe:
                    window.present.stated.probe_refused()
        circuit, family = self.circuit, ticket.request.family
        if failure.kind in _INNOCENT or blame in _EXCUSES:
            # The request's own fault only shows that the upstream is there, which is what a probe tests.
            probing = circuit.state is CircuitState.HALF_OPEN and circuit.probe == ticket.id
            if probing and circuit.report(now, ticket.id, ticket.epoch, True, family):
                self.report_circuit(now, "probe was answered")
            return False
        if blame is Blame.UNSURE and circuit.state is _CLOSED:
            return False
        if (
            failure.kind is FailureKind.RATE_LIMITED
            and (cut := self.allowances[family].refused(now, ticket)) is not None
        ):
            if self.leasing is None:
                self.assumed_changed(now, family, cut, refused=True)
            else:
                self.leasing.urgent = True
        alone = failure.kind in _OF_A_MODEL and self._refused_alone(now, family)
        if failure.delay_s and failure.retryable and failure.kind in _PAUSING and failure.delay_s <= MAX_PAUSE_S:
            paused = family if alone else None
            if self.pause(now, failure.delay_s, cause, paused) and self.leasing is not None:
                self.leasing.own_pauses.add(paused)
                self.leasing.urgent = True
        self.retries.note(ok=False)
        if not self.settings.backpressure:
            return False
        # Algorithm 1: cut the level, and count the error. That one family is refused while others are answered is no
        # congestion.
        spared = alone and self._others_are_answered(now, family)
        before = self.aimd.level
        doubtful = failure.words is not None
        once = doubtful and self._fault_cut is not None and now - self._fault_cut[1] <= TOGETHER_S
        if not (spared or once) and self.aimd.congested(now, ticket.granted_at, self.gate.active):
            self._note_cut(now, family if alone else None, before, doubtful=doubtful)
            self.push_level(now, failure.kind.value)
        if not circuit.report(now, ticket.id, ticket.epoch, False, family, own_refusal=alone, doubtful=doubtful):
            return False
        self.report_circuit(now, cause)
        if not spared and self.aimd.open_circuit(now, self.gate.active):
            self._note_cut(now, circuit.family, before, doubtful=doubtful)
            self.push_level(now, "circuit")
        return True

    def _blame(self, now: float, ticket: Ticket, failure: Failure) -> Blame:
        """Return what a 500 says about the upstream. If that is nothing, take back what the request's 500s before it
        have done."""
        request, answered_from = ticket.request, self.allowances[ticket.request.family].fate.answered_from
        others = self.first_attempts > (ticket.attempts == 1)
        blame, ticket.fault = self._faults.judge(
            now, request.agent, ticket.fault, failure, answered_from, others=others
        )
        fault = ticket.fault
        if fault is not None and blame in _EXCUSES and (fault.own or fault.count > 1):
            self.circuit.forgive(ticket.id)
            if self._fault_cut is not None and self.aimd.regain(now, self._fault_cut[0]):
                self.push_level(now, "grow")
            self._fault_cut = None
            if not fault.free:
                self.retries.refund(ticket.attempts - 1 - fault.refunded)
                fault.refunded = ticket.attempts - 1
        return blame

    def _refused_alone(self, now: float, family: str) -> bool:
        """Note that a family of models was refused. Return whether that says nothing of the others, as far as known:
        none of them was refused a moment ago, or one was answered since; and they share no used-up window with it."""
        own = self.allowances[family]
        own.fate.refused(now)
        others = [each.fate for each in self.allowances.values() if each is not own]
        refused = [each.refused_at for each in others if now - each.refused_at <= TOGETHER_S and not each.works]
        if refused and not any(each.answered_from > min(refused) for each in others):
            return False
        return not any(window.shared and window.stated.level < 1 for window in own.windows.values())

    def _others_are_answered(self, now: float, family: str) -> bool:
        """Whether requests of other families are answered while this one is refused."""
        since = min(self.allowances[family].fate.refused_since, now - TOGETHER_S)
        return any(each.fate.answered_at >= since for name, each in self.allowances.items() if name != family)

    def _note_cut(self, now: float, refused: str | None, before: float, *, doubtful: bool) -> None:
        cut = self._fault_cut
        self._fault_cut = (before if cut is None else cut[0], now) if doubtful else None
        if refused is None:
            self._refused_cut = None
        elif self._refused_cut is None or self._refused_cut[0] != refused:
            self._refused_cut = refused, before

    def _regain(self, now: float, answered: str, granted_at: float) -> bool:
        """Take back the cut of the level because a family was refused: a request of another one, sent since, is
        answered, so it wasn't congestion. Return whether the level changed."""
        assert self._refused_cut is not None
        refused, level = self._refused_cut
        if answered != refused and granted_at < self.allowances[refused].fate.refused_since:
            return False
        self._refused_cut = None
        if answered == refused or not self.aimd.regain(now, level):
            return False
        self.push_level(now, "grow")
        return True

    def poll_circuit(self, now: float, *, fresh: bool = False) -> None:
        """Half-open the circuit if its cooldown is over, or (`fresh`) for a request that hasn't failed yet."""
        reopens_at = self.circuit.reopens_at
        if self.settings.backpressure and self.circuit.poll(now, fresh=fresh):
            early = reopens_at is not None and now < reopens_at
            self.report_circuit(now, "new request" if early else "cooldown over")

    def pause(self, now: float, for_s: float, cause: str, family: str | None = None) -> bool:
        """Send nothing for so long, as the provider asks, or (with `family`) nothing of that family of models;
        afterwards it starts again one by one. Return whether the pause is longer than before."""
        pause = self.whole if family is None else self.pauses.get(family) or Pause()
        until = now + for_s
        if for_s <= 0 or until <= pause.until:
            return False
        news = now >= pause.until or until > pause.until + 1.0
        pause.until = until
        pause.staggered = int(min(max(self.gate.slots, 1), MOST_STAGGERED))
        if family is not None:
            self.pauses[family] = pause
        if news:
            self.emit(ev.LaneRateLimited(now, self.key, for_s, cause, family))
        return True

    def resume(self, now: float, *, early: bool = False) -> None:
        """End the provider's pauses that are over; with `early` all of them."""
        for family, pause in self.all_pauses.items():
            if -math.inf < pause.until and (early or pause.until <= now):
                pause.until = -math.inf
                self.emit(ev.LaneReleased(now, self.key, family))

    def reopen(self, now: float) -> None:
        """End the pauses, and forget what headers have said of used-up windows. Our own limits hold."""
        for allowance in self.allowances.values():
            allowance.release(now)
        self.resume(now, early=True)

    def push_level(self, now: float, cause: str, excess_s: float | None = None) -> None:
        """Hand AIMD's level c_t to the gate (paper, Direct Backpressure-Admission Wiring), and report it."""
        self.set_slots()
        if self.leasing is not None and self.leasing.shared and self.aimd.cut is not None:
            self.leasing.urgent = True
        self.emit(ev.LevelChanged(now, self.key, self.aimd.level, cause, excess_s))

    def set_slots(self) -> None:
        """Set the gate's limit to AIMD's level, or to what the lease allows."""
        if self.leasing is not None:
            joining = self.leasing.lease.state is LeaseState.JOINING
            self.gate.limit = self.leasing.slots(self.aimd) if self.settings.admission or joining else math.inf
        elif self.settings.admission:
            self.gate.limit = self.aimd.level

    def report_circuit(self, now: float, cause: str) -> None:
        """Report the circuit's state."""
        if self.leasing is not None and self.circuit.outcome is not None:
            self.leasing.urgent = True
        reopens_at = self.circuit.reopens_at
        wait_s = None if reopens_at is None else reopens_at - now
        circuit = self.circuit
        self.emit(ev.CircuitChanged(now, self.key, circuit.state.value, cause, wait_s, circuit.family))


class Lanes(dict[str, Lane]):
    """The lanes at hand by key, within bounds: a credential that is renewed every hour makes a new one each time."""

    def make_room(self) -> None:
        """Forget the older half of the idle lanes, if there are too many."""
        unproven = [lane for lane in self.values() if not lane.proven]
        if len(unproven) >= UNPROVEN_KEPT:
            self._forget_half(unproven)
        if len(self) >= KEPT:
            self._forget_half(self.values())

    def _forget_half(self, lanes: Iterable[Lane]) -> None:
        at_rest = sorted((lane for lane in lanes if lane.at_rest), key=lambda lane: lane.used_at)
        for lane in at_rest[: (len(at_rest) + 1) // 2]:
            self.pop(lane.key).wake_at = math.inf  # its timer, if it has one, is no more its own
