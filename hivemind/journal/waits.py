"""Why requests waited: a fold over the events of a run, live, recorded or simulated.

No event says it, and none needs to: what keeps a waiting request follows from its lane's state and its agent's, in the
order in which the scheduler asks (:data:`~hivemind.scheduler.events.GATES`). A lane counts the seconds in which
something was waiting, by what kept the first in line; a request that goes out reads from these how its own wait was
made up. So an event costs a microsecond or two, however many requests wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hivemind.journal.wait_causes import (
    BUDGET,
    CIRCUIT,
    GATE_CAUSES,
    HELD,
    LANE_CAUSES,
    NAMES,
    OTHER,
    RATE_LIMITED,
    RETRY,
    STAGGER_S,
    TASK,
    LaneWaits,
    WaitCauses,
    causes_of,
)
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.lane import MOST_STAGGERED
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import Carried

_IN_LINE = -1
"""Of a request that nothing of its own keeps."""
_OWN_CAUSES: Mapping[str, int] = {
    gate: number if number >= LANE_CAUSES else _IN_LINE
    for gate, number in ((gate, NAMES.index(cause)) for gate, cause in GATE_CAUSES.items())
    if number > CIRCUIT and number != RETRY
}
"""By gate that isn't the whole lane's, what of its own keeps a request. When a pause before a retry ends is known from
the failed attempt, and a sample may be older than that."""
_KNOBS = frozenset({"max_concurrency", "max_concurrency_per_upstream", "rpm", "tpm"})
"""Settings of a lane that keep requests."""
_DEEPEST = 64
"""Agents above an agent, at most."""


@dataclass(slots=True, eq=False)
class WaitingRequest(Lifecycle):
    """A request and how its waits so far were made up."""

    lane: LaneWaits = field(init=False)
    place: str = ""
    """Where its lane counts it: `waits`, `flies`, or nowhere."""
    own: int = _IN_LINE
    """What keeps it beside what keeps its lane."""
    marks: list[float] = field(default_factory=list)
    """Its lane's seconds when this was last counted."""
    waits: dict[int, float] = field(default_factory=dict)
    """Its own, by cause."""
    all_s: float = 0.0
    """Of a request that has ended, all its waits together, which :attr:`waits` add up to."""

    @property
    def cause(self) -> str:
        """What keeps it now, if it waits."""
        kept_by = self.lane.cause
        return NAMES[self.own if self.own >= 0 and kept_by > CIRCUIT else kept_by]

    def settle(self) -> None:
        """Count its wait until its lane's present."""
        seconds, marks, own, waits = self.lane.seconds, self.marks, self.own, self.waits
        if seconds == marks:
            return
        for cause, (now, before) in enumerate(zip(seconds, marks, strict=True)):
            if now != before:
                kept_by = own if own >= 0 and cause > CIRCUIT else cause
                waits[kept_by] = waits.get(kept_by, 0.0) + now - before
        self.marks = seconds.copy()

    def reconcile(self) -> None:
        """Make the causes of a request that has ended add up to what it waited, also where events are missing."""
        waits = self.waits
        self.all_s = all_s = self.waited_after(self.known_from)
        found_s = sum(waits.values())
        if found_s == all_s:
            return
        if not found_s or not all_s:
            self.waits = {OTHER: all_s} if all_s else {}
            return
        for cause in waits:
            waits[cause] *= all_s / found_s


