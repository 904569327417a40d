"""Several proxies' snapshots as one, as if a single proxy served all agents.

An agent that runs on several machines is one agent, a lane of the same key one lane. What all proxies share (the level,
the rate windows, budgets by name) isn't counted twice.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, zip_longest
from operator import add
from typing import Any, TypeVar

from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, FamilyHold, Hold, LaneState, WindowState
from hivemind.world import snapshot as shown
from hivemind.world.agents import add_model
from hivemind.world.fleet import Member, MemberLane, lane_windows
from hivemind.world.forecast import foreseen
from hivemind.world.health import Alert
from hivemind.world.lanes import CURVE_KEPT, order_of
from hivemind.world.slow import merged_waits
from hivemind.world.verdict import judged
from hivemind.world.vitals import merged_vitals, tokens_limit

T = TypeVar("T")

LINES_SHOWN = 200
TICKETS_APART = 1000
"""A ticket's number is its proxy's, times this, plus the proxy's own number (:attr:`ProxyPart.number`)."""
_RANKS = {state: rank for rank, state in enumerate(shown.AGENT_STATES)}
_CIRCUITS = ("open", "half_open", "closed")


class ProxyPart(Struct, frozen=True):
    """One proxy's snapshot."""

    member: Member
    snapshot: shown.Snapshot
    number: int = 0
    """The proxy's own number below :data:`TICKETS_APART`, the same in each merge."""
    skew_s: float = 0.0
    """To be added to its time of day."""
    epoch: float | None = None
    """The time of day at its clock's zero; given where a line is to be equal in one merge and the next, since clocks
    drift. None: by the snapshot."""

    @property
    def wall(self) -> float:
        """The time of day of its snapshot, by a clock that all parts share."""
        return self.snapshot.wall + self.skew_s

    @property
    def zero(self) -> float:
        """The time of day at its clock's zero, by a clock that all parts share."""
        return (self.snapshot.wall - self.snapshot.at if self.epoch is None else self.epoch) + self.skew_s


def merged(parts: Sequence[ProxyPart], address: str = "") -> shown.Snapshot:
    """Return the snapshot of all parts at the moment of the first, on whose clock its times are.

    Raises: ValueError: there is no part.
    """
    if not parts:
        raise ValueError("no snapshot to merge")
    first = parts[0]
    names: dict[str, str] = {}
    shared = [_Shared(part, first, names) for part in parts]
    snapshots = [part.snapshot for part in parts]
    counts: Counter[str] = Counter()
    for each in snapshots:
        counts.update(each.task_counts)
    waiting = sorted(chain(*(each.queue for each in shared)), key=_order)
    lanes = _lanes(shared)
    whole = shown.Snapshot(
        at=first.snapshot.at,
        wall=first.wall,
        uptime_s=max(each.uptime_s for each in snapshots),
        mode=_common([each.mode for each in snapshots], "serving"),
        address=address or first.snapshot.address,
        upstreams=tuple(dict.fromkeys(upstream for each in snapshots for upstream in each.upstreams)),
        lanes=lanes,
        slots=tuple(sorted((ticket for each in shared for ticket in each.slots), key=lambda ticket: -ticket.age_s)),
        queue=tuple(waiting)[: shown.QUEUE_SHOWN],
        queued=sum(each.queued for each in snapshots),
        agents=merged_agents((part.member.label, part.snapshot.agents) for part in parts),
        lines=tuple(heapq.merge(*(each.lines for each in shared), key=lambda line: line.wall))[-LINES_SHOWN:],
        totals=_totals(snapshots),
        pool=_budget([each.pool for each in snapshots]),
        tasks=_tasks(parts),
        task_counts=dict(counts),
        recording=_recording(parts),
        alarms=tuple(alarm for each in shared for alarm in each.alarms),
        notices=tuple(dict.fromkeys(notice for each in parts for notice in each.snapshot.notices)),
        alerts=_alerts(shared),
        vitals=merged_vitals([each.vitals for each in snapshots], tokens_limit(view.state for view in lanes)),
        models=merged_models(each.models for each in snapshots),
        alert_limits=first.snapshot.alert_limits,
        work=tuple(chain.from_iterable(each.work for each in snapshots)),
        waits=merged_waits(each.waits for each in snapshots),
    )
    return judged(foreseen(whole))


