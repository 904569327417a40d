"""Rows of an answer, made from views of the snapshot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
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
        WindowRow.of(
            each,
            counts=each.kind.value,
            models=each.family,
            limit=round(each.limit),
            remaining=max(0, round(each.remaining)),
        )
        for each in state.windows
        if math.isfinite(each.limit) and math.isfinite(each.remaining)
    ]
    return LaneRow.of(
        state,
        level=None if math.isinf(state.level) else round(state.level, 2),
        waiting=state.waiting + state.retrying,
        parked_for_s=state.parked_for_s if state.parked_for_s > 0 else None,
        windows=windows[:_WINDOWS_SHOWN],
    )


def budget_row(state: BudgetState) -> BudgetRow:
    """Return the row of a budget."""
    tokens_left = None if state.tokens is None else state.tokens - state.used_tokens - state.reserved_tokens
    return BudgetRow.of(
        state,
        in_flight_tokens=state.reserved_tokens,
        tokens_left=None if tokens_left is None else max(0, tokens_left),
        dollars_left=None if state.dollars is None else max(0.0, state.dollars - state.used_dollars),
        unpriced_tokens=state.unpriced,
    )


def known_as(world: Snapshot, name: str | None) -> str | None:
    """Return the agent's name in the proxy's spelling, or as given if the agent isn't known."""
    return None if name is None else spelled_in((view.name for view in world.agents), name)


def agent_row(view: AgentView) -> AgentRow:
    """Return the row of an agent."""
    return AgentRow.of(
        view,
        agent=view.name,
        priority=view.priority.name.lower(),
        in_flight=view.flying,
        tokens=view.usage.total,
        budget=None if view.budget is None else budget_row(view.budget),
    )


def task_row(task: TaskState, view: TaskView | None = None) -> TaskRow:
    """Return the row of a task, with its usage if known."""
    after, more = cut(task.spec.after if task.state in ("waiting", "blocked") else (), _AFTER_SHOWN)
    return TaskRow.of(
        task,
        task=task.spec.id,
        priority=task.priority.name.lower(),
        agent=task.spec.agent or task.spec.id,
        after=[*after, f"and {more} more"] if more else after,
        note=task.note[:_NOTE_SHOWN] or None,
        tokens=view.tokens or None if view is not None else None,
        dollars=view.dollars or None if view is not None else None,
    )


def in_order(tasks: Iterable[TaskState]) -> list[TaskState]:
    """Sort tasks for a list: by state, and ready ones by when they will start."""

    def rank(task: TaskState) -> tuple[int, int, float]:
        ready = task.state == "ready"
        place = ORDER.index(task.state) if task.state in ORDER else len(ORDER)
        return place, task.priority if ready else 0, (task.spec.estimated_tokens or math.inf) if ready else 0

    return sorted(tasks, key=rank)


def by_state(tasks: Iterable[TaskState]) -> dict[str, int]:
    """Return the number of tasks in each state."""
    return dict(Counter(task.state for task in in_order(tasks)))
