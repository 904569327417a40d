"""Rows of an answer, made from views of the snapshot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from hivemind.agent_names import spelled_in
from hivemind.api_types import TaskState
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.gauges import LaneState
from hivemind.tools.outputs import AgentRow, BudgetRow, LaneRow, TaskRow, WindowRow
from hivemind.world.snapshot import AgentView, Snapshot, TaskView

T = TypeVar("T")

ORDER = ("running", "ready", "blocked", "failed", "waiting", "skipped", "cancelled", "done")
"""Of tasks in a list: states that may need action come first."""
LANES_SHOWN = 10
_AFTER_SHOWN = 3
_WINDOWS_SHOWN = 8
_NOTE_SHOWN = 100


def cut(rows: Sequence[T], limit: int) -> tuple[list[T], int]:
    """Return the first rows, and how many are left out."""
    return list(rows[:limit]), max(0, len(rows) - limit)


def lane_row(state: LaneState) -> LaneRow:
    """Return the row of a lane with its windows."""
    windows = [
        WindowRow(
            counts=each.kind.value,
            models=each.family,
            limit=round(each.limit),
            remaining=max(0, round(each.remaining)),
            resets_in_s=None if each.resets_in_s is None else round(each.resets_in_s, 1),
        )
        for each in state.windows
        if math.isfinite(each.limit) and math.isfinite(each.remaining)
    ][:_WINDOWS_SHOWN]
    return LaneRow(
        lane=state.lane,
        upstream=state.upstream,
        level=None if math.isinf(state.level) else round(state.level, 2),
        active=state.active,
        waiting=state.waiting + state.retrying,
        circuit=state.circuit,
        parked_for_s=round(state.parked_for_s, 1) if state.parked_for_s > 0 else None,
        windows=windows,
    )


def budget_row(state: BudgetState) -> BudgetRow:
    """Return the row of a budget."""
    tokens_left = None if state.tokens is None else state.tokens - state.used_tokens - state.reserved_tokens
    dollars_left = None if state.dollars is None else max(0.0, state.dollars - state.used_dollars)
    return BudgetRow(
        owner=state.owner,
        covers=state.covers,
        per=state.per,
        tokens=state.tokens,
        dollars=state.dollars,
        used_tokens=state.used_tokens,
        used_dollars=money(state.used_dollars),
        in_flight_tokens=state.reserved_tokens,
        tokens_left=None if tokens_left is None else max(0, tokens_left),
        dollars_left=None if dollars_left is None else money(dollars_left),
        unpriced_tokens=state.unpriced,
        share=round(state.share, 4),
    )


def known_as(world: Snapshot, name: str | None) -> str | None:
    """Return the agent's name in the proxy's spelling, or as given if the agent isn't known."""
    return None if name is None else spelled_in((view.name for view in world.agents), name)


def agent_row(view: AgentView) -> AgentRow:
    """Return the row of an agent."""
    return AgentRow(
        agent=view.name,
        state=view.state,
        priority=view.priority.name.lower(),
        parent=view.parent,
        task=view.task,
        in_flight=view.flying,
        queued=view.queued,
        tokens=view.usage.total,
        dollars=money(view.dollars),
        budget=None if view.budget is None else budget_row(view.budget),
        exit_code=view.exit_code,
    )


def task_row(task: TaskState, view: TaskView | None = None) -> TaskRow:
    """Return the row of a task, with its usage if known."""
    spec = task.spec
    return TaskRow(
        task=spec.id,
        state=task.state,
        priority=task.priority.name.lower(),
        agent=spec.agent or spec.id,
        after=_some(spec.after) if task.state in ("waiting", "blocked") else [],
        note=task.note[:_NOTE_SHOWN] or None,
        attempt=task.attempt,
        tokens=view.tokens if view is not None and view.tokens else None,
        dollars=money(view.dollars) if view is not None and view.dollars else None,
    )


def _some(names: Sequence[str]) -> list[str]:
    shown, more = cut(names, _AFTER_SHOWN)
    return [*shown, f"and {more} more"] if more else shown


def in_order(tasks: Iterable[TaskState]) -> list[TaskState]:
    """Sort tasks for a list: by state, and ready ones by when they will start."""

    def rank(task: TaskState) -> tuple[int, int, float]:
        ready = task.state == "ready"
        place = ORDER.index(task.state) if task.state in ORDER else len(ORDER)
        return place, task.priority if ready else 0, (task.spec.estimated_tokens or math.inf) if ready else 0

    return sorted(tasks, key=rank)


def by_state(tasks: Iterable[TaskState]) -> Mapping[str, int]:
    """Return the number of tasks in each state."""
    return dict(Counter(task.state for task in in_order(tasks)))


def money(amount: float) -> float:
    """Round US dollars to a hundredth of a cent."""
    return round(amount, 4)
