"""The task graph as a list, in the order in which it is worked off: running, ready, waiting, ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import TaskView
from hivemind_tui.panels.agent_table import number
from hivemind_tui.render.glyphs import PRIORITIES, task_sign
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import Column, Rows, Table, hidden_order
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.lists import ENDED, TASK_KEYS
from hivemind_tui.state.view import View, join

_COUNTED = ("running", "failed", "ready", "waiting", "blocked", "done", "skipped", "cancelled")


def _name(task: TaskView, _pen: Pen) -> Span:
    return task.id, "dim" if task.state in ENDED and task.state != "failed" else "text"


def _own(task: TaskView, _pen: Pen) -> Span:
    return (PRIORITIES[task.own_priority][0], "dim") if task.own_priority != task.priority else (".", "rule")


def _tokens(task: TaskView, _pen: Pen) -> Span:
    over = task.estimated_tokens and task.tokens > task.estimated_tokens
    return number(task.tokens, "wait" if over else "text")


def _agent(task: TaskView, _pen: Pen) -> Span:
    return (task.agent, "text") if task.agent != task.id else ("its own", "dim")


def _short(task: TaskView, text: str) -> str:
    """Return the text with the names of its batch's tasks shortened."""
    return text.replace(f"{task.batch}.", "") if task.batch else text


def _note(task: TaskView, _pen: Pen) -> Span:
    return _short(task, task.note), task_sign(task.state).role if task.state in ("failed", "blocked") else "dim"


TASKS: Table[TaskView] = Table(
    Column("task", "TASK", 14, 0, _name, "<"),
    (
        Column("state", "STATE", 11, 0, lambda t, pen: pen.worded(task_sign(t.state)), "<"),
        Column("prio", "PRIO", 4, 1, lambda t, _: PRIORITIES[t.priority], "<"),
        Column("own", "OWN", 4, 6, _own, "<"),
        Column("tries", "TRIES", 5, 5, lambda t, _: number(t.attempt, "recover" if t.attempt > 1 else "text")),
        Column("time", "TIME", 6, 2, lambda t, _: number(t.ran_s, shown=short_duration)),
        Column("tokens", "TOKENS", 6, 3, _tokens),
        Column("of", "OF", 5, 7, lambda t, _: number(t.estimated_tokens)),
        Column("cost", "COST", 7, 4, lambda t, _: number(t.dollars, shown=short_dollars)),
        Column("agent", "AGENT", 12, 8, _agent, "<"),
    ),
    rest=Column("why", "WAITS FOR OR NOTE", 20, 3, _note, "<"),
    sortable=TASK_KEYS,
)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a head and as many tasks as fit."""
    cells, rows = pen.body_size(width, height)
    tasks, order = view.tasks, view.tasks_order
    if not tasks:
        note = "No task matches the filter (esc clears it)." if order.filter else _NONE
        return pen.message("Tasks", note, width, height, _counts(view, cells - 16))
    picked = view.task
    shown = Rows(
        tasks,
        next((i for i, task in enumerate(tasks) if task is picked), 0),
        order.sort,
        order.reverse,
        link=lambda task: call("app.pick_task", task.id),
    )
    table = _with_waits({task.id: task.state for task in view.snapshot.tasks})
    body = render_table(table, shown, cells, rows, pen)
    by = hidden_order(TASKS, order.sort, table.placed(cells - 1))
    return pen.frame("Tasks", join(by, _counts(view, cells - 16 - len(by))), body, width, height)


_NONE = "No task yet. `hivemind batch plan.yaml` submits some, and so does hm.submit over MCP."


def _with_waits(states: Mapping[str, str]) -> Table[TaskView]:
    assert TASKS.rest is not None

    def waits(task: TaskView, pen: Pen) -> Span:
        if task.state != "waiting":
            return _note(task, pen)
        # A task that isn't listed any more is done.
        missing = [name for name in task.after if states.get(name, "done") != "done"]
        return _short(task, ", ".join(missing)) or NOTHING, "wait"

    return replace(TASKS, rest=replace(TASKS.rest, cell=waits))


def _counts(view: View, room: int) -> str:
    """Return the number of tasks in each state, the most important ones first, as many as fit."""
    counts = view.snapshot.task_counts
    total = sum(counts.values())
    shown = f"/{view.tasks_order.filter}  {len(view.tasks)} of " if view.tasks_order.filter else ""
    if len(view.snapshot.tasks) < total and not shown:
        shown = f"{short_count(len(view.snapshot.tasks))} of "
    told = [f"{shown}{short_plural(total, 'task')}"]
    told += [f"{short_count(counts[state])} {state}" for state in _COUNTED if counts.get(state)]
    while len(told) > 1 and cell_len(", ".join(told)) > room:
        told.pop()
    return ", ".join(told)
