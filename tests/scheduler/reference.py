"""What the scheduler must do, restated with dictionaries and sums: told of what happened, it checks every grant.

It knows the rules (the paper and ARCHITECTURE.md), not how the scheduler keeps them. Where they leave a choice, such as
which of two agents is next, any choice is right.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.queue import LaneQueue
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Failure, FailureKind, Priority, Usage

SPAN_S = 60.0
AWAITED_S = 0.01
LONGEST_PAUSE_S = 300.0
SLACK_S = 0.003
"""Timers fire up to a millisecond after what they wait for."""
LARGE = 0.9  # a request larger than this share of a window needs this share of it
OF_A_MODEL = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED})
TOGETHER_S = 10.0
PAUSING = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.SERVER_ERROR})


@dataclass(eq=False)
class Entry:
    """A request, as its client and the upstream see it."""

    ticket: Ticket
    expires_at: float
    tokens: int = 0
    state: str = "new"  # then `waits`, `backs off`, `in flight`, `done`
    attempts: int = 0
    granted_at: float = 0.0
    not_before: float = -math.inf
    content: bool = False
    cut: bool = False
    """The operator has stopped its agent."""

    @property
    def bound_s(self) -> float:
        """How long others of its agent may pass it."""
        return min(60.0, (self.ticket.expires_at - self.ticket.arrived_at) / 2)

    @property
    def came_at(self) -> float:
        """When its client first sent it."""
        return self.ticket.arrived_at - self.ticket.request.waited_s

    def turn(self, at: float) -> tuple[int, float]:
        """Sorts an agent's own requests at that moment."""
        if at >= self.came_at + self.bound_s:
            return 0, self.came_at + self.bound_s
        longer_s = self.ticket.request.size_chars / 4 / 1000
        return 2 - bool(self.attempts), self.came_at + min(longer_s, self.bound_s / 2)

    @property
    def agent(self) -> str:
        return self.ticket.request.agent

    @property
    def lane(self) -> str:
        return self.ticket.request.lane


@dataclass(eq=False)
class Road:
    """A lane."""

    config: LaneConfig
    level: float
    rpm: tuple[int, bool]  # our own limit, and whether it binds
    tpm: tuple[int, bool]
    circuit: str = "closed"
    circuit_of: str | None = None  # the family of models that it keeps; None: all
    forced_open: bool = False
    probe: int | None = None
    paused_until: float = -math.inf
    was_paused: bool = False
    pauses: dict[str, float] = field(default_factory=dict)  # of a family of models alone, and when they end
    refused: dict[str, float] = field(default_factory=dict)  # when a family was refused last
    served: dict[str, float] = field(default_factory=dict)  # the latest beginning of an attempt that was answered
    changed_at: float = -math.inf
    """When something last was granted or ended."""
    stated: set[str] = field(default_factory=set)  # families of whose limits replies have told
    charges: dict[tuple[str, str], list[Charge]] = field(default_factory=lambda: defaultdict(list))
    since: dict[int, float] = field(default_factory=dict)  # by class that waits: since it came, or was last served
    passes: dict[int, int] = field(default_factory=dict)  # and the grants in a row that passed it


@dataclass(eq=False)
class Charge:
    """What one attempt takes of a window."""

    ticket: int
    at: float
    amount: float
    limited: bool  # there was a limit when it was taken