class _Shared:
    """One part's tickets, lines and alarms in the numbers, clock and names of all.

    `names` has the name of each shared lane that is shown; the first part that has the lane adds it.
    """

    def __init__(self, part: ProxyPart, first: ProxyPart, names: dict[str, str]) -> None:
        self.part = part
        self._lanes = {lane.shown: names.setdefault(lane.lane, lane.shown) for lane in part.member.lanes}
        self._later_s = part.zero - first.zero
        self.leases = {lane.shown: lane for lane in part.member.lanes}
        snapshot = part.snapshot
        self.slots = [self._ticket(ticket) for ticket in snapshot.slots]
        self.queue = [self._ticket(ticket) for ticket in snapshot.queue]
        self.lines = [self._line(line) for line in snapshot.lines]
        self.alarms = [self._alarm(alarm) for alarm in snapshot.alarms]
        self.alerts = [self._alert(alert) for alert in snapshot.alerts]

    def at(self, at: float) -> float:
        """Return a moment of the part's clock on the first one's."""
        return at + self._later_s

    def number(self, ticket: int) -> int:
        """Return the number of a ticket among all."""
        return ticket * TICKETS_APART + self.part.number

    def _ticket(self, ticket: shown.TicketView) -> shown.TicketView:
        return replace(ticket, ticket=self.number(ticket.ticket), lane=self._lanes.get(ticket.lane, ticket.lane))

    def _line(self, line: shown.Line) -> shown.Line:
        return shown.Line(
            self.at(line.at),
            line.wall + self.part.skew_s,
            line.level,
            line.tag,
            self._lanes.get(line.who, line.who),
            line.text,
            self.part.member.label,
            line.by,
        )

    def _alarm(self, alarm: shown.Alarm) -> shown.Alarm:
        text = f"{self.part.member.label}: {alarm.text}"
        return replace(alarm, lane=self._lanes.get(alarm.lane, alarm.lane), text=text, since=self.at(alarm.since))

    def _alert(self, alert: Alert) -> Alert:
        about = self._lanes.get(alert.about, alert.about)
        return replace(alert, number=self.number(alert.number), about=about, since=self.at(alert.since))

    def lane(self, state: LaneState) -> LaneState:
        """Return a lane with its tickets' numbers, under the name that it is shown by."""
        upcoming = tuple(replace(hold, ticket=self.number(hold.ticket)) for hold in state.upcoming)
        return replace(state, lane=self._lanes.get(state.lane, state.lane), upcoming=upcoming)


def _alerts(parts: Iterable[_Shared]) -> tuple[Alert, ...]:
    """Return the alerts of all, that raised last first; those about the same are one, which is acknowledged once all
    are."""
    found: dict[tuple[str, str], Alert] = {}
    for part in parts:
        for alert in part.alerts:
            key = alert.rule, alert.about
            known = found.setdefault(key, alert)
            if (known.over, bool(known.acknowledged), -known.since) > (
                alert.over,
                bool(alert.acknowledged),
                -alert.since,
            ):
                found[key] = alert
    return tuple(sorted(found.values(), key=lambda alert: -alert.since))


def _order(ticket: shown.TicketView) -> tuple[float, ...]:
    return (ticket.position is None, *order_of(ticket.position, ticket), ticket.priority)


def _common(values: Sequence[T], otherwise: T) -> T:
    return values[0] if len(set(values)) == 1 else otherwise


# --- Rules: what a field of several is as one -------------------------------------------------------------------------


def _total(values: Sequence[Any]) -> Any:
    return reduce(add, values)


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _known(values: Sequence[Any]) -> Any:
    return next((value for value in values if value not in (None, "")), values[0])


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _by_family(holds: Iterable[Sequence[FamilyHold]]) -> tuple[FamilyHold, ...]:
    return tuple({each.family: each for held in holds for each in held}.values())


