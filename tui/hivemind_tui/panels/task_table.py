"""The task graph as a list, in the order in which it is worked off: what runs, what may, what waits for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import TaskView
from hivemind_tui.render.glyphs import PRIORITIES, task_sign
from hivemind_tui.render.pen import Pen, Span, body_size, call
from hivemind_tui.render.table import Column, Rows, Table, hidden_order
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.view import View, join

ORDER = ("running", "ready", "waiting", "blocked", "failed", "cancelled", "skipped", "done")
"""States, those that matter most first."""
_TOLD = ("running", "failed", "ready", "waiting", "blocked", "done", "skipped", "cancelled")
_RANK = {state: rank for rank, state in enumerate(ORDER)}
ENDED = frozenset({"done", "failed", "skipped", "cancelled"})


def in_order(tasks: Sequence[TaskView]) -> list[TaskView]:
    """Those that run, those that may by whose turn it is, those that wait by arrival, those that have ended."""
    placed = sorted(enumerate(tasks), key=lambda each: (_RANK.get(each[1].state, 9), *_turn(each[1]), each[0]))
    return [task for _, task in placed]


def _turn(task: TaskView) -> tuple[float, float]:
    if task.state == "ready":
        return task.priority, task.estimated_tokens or float("inf")
    return (task.since_s, 0.0) if task.state in ENDED else (0.0, 0.0)


def mark(state: str, pen: Pen) -> Span:
    """A task's state as a glyph and a word."""
    shown = task_sign(state)
    return f"{getattr(pen.glyphs, shown.glyph)} {shown.word}", shown.role


def _name(task: TaskView, pen: Pen, at: float) -> Span:
    return task.id, "dim" if task.state in ENDED and task.state != "failed" else "text"


def _own(task: TaskView, pen: Pen, at: float) -> Span:
    return (PRIORITIES[task.own_priority][0], "dim") if task.own_priority != task.priority else (".", "rule")


def _number(value: int) -> Span:
    return (short_count(value), "text") if value else (".", "rule")


def _tries(task: TaskView, pen: Pen, at: float) -> Span:
    if task.attempt < 2:
        return _number(task.attempt)
    return str(task.attempt), "recover"


def _ran(task: TaskView, pen: Pen, at: float) -> Span:
    return (short_duration(task.ran_s), "text") if task.ran_s else (".", "rule")


def _tokens(task: TaskView, pen: Pen, at: float) -> Span:
    over = task.estimated_tokens and task.tokens > task.estimated_tokens
    return (short_count(task.tokens), "wait" if over else "text") if task.tokens else (".", "rule")


def _cost(task: TaskView, pen: Pen, at: float) -> Span:
    return (short_dollars(task.dollars), "text") if task.dollars else (".", "rule")


def _agent(task: TaskView, pen: Pen, at: float) -> Span:
    return (task.agent, "text") if task.agent != task.id else ("its own", "dim")


def _short(task: TaskView, text: str) -> str:
    """Others of its batch by their own names."""
    return text.replace(f"{task.batch}.", "") if task.batch else text


def _note(task: TaskView, pen: Pen, at: float) -> Span:
    return _short(task, task.note), task_sign(task.state).role if task.state in ("failed", "blocked") else "dim"


TASKS: Table[TaskView] = Table(
    Column("task", "TASK", 14, 0, _name, "<", lambda t: t.id),
    (
        Column("state", "STATE", 11, 0, lambda t, pen, _: mark(t.state, pen), "<", lambda t: _RANK.get(t.state, 9)),
        Column("prio", "PRIO", 4, 1, lambda t, _i, _t: PRIORITIES[t.priority], "<", lambda t: t.priority),
        Column("own", "OWN", 4, 6, _own, "<", lambda t: t.own_priority),
        Column("tries", "TRIES", 5, 5, _tries, key=lambda t: t.attempt),
        Column("time", "TIME", 6, 2, _ran, key=lambda t: t.ran_s),
        Column("tokens", "TOKENS", 6, 3, _tokens, key=lambda t: t.tokens),
        Column("of", "OF", 5, 7, lambda t, _i, _t: _number(t.estimated_tokens), key=lambda t: t.estimated_tokens),
        Column("cost", "COST", 7, 4, _cost, key=lambda t: t.dollars),
        Column("agent", "AGENT", 12, 8, _agent, "<", lambda t: t.agent),
    ),
    rest=Column("why", "WAITS FOR OR NOTE", 20, 3, _note, "<"),
)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: a head and as many tasks as fit."""
    cells, rows = body_size(pen, width, height)
    tasks, order = view.tasks, view.tasks_order
    if not tasks:
        note = "No task fits the filter (esc takes it away)." if order.filter else _NONE
        return pen.frame("Tasks", _counts(view, cells - 16), [pen.row(cells, (note, "dim"))], width, height)
    picked = view.task
    shown = Rows(
        tasks,
        next((i for i, task in enumerate(tasks) if task is picked), 0),
        order.sort,
        order.reverse,
        link=lambda task: call("app.pick_task", task.id),
        sort_link="app.sort_by({})",
    )
    table = _with_waits({task.id: task.state for task in view.snapshot.tasks})
    body = render_table(table, shown, view.snapshot.at, cells, rows, pen)
    by = hidden_order(TASKS, order.sort, table.layout(cells - 1)[0])
    return pen.frame("Tasks", join(by, _counts(view, cells - 16 - len(by))), body, width, height)


_NONE = "No task yet. `hivemind batch plan.yaml` submits some, and so does hm.submit over MCP."


def missing(task: TaskView, states: Mapping[str, str]) -> list[str]:
    """The tasks that it waits for; one that isn't shown any more is done."""
    return [name for name in task.after if states.get(name, "done") != "done"]


def _with_waits(states: Mapping[str, str]) -> Table[TaskView]:
    assert TASKS.rest is not None

    def waits(task: TaskView, pen: Pen, at: float) -> Span:
        if task.state != "waiting":
            return _note(task, pen, at)
        return _short(task, ", ".join(missing(task, states))) or NOTHING, "wait"

    return replace(TASKS, rest=replace(TASKS.rest, cell=waits))


def _counts(view: View, room: int) -> str:
    """How many there are in each state; those that matter least go where there is no room for all."""
    counts = view.snapshot.task_counts
    total = sum(counts.values())
    shown = f"/{view.tasks_order.filter}  {len(view.tasks)} of " if view.tasks_order.filter else ""
    if len(view.snapshot.tasks) < total and not shown:
        shown = f"{short_count(len(view.snapshot.tasks))} of "
    told = [f"{shown}{short_plural(total, 'task')}"]
    told += [f"{short_count(counts[state])} {state}" for state in _TOLD if counts.get(state)]
    while len(told) > 1 and cell_len(", ".join(told)) > room:
        told.pop()
    return ", ".join(told)