class Reference:
    """The books of all that happened."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.entries: dict[int, Entry] = {}
        self.roads: dict[str, Road] = {}
        self.leads: dict[str, str] = {}  # agents that are a part of another, and of which
        self.held: set[str] = set()  # agents that the operator paused
        self.stopped: set[str] = set()
        self.tasks: dict[str, tuple[str, tuple[str, ...]]] = {}  # agent and predecessors
        self.task_states: dict[str, str] = {}
        self.paused = self.draining = False
        self.failing: Failure | None = None  # why the attempt failed that is reported next
        self.usage_sent = True

    # --- Questions ------------------------------------------------------------------------------------------------

    def of(self, state: str, lane: str | None = None) -> list[Entry]:
        return [e for e in self.entries.values() if e.state == state and lane in (None, e.lane)]

    def line(self, agent: str) -> list[str]:
        """The agent, and those that it is a part of."""
        found = [agent]
        while (lead := self.leads.get(found[-1])) is not None:
            found.append(lead)
        return found

    def is_held(self, agent: str) -> bool:
        """Whether the operator or a task keeps its requests."""
        line = self.line(agent)
        return any(each in self.held or each in self.stopped for each in line) or any(map(self.task_waits, line))

    def task_waits(self, agent: str) -> bool:
        """Whether all of the agent's tasks that haven't ended wait for others."""
        mine = [name for name, (who, _) in self.tasks.items() if who == agent]
        live = [name for name in mine if self.task_states[name] in ("waiting", "ready", "running", "blocked")]
        undone = [any(self.task_states.get(dep, "done") != "done" for dep in self.tasks[name][1]) for name in live]
        return bool(live) and all(undone)

    def slots(self, lane: str) -> float:
        """Of the level the whole ones, one at least."""
        level = self.roads[lane].level
        return level if math.isinf(level) else max(1, math.floor(level))

    def together(self, lane: str) -> list[str]:
        upstream = self.roads[lane].config.upstream
        return [key for key, road in self.roads.items() if road.config.upstream == upstream]

    def has_slot(self, lane: str) -> bool:
        """Whether one more may be in flight here, and in all lanes of the upstream."""
        most = self.roads[lane].config.max_concurrency_per_upstream
        here = len(self.of("in flight", lane))
        return here < self.slots(lane) and (
            not most or sum(len(self.of("in flight", each)) for each in self.together(lane)) < most
        )

    def fits(self, entry: Entry, now: float, *, surely: bool) -> bool:
        """Whether our own windows have room; if not `surely`, what was taken while there was no limit is left out."""
        road, request = self.roads[entry.lane], entry.ticket.request
        if surely and self.is_shut(road, request.family, now):
            return False
        for kind, (limit, binding), amount in (("r", road.rpm, 1), ("t", road.tpm, entry.tokens)):
            if not limit or (not surely and not binding and request.family in road.stated):
                continue
            cut = now - SPAN_S + (-SLACK_S if surely else SLACK_S)
            found = road.charges[request.family, kind]
            taken = sum(each.amount for each in found if each.at > cut and (surely or each.limited))
            if taken + min(amount, LARGE * limit) > limit + 1e-6:
                return False
        return True

    def is_shut(self, road: Road, family: str, now: float) -> bool:
        """Whether this family of models may be held though others aren't."""
        paused = now < road.pauses.get(family, -math.inf) + 20 * (self.config.retry.stagger_s + SLACK_S)
        return paused or (road.circuit != "closed" and road.circuit_of == family)

    def is_about_lane(self, road: Road, family: str, kind: FailureKind, at: float) -> bool:
        """Whether this failure, which the books have, is more than one family's: others were refused a moment ago and
        not answered since, nor was a third family."""
        if kind not in OF_A_MODEL:
            return True
        others = {name: when for name, when in road.refused.items() if name != family and at - when <= TOGETHER_S}
        others = {name: when for name, when in others.items() if road.served.get(name, -math.inf) <= when}
        served = [when for name, when in road.served.items() if name != family]
        return bool(others) and not any(when > min(others.values()) for when in served)

    def may_go(self, lane: str, now: float) -> bool:
        """Whether the lane lets one more through, certainly."""
        road = self.roads[lane]
        probing = road.circuit == "half_open" and road.probe is None
        if road.was_paused and now - road.changed_at <= self.config.retry.stagger_s + SLACK_S:
            return False  # one by one after a pause
        return (
            not (self.paused or self.draining)
            and now >= road.paused_until + SLACK_S
            and (road.circuit == "closed" or road.circuit_of is not None or probing)
            and now - road.changed_at > AWAITED_S + SLACK_S
            and self.has_slot(lane)
        )

    def rank(self, road: Road, priority: int, now: float) -> tuple[int, float]:
        """The class in which this one competes: higher by one for each `ageing_s`, first after `max_passes`."""
        if road.passes[priority] >= self.config.queue.max_passes:
            return -1, road.since[priority]
        aged = int((now - road.since[priority]) / self.config.queue.ageing_s + 1e-9)
        return max(0, priority - aged), road.since[priority] if aged else math.inf

    # --- What happened --------------------------------------------------------------------------------------------

    def come(self, entry: Entry, now: float) -> None:
        """It joins its lane's queue."""
        entry.state = "waits"
        self.count(self.roads[entry.lane], entry.lane, now)

    def count(self, road: Road, lane: str, now: float) -> None:
        """Note which classes have begun to wait, or wait no more."""
        waiting = {int(e.ticket.priority) for e in self.of("waits", lane)}
        for priority in list(road.since):
            if priority not in waiting:
                del road.since[priority], road.passes[priority]
        for priority in waiting - set(road.since):
            road.since[priority], road.passes[priority] = now, 0

    def pass_time(self, now: float) -> None:
        """Delays that are over are over."""
        for entry in self.of("backs off"):
            if entry.not_before <= now:
                self.come(entry, entry.not_before)
        for key, road in self.roads.items():
            self.count(road, key, now)  # the operator may have moved some to other classes

    def see(self, events: list[ev.Event], *, reclassed: bool = False) -> None:
        """Take in what the scheduler reports, in its order."""
        fresh = any(isinstance(each, ev.BoostEnded) for each in events) or reclassed
        for event in chain.from_iterable(map(ev.apart, events)):
            match event:
                case ev.LaneOpened(_, lane, _, _, config):
                    assert config is not None
                    level = float(config.max_concurrency) or math.inf
                    rpm, tpm = (config.rpm, config.rpm_binding), (config.tpm, config.tpm_binding)
                    self.roads[lane] = Road(config, level, rpm, tpm)
                case ev.LevelChanged(_, lane, level, _):
                    self.roads[lane].level = level
                case ev.CircuitChanged(_, lane, state, _, _, family):
                    road = self.roads[lane]
                    road.circuit, road.circuit_of, road.probe = state, family, None
                case ev.TaskAdded(_, task, _, agent, _, _, after):
                    self.tasks[task] = agent, after
                    self.task_states.setdefault(task, "waiting")
                case ev.TaskChanged(_, task, state):
                    deps = [self.task_states.get(dep, "done") for dep in self.tasks[task][1]]
                    assert state not in ("ready", "running", "done") or all(dep == "done" for dep in deps), task
                    self.task_states[task] = state
                case ev.Arrived():
                    entry = self.entries[event.ticket]
                    entry.tokens = event.estimated_input + event.estimated_output
                    self.come(entry, event.at)
                case ev.Granted():
                    self.granted(event, ranked=not fresh)
                case ev.FirstContent():
                    entry = self.entries[event.ticket]
                    entry.content = True
                    family, served = entry.ticket.request.family, self.roads[entry.lane].served
                    served[family] = max(served.get(family, -math.inf), entry.ticket.granted_at)
                case ev.AttemptFailed():
                    self.failed(event)
                case ev.Finished() | ev.Abandoned() | ev.Refused() if event.ticket is not None:
                    entry = self.entries[event.ticket]
                    if isinstance(event, ev.Refused):
                        self.refused(entry, event)
                    else:
                        self.ended(entry, event.at, event.usage)
                    entry.state = "done"
                    self.count(self.roads[entry.lane], entry.lane, event.at)
                case _:
                    pass

    def granted(self, event: ev.Granted, *, ranked: bool) -> None:
        """Check one grant against every rule."""
        entry, lane, at = self.entries[event.ticket], event.lane, event.at
        road = self.roads[lane]
        assert entry.state == "waits", f"granted though it {entry.state}"
        assert entry.attempts + 1 == event.attempt <= self.config.retry.max_attempts
        assert at <= entry.expires_at
        assert not self.paused, "granted while nothing may be"
        assert not self.draining, "granted while nothing may be"
        assert not self.is_held(entry.agent), "its agent is held"
        family = entry.ticket.request.family
        assert at >= max(road.paused_until, road.pauses.get(family, at)), "the provider had asked for a pause"
        kept = road.circuit != "closed" and road.circuit_of in (None, family)
        assert not kept or (road.circuit == "half_open" and road.probe is None), road.circuit
        assert self.has_slot(lane), "more in flight than the level allows"
        assert self.fits(entry, at, surely=False), "a window is exceeded"
        mine = int(entry.ticket.priority)
        self.check_line(entry, at)
        if ranked and not road.stated:
            self.check_rank(road, entry, mine, at)
        entry.state = "in flight"
        entry.attempts, entry.granted_at = event.attempt, at
        if kept:
            road.probe = event.ticket
        for priority in road.passes:
            road.passes[priority] += 1
        if mine in road.passes:
            road.since[mine], road.passes[mine] = at, 0
        self.count(road, lane, at)
        road.changed_at = at
        for kind, (limit, _), amount in (("r", road.rpm, 1), ("t", road.tpm, entry.tokens)):
            road.charges[family, kind].append(Charge(event.ticket, at, amount, bool(limit)))

    def is_ageing(self, road: Road, priority: int, at: float) -> bool:
        """Whether the class becomes more urgent at about this moment, which rounding may move."""
        steps = (at - road.since[priority]) / self.config.queue.ageing_s
        return abs(steps - round(steps)) < 1e-6 and round(steps) > 0

    def check_line(self, entry: Entry, at: float) -> None:
        """No other of its agent's requests of the same class and family was next: the overdue, then those that were
        tried before, then who came first, where 1,000 tokens of a prompt count as a second later. An overdue one is
        passed by none of another family either, unless something else may hold that."""
        about = entry.ticket.request
        for other in self.of("waits", entry.lane):
            if other.agent != entry.agent or other.ticket.priority is not entry.ticket.priority:
                continue
            if other.not_before >= at or abs(other.came_at + other.bound_s - at) < 1e-6:
                continue
            family = other.ticket.request.family
            alone = all(e.agent == entry.agent and self.fits(e, at, surely=True) for e in self.of_family(entry, family))
            if family == about.family or (alone and other.turn(at)[0] == 0):
                turns = entry.turn(at), other.turn(at)
                assert turns[0] <= turns[1], f"{other.ticket.id} was before {entry.ticket.id}: {turns} at {at}"

    def of_family(self, entry: Entry, family: str) -> list[Entry]:
        return [e for e in self.of("waits", entry.lane) if e.ticket.request.family == family]

    def check_rank(self, road: Road, entry: Entry, mine: int, at: float) -> None:
        """No other class may have come first, unless its requests are held, or one of them by a window."""
        others = [e for e in self.of("waits", entry.lane) if e.not_before < at and int(e.ticket.priority) != mine]
        for priority in {int(e.ticket.priority) for e in others}:
            of_class = [e for e in others if int(e.ticket.priority) == priority]
            free = [e for e in of_class if not (self.is_held(e.agent) or e.ticket.agent.out_of_budget)]
            if not free or not all(self.fits(e, at, surely=True) for e in others):
                continue  # one that a window holds keeps its family's others, of later classes too
            if any(self.is_ageing(road, each, at) for each in (mine, priority)):
                continue
            most = self.config.queue.max_passes
            if any(abs(road.passes[each] - most) < 2 for each in (mine, priority)) or road.passes[mine] >= most:
                continue
            ranks = self.rank(road, mine, at), self.rank(road, priority, at)
            assert ranks[0] <= ranks[1], f"{entry.ticket.id} passed class {priority}: {ranks} at {at}"

    def ended(self, entry: Entry, at: float, usage: Usage | None) -> None:
        """An attempt's slot is free, and its charges are what was used."""
        road = self.roads[entry.lane]
        assert entry.state != "done", "ended twice"
        if entry.state != "in flight":
            return
        entry.state = "done"
        road.changed_at = at
        if road.probe == entry.ticket.id:
            road.probe = None
        for (_, kind), found in road.charges.items():
            for charge in found:
                if charge.ticket == entry.ticket.id and charge.at == entry.ticket.granted_at:
                    if not self.usage_sent:
                        charge.amount = 0
                    elif usage is not None and kind == "t":
                        charge.amount = usage.total

    def failed(self, event: ev.AttemptFailed) -> None:
        """Check what becomes of a failed attempt."""
        entry, failure, at = self.entries[event.ticket], self.failing, event.at
        assert failure is not None
        assert entry.state == "in flight"
        assert event.attempt == entry.attempts
        self.ended(entry, at, event.usage)
        if failure.kind is FailureKind.CUT:
            entry.expires_at += at - entry.granted_at  # what hung isn't counted as a wait
        delay_s, retry_in_s, road = failure.delay_s or 0.0, event.retry_in_s, self.roads[entry.lane]
        family = entry.ticket.request.family
        about_lane = self.is_about_lane(road, family, failure.kind, at)
        if failure.kind in OF_A_MODEL:
            road.refused[family] = at
        if failure.retryable and failure.kind in PAUSING and delay_s <= LONGEST_PAUSE_S and delay_s:
            if about_lane:
                road.paused_until = max(road.paused_until, at + delay_s)
                road.was_paused = True
            else:
                road.pauses[family] = max(road.pauses.get(family, at), at + delay_s)
        if retry_in_s is None:
            return
        assert failure.retryable
        assert not (entry.content)
        assert not (entry.cut)
        assert not (self.draining)
        assert entry.attempts < self.config.retry.max_attempts
        assert not road.forced_open
        kept = road.circuit == "open" and road.circuit_of in (None, family)
        assert not kept or road.config.circuit.when_open == "hold"
        assert delay_s <= LONGEST_PAUSE_S
        assert retry_in_s >= delay_s - 1e-9
        entry.not_before = at + retry_in_s
        entry.state = "backs off"
        if entry.not_before <= max(at, road.paused_until, road.pauses.get(family, at)):
            entry.not_before = at
            self.come(entry, at)

    def refused(self, entry: Entry, event: ev.Refused) -> None:
        """Check that there was a reason."""
        assert entry.state in ("waits", "backs off"), "refused, but not waiting"
        road, waiting = self.roads[entry.lane], len(self.of("waits")) + len(self.of("backs off"))
        line, reason = self.line(entry.agent), event.reason
        assert {
            "draining": self.draining,
            "agent_stopped": any(each in self.stopped for each in line),
            "queue_full": waiting > self.config.queue.max_depth,
            "wait_too_long": event.at >= entry.expires_at,
            "deadline": entry.ticket.deadline_at < math.inf,
            "circuit_open": road.circuit == "open" and road.circuit_of in (None, entry.ticket.request.family),
            "task_blocked": any(who in line for who, _ in self.tasks.values()),
        }.get(reason, reason in ("budget", "price_unknown", "too_many_agents")), reason

    # --- Between two steps ----------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Nothing waits while something is free and allowed, and the scheduler's own books tell the same."""
        states = {"waits": "queued", "backs off": "backing_off", "in flight": "in_flight", "done": "done"}
        for entry in self.entries.values():
            assert states[entry.state] == entry.ticket.state.value
        for lane, road in self.roads.items():
            if road.stated or not self.may_go(lane, now):
                continue
            waiting = [e for e in self.of("waits", lane) if not self.is_held(e.agent)]
            waiting = [e for e in waiting if not e.ticket.agent.out_of_budget]
            assert not waiting or not all(self.fits(e, now, surely=True) for e in self.of("waits", lane)), (
                f"{len(waiting)} wait for nothing in {lane}"
            )


