"""What happens next at the present rate: when rate windows and budgets are used up, and when the tasks are done.

Pure: from a snapshot with its vitals. Where there is too little to go by, nothing is forecast.
"""

from __future__ import annotations

import calendar
import heapq
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, WindowState
from hivemind.world.health import STEP_S, Forecast
from hivemind.world.snapshot import AgentView, LaneView, Snapshot, TaskView

LONGEST_S = 86_400.0
"""A budget that lasts for longer isn't forecast."""
_MINUTE_S = 60.0
_RATE_STEPS = 13
"""Steps of an agent's activity that its rate is taken from, the present one included: a minute."""
_LEAST_S = 30.0
"""Its rate is over no less, so that one answer makes no flood."""
_LEAST_BURST_S = 5.0
"""Likewise the rate at which a window is used."""
_OVERDUE = 0.25
"""A task that has run for longer than such tasks do is expected to take this share of their time yet."""
_TO_COME = ("running", "ready", "paused", "waiting")
_IDLE_S = 60.0
"""While no task runs, they go on if the last one ended no longer ago."""


def foreseen(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its forecast."""
    return replace(snapshot, forecast=forecast(snapshot))


def forecast(snapshot: Snapshot) -> Forecast:
    """Return the forecast from everything else that the snapshot tells."""
    hour_ends_in_s = 3600.0 - snapshot.wall % 3600.0
    per_hour = snapshot.vitals.dollars_per_hour
    return Forecast(
        windows={view.state.lane: run_out(view, snapshot.at) for view in snapshot.lanes if view.state.windows},
        budgets=used_up(snapshot),
        tasks_done_in_s=tasks_done_in_s(snapshot) if snapshot.mode == "serving" else None,
        dollars_by_hour=snapshot.totals.dollars + per_hour * hour_ends_in_s / 3600.0 if per_hour else None,
        hour_ends_in_s=hour_ends_in_s,
    )


# --- Rate windows -----------------------------------------------------------------------------------------------------


def run_out(lane: LaneView, at: float) -> tuple[float | None, ...]:
    """Return for each of the lane's windows in how many seconds it is used up; None: not before its reset."""
    span_s = _busy_s(lane, at) if any(window.used for window in lane.state.windows) else 0.0
    return tuple([_runs_out_in_s(window, span_s) for window in lane.state.windows])


def _busy_s(lane: LaneView, at: float) -> float:
    """Return for how long the lane has been in use, a minute at most, which is as long as windows count."""
    since = at
    for point in reversed(lane.curve):
        if point.at < at - _MINUTE_S:
            break
        if point.active:
            since = point.at
    return min(_MINUTE_S, max(_LEAST_BURST_S, at - since))


def _runs_out_in_s(window: WindowState, span_s: float) -> float | None:
    if not window.limit or not window.used or not span_s:
        return None
    if window.remaining < 1:
        return 0.0
    left_s = window.remaining * span_s / window.used
    # Without a stated reset it slides: what was used first is free again a minute later.
    whole_in_s = _MINUTE_S - span_s if window.resets_in_s is None else window.resets_in_s
    return left_s if left_s < whole_in_s else None


# --- Budgets ----------------------------------------------------------------------------------------------------------


def day_left_s(wall: float) -> float:
    """Return the seconds until local midnight."""
    now = time.localtime(wall)
    return LONGEST_S - (now.tm_hour * 3600 + now.tm_min * 60 + now.tm_sec)


def period_left_s(per: str, wall: float) -> float:
    """Return the seconds until a budget of this period counts anew by the clock; inf: it doesn't."""
    if per != "month":
        return day_left_s(wall) if per == "day" else math.inf
    now = time.localtime(wall)
    days = calendar.monthrange(now.tm_year, now.tm_mon)[1] - now.tm_mday
    return days * LONGEST_S + day_left_s(wall)


def used_up(snapshot: Snapshot) -> Mapping[str, float]:
    """Return by owner (empty: the pool) in how many seconds its budget is used up; none that lasts for long, that is
    used up already, or of which nothing is being used."""
    found: dict[str, float] = {}
    if snapshot.pool is not None:
        vitals = snapshot.vitals
        left_s = _lasts_s(snapshot.pool, snapshot.wall, vitals.tokens_per_min / 60.0, vitals.dollars_per_hour / 3600.0)
        if left_s is not None:
            found[""] = left_s
    owners = [(agent, agent.budget) for agent in snapshot.agents if agent.budget is not None]
    below = _children(snapshot.agents) if any(budget.covers == "subtree" for _, budget in owners) else {}
    for agent, budget in owners:
        members = [*_family(agent, below)] if budget.covers == "subtree" else [agent]
        tokens = _tokens_per_s(members, snapshot.at)
        if not tokens:
            continue
        price = 0.0
        if budget.dollars is not None:
            priced = sum(each.usage.total - each.unpriced for each in members)
            price = sum(each.dollars for each in members) / priced if priced > 0 else 0.0
        left_s = _lasts_s(budget, snapshot.wall, tokens, tokens * price)
        if left_s is not None:
            found[agent.name] = left_s
    return found


def _children(agents: Iterable[AgentView]) -> Mapping[str, list[AgentView]]:
    found: dict[str, list[AgentView]] = {}
    for agent in agents:
        if agent.parent is not None:
            found.setdefault(agent.parent, []).append(agent)
    return found


def _family(agent: AgentView, below: Mapping[str, list[AgentView]]) -> Iterable[AgentView]:
    """Return the agent and all below it, each once, as they name their parents themselves."""
    found, todo = {agent.name: agent}, [agent]
    while todo:
        for each in below.get(todo.pop().name, ()):
            if each.name not in found:
                found[each.name] = each
                todo.append(each)
    return found.values()


def _tokens_per_s(agents: Iterable[AgentView], at: float) -> float:
    """Return the rate at which these agents used tokens in the last minute, or since the first of them did."""
    tokens = steps = 0
    for agent in agents:
        recent = agent.activity[-_RATE_STEPS:]
        used = sum(recent)
        if used:
            tokens += used
            since = len(recent)
            for count in recent:
                if count:
                    break
                since -= 1
            steps = max(steps, since)
    return tokens / max(_LEAST_S, (steps - 1) * STEP_S + at % STEP_S)


def _lasts_s(state: BudgetState, wall: float, tokens_per_s: float, dollars_per_s: float) -> float | None:
    left_s = math.inf
    if state.tokens is not None and tokens_per_s > 0:
        left_s = (state.tokens - state.used_tokens) / tokens_per_s
    if state.dollars is not None and dollars_per_s > 0:
        left_s = min(left_s, (state.dollars - state.used_dollars) / dollars_per_s)
    too_long = left_s > LONGEST_S or left_s > period_left_s(state.per, wall)
    return None if too_long or state.share >= 1 else left_s


# --- Tasks ------------------------------------------------------------------------------------------------------------


def tasks_done_in_s(snapshot: Snapshot) -> float | None:
    """Return in how many seconds all tasks are done that can be, as many at a time as so far; None: there are none, or
    too little is known: no task is done yet, or none runs.

    Tasks take as long as those did that are done; in proportion to their estimated tokens, if all have such.
    """
    tasks = [task for task in snapshot.tasks if task.state in _TO_COME]
    done = [task for task in snapshot.tasks if task.state == "done" and task.ran_s > 0]
    running = sum(task.state == "running" for task in tasks)
    if not tasks or not done or not (running or min(task.since_s for task in done) <= _IDLE_S):
        return None
    by_tokens = all(task.estimated_tokens for task in chain(tasks, done))
    unit_s = sum(task.ran_s for task in done) / sum(task.estimated_tokens if by_tokens else 1 for task in done)
    left_s = {task.id: _left_s(task, unit_s * (task.estimated_tokens if by_tokens else 1)) for task in tasks}
    unseen = sum(snapshot.task_counts.get(state, 0) for state in _TO_COME) - len(tasks)
    at_once = max(running, _most_at_once([*done, *(task for task in tasks if task.state == "running")]))
    return _scheduled_s(tasks, left_s, at_once) + max(0, unseen) * (sum(left_s.values()) / len(tasks)) / at_once


def _left_s(task: TaskView, takes_s: float) -> float:
    if task.state == "running":
        return max(takes_s - task.since_s, takes_s * _OVERDUE)
    return takes_s + task.paused_s


def _most_at_once(tasks: Iterable[TaskView]) -> int:
    """Return how many of the tasks ran at the same time at most. Of one with several attempts, they count as one that
    began so much earlier."""
    changes = []
    for task in tasks:
        ended_ago_s = 0.0 if task.state == "running" else task.since_s
        changes += [(-ended_ago_s - (task.since_s if task.state == "running" else task.ran_s), 1), (-ended_ago_s, -1)]
    return max(accumulate(change for _, change in sorted(changes)), default=1)


def _scheduled_s(tasks: Sequence[TaskView], left_s: Mapping[str, float], at_once: int) -> float:
    """Return when the last task ends if so many run at a time, the most urgent of those that may first."""
    missing = {task.id: sum(name in left_s for name in task.after) for task in tasks if task.state != "running"}
    after: dict[str, list[str]] = {}
    for task in tasks:
        for name in task.after:
            after.setdefault(name, []).append(task.id)
    ranks = {task.id: (task.priority, number) for number, task in enumerate(tasks)}
    ready = [(ranks[name], name) for name, count in missing.items() if not count]
    heapq.heapify(ready)
    ends = [(left_s[task.id], task.id) for task in tasks if task.state == "running"]
    heapq.heapify(ends)
    now_s = 0.0
    while ready or ends:
        while ready and len(ends) < at_once:
            _, name = heapq.heappop(ready)
            heapq.heappush(ends, (now_s + left_s[name], name))
        now_s, name = heapq.heappop(ends)
        for following in after.get(name, ()):
            if following in missing:
                missing[following] -= 1
                if not missing[following]:
                    heapq.heappush(ready, (ranks[following], following))
    return now_s