class WaitsFold:
    """Follows all requests and says of each that ends why it waited; :meth:`apply` takes the events in order."""

    def __init__(self) -> None:
        self.open = OpenRequests(WaitingRequest)
        self.total = [0.0] * len(NAMES)
        """Seconds of requests that have ended, in the order of :data:`CAUSES`; likewise by lane and by agent."""
        self.by_lane: dict[str, list[float]] = {}
        self.by_agent: dict[str, list[float]] = {}
        self._lanes: dict[str, LaneWaits] = {}
        self._shared: dict[str, int] = {}
        """By upstream whose lanes share a limit, most requests in flight."""
        self._paused = False
        self._held: set[str] = set()
        self._parents: dict[str, str] = {}
        self._tasks: dict[str, str] = {}
        """By task, its agent."""
        self._pending: set[str] = set()
        """Agents whose task waits."""
        self._exhausted: dict[str | None, str] = {}
        """By owner, what the budget covers."""

    @property
    def causes(self) -> WaitCauses:
        """Why requests that have ended waited."""
        return causes_of(self.total)

    def apply(self, event: Any) -> WaitingRequest | None:
        """Take the next event, except `Carried`; return the request that it changed."""
        self._requeue(event.at)
        kind = type(event)
        if kind is ev.Arrived and (lost := self.open.by_ticket.get(event.ticket)) is not None:
            self._move(lost, "", event.at)  # only in a damaged journal
        request = self.open.apply(event)
        if request is not None:
            if kind is not ev.FirstContent:
                self._request_changed(request, event)
        elif (react := self._reactions.get(kind)) is not None:
            react(self, event)
        return request

    def carried(self, event: Carried) -> list[WaitingRequest]:
        """Take over the state of all open requests. Return those that are new."""
        self._requeue(event.at)
        state = event.state
        self._paused = state.paused
        self._held = {agent.name for agent in state.agents if agent.held}
        self._parents = {agent.name: agent.parent for agent in state.agents if agent.parent}
        self._exhausted = dict(state.spent)
        for lane in state.lanes:
            self._lane(lane.lane, event.at).sampled(lane)
        new, lost = self.open.carried(event)
        for request in lost:
            self._move(request, "", event.at)
        for request in new:
            request.lane = self._lane(request.arrived.lane, event.at)
        for request in self.open.by_ticket.values():
            request.own = self._own(request)
            self._move(request, "flies" if request.in_flight else "waits", event.at)
        for each in self._lanes.values():
            self._judge(each)
        return new

    # --- Requests ------------------------------------------------------------------------------------------------

    def _lane(self, key: str, at: float) -> LaneWaits:
        """Return the lane, with everything counted until then."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = LaneWaits(key)
        lane.advance(at)
        return lane

    def _requeue(self, at: float) -> None:
        for request in self.open.requeue_due(at):
            self._set_own(request, self._own(request), request.since)

    def _request_changed(self, request: WaitingRequest, event: ev.Event) -> None:
        at = event.at
        match event:
            case ev.Arrived():
                request.lane = self._lane(event.lane, at)
                if event.parent is not None:
                    self._parents[event.agent] = event.parent
                request.own = self._own(request)
                self._move(request, "waits", at)
            case ev.Granted():
                self._move(request, "flies", at, self._lane(event.lane, at))
                self._granted(request, at)
            case _ if request.end is not None:
                self._move(request, "", at)
                self._over(request)
            case ev.AttemptFailed():
                request.own = RETRY
                request.own = self._own(request)
                self._move(request, "waits", at)

    def _granted(self, request: WaitingRequest, at: float) -> None:
        """Correct what a grant disproves."""
        lane = request.lane
        if lane.shut and lane.shut.pop(request.arrived.family, None) is not None:
            self._review(at)
        if lane.resuming:
            lane.resuming -= 1
            lane.resumes_until = at + STAGGER_S
        if lane.rate_limited:
            lane.rate_limited = False
        if lane.in_flight > lane.level and lane.in_flight > 1:
            lane.level = lane.ceiling = math.inf
        if self._exhausted or self._held or self._pending:
            agent = request.arrived.agent
            self._held.discard(agent)
            self._pending.discard(agent)
            for owner in (None, agent, *self._above(agent)):
                self._exhausted.pop(owner, None)
        self._judge(lane)

    def _move(self, request: WaitingRequest, place: str, at: float, lane: LaneWaits | None = None) -> None:
        """Count the request elsewhere from now on."""
        before = request.lane
        before.advance(at)
        if request.place == "waits":
            request.settle()
            before.add(-1)
        elif request.place == "flies":
            before.in_flight -= 1
        request.place = place
        if lane is not None and lane is not before:
            self._judge(before)
            request.lane = before = lane
        if place == "waits":
            request.marks = before.seconds.copy()
            before.add(1)
        elif place == "flies":
            before.in_flight += 1
        self._judge(before)

    def _set_own(self, request: WaitingRequest, own: int, at: float) -> None:
        """Say what keeps a waiting request from now on, beside what keeps its lane."""
        if request.place != "waits" or own == request.own:
            return
        lane = request.lane
        lane.advance(at)
        request.settle()
        request.own = own

    def _over(self, request: WaitingRequest) -> None:
        request.reconcile()
        if not request.waits:
            return
        arrived = request.arrived
        for sums in (self.total, _sums(self.by_lane, arrived.lane), _sums(self.by_agent, arrived.agent)):
            for cause, seconds in request.waits.items():
                sums[cause] += seconds

    def _own(self, request: WaitingRequest) -> int:
        """Return what keeps a request beside its lane by what is known of its agent."""
        agent = request.arrived.agent
        if agent in self._held:
            return HELD
        if agent in self._pending:
            return TASK
        if self._exhausted and self._is_spent(agent):
            return BUDGET
        shut = request.lane.shut.get(request.arrived.family) if request.lane.shut else None
        if shut is not None:
            return shut
        return RETRY if request.state == "retry" else _IN_LINE

    def _is_spent(self, agent: str) -> bool:
        spent = self._exhausted
        return (
            None in spent or agent in spent or any(spent.get(each) in ("subtree", "all") for each in self._above(agent))
        )

    def _above(self, agent: str) -> Iterable[str]:
        for _ in range(_DEEPEST):
            above = self._parents.get(agent)
            if above is None:
                return
            yield above
            agent = above

    def _review(self, at: float) -> None:
        """Ask again what keeps each waiting request beside its lane."""
        for request in self.open.by_ticket.values():
            self._set_own(request, self._own(request), at)

    # --- Lanes and operators ---------------------------------------------------------------------------------------

    def _judge(self, lane: LaneWaits) -> None:
        most = self._shared.get(lane.upstream) if self._shared else None
        if most is None:
            lane.judge(paused=self._paused, upstream_full=False)
            return
        sharing = [each for each in self._lanes.values() if each.upstream == lane.upstream]
        full = sum(each.in_flight for each in sharing) >= most
        for each in sharing:
            each.advance(lane.at)
            each.judge(paused=self._paused, upstream_full=full)

    def _lane_opened(self, event: ev.LaneOpened) -> None:
        lane = self._lane(event.lane, event.at)
        lane.upstream = event.upstream
        if event.config is not None:
            self._configure(lane, event.config)

    def _configure(self, lane: LaneWaits, config: LaneConfig) -> None:
        lane.configure(config)
        if config.max_concurrency_per_upstream:
            self._shared[lane.upstream] = config.max_concurrency_per_upstream
        else:
            self._shared.pop(lane.upstream, None)
        self._judge(lane)

    def _level_changed(self, event: ev.LevelChanged) -> None:
        lane = self._lane(event.lane, event.at)
        lane.level = event.level
        if lane.level > lane.ceiling:
            lane.ceiling = lane.level
        self._judge(lane)

    def _circuit_changed(self, event: ev.CircuitChanged) -> None:
        lane = self._lane(event.lane, event.at)
        lane.circuit = "closed" if event.family is not None else event.state
        shut = {family: cause for family, cause in lane.shut.items() if cause != CIRCUIT}
        if event.family is not None and event.state != "closed":
            shut[event.family] = CIRCUIT
        self._shut(lane, shut, event.at)
        self._judge(lane)

    def _rate_limited(self, event: ev.LaneRateLimited) -> None:
        lane = self._lane(event.lane, event.at)
        if event.family is None:
            lane.rate_limited = True
            self._judge(lane)
        else:
            self._shut(lane, {**lane.shut, event.family: RATE_LIMITED}, event.at)

    def _released(self, event: ev.LaneReleased) -> None:
        lane = self._lane(event.lane, event.at)
        shut = {} if event.family is None else {**lane.shut}
        shut.pop(event.family or "", None)
        self._shut(lane, shut, event.at)
        lane.rate_limited = False
        lane.resuming = min(MOST_STAGGERED, lane.waiting)
        lane.resumes_until = event.at
        self._judge(lane)

    def _shut(self, lane: LaneWaits, shut: dict[str, int], at: float) -> None:
        """Say which families of models are held though the lane isn't, and by what."""
        if shut != lane.shut:
            lane.shut = shut
            self._review(at)

    def _lease_changed(self, event: ev.LeaseChanged) -> None:
        lane = self._lane(event.lane, event.at)
        lane.leased = event.slots
        self._judge(lane)

    def _limits_read(self, event: ev.LimitsRead) -> None:
        lane = self._lane(event.lane, event.at)
        lane.limited = True
        self._judge(lane)

    def _sampled(self, event: ev.Sampled) -> None:
        for state in event.lanes:
            lane = self._lane(state.lane, event.at)
            lane.sampled(state)
            self._shut(lane, {each.family: NAMES.index(GATE_CAUSES[each.gate]) for each in state.families}, event.at)
            self._judge(lane)
            for hold in state.upcoming:
                request = self.open.by_ticket.get(hold.ticket)
                if request is not None:
                    self._set_own(request, _OWN_CAUSES.get(hold.gate, request.own), event.at)

    def _commanded(self, event: ev.Commanded) -> None:
        about = event.arguments
        agent = about.get("agent")
        match event.name:
            case "PauseAdmissions":
                self._paused = bool(about.get("paused"))
                for lane in self._lanes.values():
                    lane.advance(event.at)
                    self._judge(lane)
            case "PauseAgent" if isinstance(agent, str):
                (self._held.add if about.get("paused") else self._held.discard)(agent)
                self._review(event.at)
            case "SetBudget" if agent is None or isinstance(agent, str):
                self._exhausted.pop(agent, None)
                self._review(event.at)
            case "Tune":
                self._tuned(event.at, about.get("knob"), about.get("value"), about.get("upstream"))

    def _tuned(self, at: float, knob: object, value: object, upstream: object) -> None:
        if not (isinstance(knob, str) and knob in _KNOBS and isinstance(value, int | float) and math.isfinite(value)):
            return
        changed: Mapping[str, Any] = {knob: int(value)}
        for lane in self._lanes.values():
            if lane.config is not None and upstream in (None, lane.upstream):
                lane.advance(at)
                self._configure(lane, replace(lane.config, **changed))

    def _budget_warned(self, event: ev.BudgetWarned) -> None:
        if event.exhausted:
            self._exhausted[event.state.owner] = event.state.covers
            self._review(event.at)

    def _recalled(self, event: ev.AgentRecalled) -> None:
        if event.paused:
            self._held.add(event.agent)

    def _task_added(self, event: ev.TaskAdded) -> None:
        self._tasks[event.task] = event.agent

    def _task_changed(self, event: ev.TaskChanged) -> None:
        agent = self._tasks.get(event.task)
        if agent is not None:
            (self._pending.add if event.state == "waiting" else self._pending.discard)(agent)
            self._review(event.at)

    _reactions: Mapping[type[ev.Event], Callable[..., None]] = {
        ev.LaneOpened: _lane_opened,
        ev.LevelChanged: _level_changed,
        ev.CircuitChanged: _circuit_changed,
        ev.LaneRateLimited: _rate_limited,
        ev.LaneReleased: _released,
        ev.LeaseChanged: _lease_changed,
        ev.LimitsRead: _limits_read,
        ev.Sampled: _sampled,
        ev.Commanded: _commanded,
        ev.BudgetWarned: _budget_warned,
        ev.AgentRecalled: _recalled,
        ev.TaskAdded: _task_added,
        ev.TaskChanged: _task_changed,
    }


def _sums(by_name: dict[str, list[float]], name: str) -> list[float]:
    found = by_name.get(name)
    if found is None:
        found = by_name[name] = [0.0] * len(NAMES)
    return found