def next_of(
    queue: LaneQueue, scheduler: Scheduler, now: float, delay_s: Callable[[Ticket, float], float]
) -> Ticket | None:
    """Return the first ticket that no window holds, found by looking at each that waits: by class, then by what the
    agents were served, then by the agent's own order. A family whose first ticket is held waits as a whole."""
    waiting = [
        ticket
        for agent in scheduler.agents.values()
        if not agent.held
        for ticket in agent.tickets.values()
        if ticket.in_queue and ticket.entry and scheduler.lanes[ticket.request.lane].queue is queue
    ]

    def by_turn(ticket: Ticket) -> tuple[int, float, int]:
        return 2 - bool(ticket.attempts), ticket.turn_at, ticket.entry

    def next_share(
        tickets: list[Ticket], key_of: Mapping[int, Any], depth: int = 1
    ) -> tuple[float, tuple[int, float, int], list[Ticket]]:
        """Of the root that was served least, the member that was, and so on: standing, key of the first, tickets."""
        shares = defaultdict(list)
        for ticket in tickets:
            shares[queue._shares[ticket.agent.name].line[-depth]].append(ticket)
        found = []
        for share, its in shares.items():
            own = share is queue._shares[its[0].agent.name]
            _, key, mine = (0.0, min(key_of[t.id] for t in its), its) if own else next_share(its, key_of, depth + 1)
            found.append((share.standing(its[0].priority), key, mine))
        return min(found)

    def first_of(family: str, priority: Priority) -> tuple[float, int, float, int, Ticket]:
        """Of the agent that is next, whose turn may be kept, the first ticket."""
        alike = [t for t in waiting if (t.priority, t.request.family) == (priority, family)]
        turn = queue._bands[family, priority].turn
        late = [t for t in alike if t.overdue_at <= now]
        kept = [t for t in late if turn is not None and queue._shares[t.agent.name] is turn.share]
        standing, _, mine = next_share(alike, {ticket.id: by_turn(ticket) for ticket in alike})
        key = list(by_turn(first := min(mine, key=by_turn)))
        if turn is not None and kept:
            standing, late = turn.share.descent[0].standing(priority), kept
        else:
            late = [t for t in late if t.agent is first.agent]
        if late:
            first = min(late, key=lambda t: (t.overdue_at, t.entry))
            key = [0, first.overdue_at, first.entry]
        return standing, *key, first  # type: ignore[return-value]

    held: set[str] = set()
    for priority in sorted({ticket.priority for ticket in waiting}, key=lambda each: queue._rank(each, now)):
        free = []
        for family in {ticket.request.family for ticket in waiting if ticket.priority is priority} - held:
            first = first_of(family, priority)
            if delay_s(first[-1], now) > 0:
                held.add(family)
            else:
                free.append(first)
        if free:
            first, *others = sorted(free)
            root = queue._shares[first[-1].agent.name].descent[0]
            same = [e for e in others if e[0] == first[0] and queue._shares[e[-1].agent.name].descent[0] is root]
            keys = {each[-1].id: each[1:4] for each in free}
            _, _, mine = next_share([each[-1] for each in (first, *same)], key_of=keys)
            return min(each for each in (first, *same) if each[-1] in mine)[-1]
    return None