def _summed(series: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the sums step by step, with the newest steps last."""
    newest_first = zip_longest(*(reversed(each) for each in series), fillvalue=0)
    return tuple(map(sum, newest_first))[::-1]


def _budget(states: Iterable[BudgetState | None]) -> BudgetState | None:
    """Return the budget of one owner as the proxy sees it that knows of the most usage."""
    known = [state for state in states if state is not None]
    return max(known, key=lambda state: (state.share, state.used_tokens), default=None)


Rule = Callable[[Sequence[Any]], Any]
"""From the values of a field at all parts, those of the part that counts first before the others, to that of the
whole."""
_BY_CALLER = None
"""In place of a rule: the value follows from more than this field, so that the caller gives it."""
_TALLY_RULES: Mapping[str, Rule] = {name: _total if name == "usage" else sum for name in shown.Tally.__struct_fields__}
AGENT_RULES: Mapping[str, Rule | None] = {
    **_TALLY_RULES,
    "name": _first,
    "client": _known,
    "parent": _known,
    "priority": min,
    "state": lambda states: min(states, key=lambda state: _RANKS.get(state, len(_RANKS))),
    "held": all,
    "in_flight": sum,
    "queued": sum,
    "ttft_s": _known,
    "waited_s": sum,
    "last_seen_s": min,
    "last_error": _first,
    "unpriced": sum,
    "served_s": sum,
    "boosted_for_s": max,
    "stopped": all,
    "budget": _budget,
    "task": _known,
    "running": lambda values: True if True in values else _known(values),
    "exit_code": _known,
    "waiting_s": max,
    "sent_s": max,
    "activity": _summed,
    "recovered": any,
    "machines": _BY_CALLER,
    "error_s": _first,
    "error_over": _first,
    "refused_s": _first,
    "refusal": _first,
    "warm_s": _most,
    "paced_s": _most,
    "paused_s": _most,
}
"""By field; the one that was seen last counts first."""
TOTALS_RULES: Mapping[str, Rule | None] = {
    **_TALLY_RULES,
    "abandoned": sum,
    "wasted": _total,
    "agents_recovered": _BY_CALLER,
    "tokens_saved": sum,
    "unpriced": sum,
}
LANE_RULES: Mapping[str, Rule | None] = {
    "lane": _BY_CALLER,
    "upstream": _BY_CALLER,
    "provider": _BY_CALLER,
    "active": sum,
    "waiting": sum,
    "retrying": sum,
    "level": sum,
    "ceiling": sum,
    "floor": _first,
    "pinned": any,
    "mean_ttft_s": _BY_CALLER,
    "mean_excess_s": _BY_CALLER,
    "latency_target_s": _first,
    "rate_limited_for_s": max,
    "paused": all,
    "circuit": _first,
    "circuit_forced": _first,
    "circuit_errors": _first,
    "circuit_results": _first,
    "circuit_window": _first,
    "circuit_threshold": _first,
    "circuit_reopens_in_s": _first,
    "windows": _BY_CALLER,
    "plan": lambda values: max(values, key=len),
    "families": _by_family,
    "refusal": _known,
    "used_up": any,
    "upcoming": _BY_CALLER,
    "knobs": _first,
    "upstream_active": sum,
    "upstream_limit": sum,
    "lease": _first,
}
"""The one with the gravest circuit counts first. Level and ceiling are the fleet's where that leases the lane."""
WINDOW_RULES: Mapping[str, Rule | None] = {
    "family": _first,
    "kind": _first,
    "limit": _BY_CALLER,
    "used": _BY_CALLER,
    "reserved": sum,
    "remaining": _BY_CALLER,
    "resets_in_s": _most,
    "source": _first,
    "probe_in_s": _least,
    "used_here": _first,
}
"""The one that the provider's headers state counts first."""


def _combined(parts: Sequence[T], rules: Mapping[str, Rule | None], **given: Any) -> T:
    """Return the parts as one by the rules, but for the fields that are given."""
    whole = dict(given)
    for name, rule in rules.items():
        if name not in given and rule is not None:
            whole[name] = rule([getattr(part, name) for part in parts])
    return type(parts[0])(**whole)


# --- Agents and tasks -------------------------------------------------------------------------------------------------


def merged_agents(agents: Iterable[tuple[str, Iterable[shown.AgentView]]]) -> tuple[shown.AgentView, ...]:
    """Return the agents of all machines, given by label; one that runs on several names them, and has their sums."""
    found: dict[str, list[tuple[str, shown.AgentView]]] = {}
    for label, views in agents:
        for agent in views:
            found.setdefault(agent.name, []).append((label, agent))
    return tuple(_agent(each) for each in found.values())


def _agent(found: Sequence[tuple[str, shown.AgentView]]) -> shown.AgentView:
    machines = tuple(label for label, _ in found)
    if len(found) == 1:
        return replace(found[0][1], machines=machines)
    latest = sorted((view for _, view in found), key=lambda view: view.last_seen_s)
    return _combined(latest, AGENT_RULES, machines=machines)


def _tasks(parts: Sequence[ProxyPart]) -> tuple[shown.TaskView, ...]:
    taken: set[str] = set()
    tasks: list[shown.TaskView] = []
    for part in parts:
        ids = {task.id for task in part.snapshot.tasks}
        names = {name: f"{name}@{part.member.label}" for name in ids & taken}
        taken |= ids
        tasks += [_renamed(task, names) for task in part.snapshot.tasks] if names else part.snapshot.tasks
    return tuple(tasks[-shown.TASKS_SHOWN :])


def _renamed(task: shown.TaskView, names: Mapping[str, str]) -> shown.TaskView:
    return replace(task, id=names.get(task.id, task.id), after=tuple(names.get(name, name) for name in task.after))


def merged_models(parts: Iterable[Iterable[shown.ModelView]]) -> tuple[shown.ModelView, ...]:
    """Return what was used of each model at all of them."""
    models: dict[tuple[str, str], shown.ModelView] = {}
    for use in chain.from_iterable(parts):
        add_model(models, use)
    return tuple(models.values())


def _recording(parts: Sequence[ProxyPart]) -> shown.RecordingView | None:
    """Return the first journal in trouble, if any; each proxy writes its own."""
    for part in parts:
        journal = part.snapshot.recording
        if journal is not None and (journal.failing or journal.lost):
            why = f"{part.member.label}: {journal.failing}" if journal.failing else ""
            return replace(journal, failing=why)
    return None


def _totals(snapshots: Sequence[shown.Snapshot]) -> shown.Totals:
    """Return the sums of all; an agent that recovered at several proxies did once."""
    recovered = Counter(agent.name for each in snapshots for agent in each.agents if agent.recovered)
    saved = sum(each.totals.agents_recovered for each in snapshots) - (recovered.total() - len(recovered))
    return _combined([each.totals for each in snapshots], TOTALS_RULES, agents_recovered=saved)


# --- Lanes ------------------------------------------------------------------------------------------------------------


class _Found(Struct, frozen=True):
    """A proxy's lane, and how it stands to the fleet."""

    state: LaneState
    curve: Sequence[shown.CurvePoint]
    at: Callable[[float], float]
    """Returns a moment of the curve on the clock of all."""
    lease: MemberLane | None


def _lanes(parts: Sequence[_Shared]) -> tuple[shown.LaneView, ...]:
    found: dict[str, list[_Found]] = {}
    for part in parts:
        for view in part.part.snapshot.lanes:
            lease = part.leases.get(view.state.lane)
            key = view.state.lane if lease is None else lease.lane
            found.setdefault(key, []).append(_Found(part.lane(view.state), view.curve, part.at, lease))
    return tuple(_lane(each) for each in found.values())


def _lane(found: Sequence[_Found]) -> shown.LaneView:
    leases = [each.lease for each in found if each.lease is not None]
    leased = len(leases) == len(found)
    return shown.LaneView(
        _lane_state([each.state for each in found], leases if leased else ()), _curve(found, shared=leased)
    )


def _lane_state(states: Sequence[LaneState], leases: Sequence[MemberLane]) -> LaneState:
    """Return the lane of these proxies; leases are given where all of them share it."""
    first = states[0]
    of_fleet = {"level": _leased_level(leases), "ceiling": min(state.ceiling for state in states)} if leases else {}
    return _combined(
        sorted(states, key=lambda state: _CIRCUITS.index(state.circuit) if state.circuit in _CIRCUITS else 0),
        LANE_RULES,
        lane=first.lane,
        upstream=first.upstream,
        provider=first.provider,
        mean_ttft_s=_mean([(state.mean_ttft_s, state.active) for state in states]),
        mean_excess_s=_mean([(state.mean_excess_s, state.active) for state in states]),
        windows=_windows(states, leases),
        upcoming=tuple(_upcoming(states)),
        **of_fleet,
    )


def _leased_level(leases: Sequence[MemberLane]) -> float:
    newest = min(leases, key=lambda lease: (lease.lease_age_s is None, lease.lease_age_s or 0.0))
    return math.inf if newest.level is None else newest.level


def _mean(latencies: Sequence[tuple[float | None, int]]) -> float | None:
    """Return the mean of latencies, each weighted by how many are in flight."""
    known = [(latency_s, max(1, active)) for latency_s, active in latencies if latency_s is not None]
    weight = sum(count for _, count in known)
    return sum(latency_s * count for latency_s, count in known) / weight if known else None


def _upcoming(states: Sequence[LaneState]) -> list[Hold]:
    """Return what waits, the proxies' lines in turn."""
    longest = max(len(state.upcoming) for state in states)
    return [state.upcoming[n] for n in range(longest) for state in states if n < len(state.upcoming)]


def _windows(states: Sequence[LaneState], leases: Sequence[MemberLane]) -> tuple[WindowState, ...]:
    found: dict[tuple[str, str], list[WindowState]] = {}
    for state in states:
        for window in state.windows:
            found.setdefault((window.family, window.kind.value), []).append(window)
    shared = {(window.family, window.kind): window for window in lane_windows(leases)}
    made = []
    for key, windows in found.items():
        stated = max(windows, key=lambda window: window.source == "headers")
        limit, used = stated.limit, sum(window.used for window in windows)
        remaining = min(min(window.remaining for window in windows), max(0.0, limit - used))
        if key in shared:
            whole = shared[key]
            limit, used = math.inf if whole.limit is None else whole.limit, whole.used
            remaining = max(0.0, limit - used)
        windows.remove(stated)
        made.append(_combined([stated, *windows], WINDOW_RULES, limit=limit, used=used, remaining=remaining))
    return tuple(made)


def _curve(lanes: Sequence[_Found], *, shared: bool) -> tuple[shown.CurvePoint, ...]:
    """Return one curve by whole seconds: requests summed, and levels too unless the proxies share one."""
    found = [{int(each.at(point.at)): point for point in each.curve} for each in lanes]
    latest: dict[int, shown.CurvePoint] = {}
    made = []
    for second in sorted(set().union(*found)):
        marked = []
        for n, each in enumerate(found):
            point = each.get(second)
            if point is not None:
                latest[n] = point
                marked += [point] if point.mark else []
        levels = [point.level for point in latest.values()]
        made.append(
            shown.CurvePoint(
                float(second),
                max(levels) if shared else sum(levels),
                sum(point.active for point in latest.values()),
                sum(point.waiting for point in latest.values()),
                _most(point.ttft_s for point in latest.values()),
                marked[0].mark if marked else "",
                marked[0].cut if marked and (shared or len(found) == 1) else None,
            )
        )
    return tuple(made[-CURVE_KEPT:])
