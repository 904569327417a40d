"""The task graph as a list (running, ready, waiting, ended), and a card of the selected task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.records import replace
from hivemind.scheduler.tasks import RETRIED
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import TaskView
from hivemind_tui.panels.agent_page import key_hint
from hivemind_tui.panels.agent_table import number
from hivemind_tui.render.format import fit, wrapped
from hivemind_tui.render.glyphs import PRIORITIES, TASK_SIGNS, task_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, call, fitting, linked
from hivemind_tui.render.rows import described, labelled, named, signs
from hivemind_tui.render.table import Column, Rows, Table, sorted_by
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.lists import ENDED, TASK_KEYS
from hivemind_tui.state.view import View, join

PLAN = "tasks: {lint: make lint, test: {command: make test, after: [lint], estimate: 50k}}"
"""A plan as an example."""
_ABOUT = (
    (
        "what",
        "A task is work for one agent, with what it waits for, an estimate and a priority. It starts once all that it"
        " waits for is done; of equally urgent ones the smallest comes first, and a task inherits the priority of the"
        " most urgent one that waits for it.",
    ),
    ("plan", "A file such as plan.yaml:"),
    ("", PLAN),
    ("batch", "hivemind batch plan.yaml runs it, each task as an agent of its own; --check shows the order first."),
    ("one", "hivemind tasks submit lint -- make lint submits one, and hivemind work runs what is submitted."),
    ("agents", "An agent submits work for others with hm.submit, a tool of `hivemind mcp`."),
    ("here", "This page then lists them, with when each ran and when all will be done; + - change how urgent one is."),
)
_COUNTED = ("running", "failed", "paused", "ready", "waiting", "blocked", "done", "skipped", "cancelled")
_NONE = "No task yet. `hivemind batch plan.yaml` submits some; agents can with `hivemind mcp`."
_TOLD = ("failed", "paused", "blocked")
_LABEL = 10
_TALL = 18
"""Rows from which the card has a row for every fact."""
_CUT = 3
"""Rows of what tasks are that an empty page can do without."""
_BAR = 16
Near = Sequence[tuple[str, str]]
"""Other tasks and their states, those that aren't done first."""


def _name(task: TaskView, _pen: Pen) -> Span:
    return task.id, "dim" if task.state in ENDED and task.state != "failed" else "text"


def _agent(task: TaskView, _pen: Pen) -> Span:
    return (task.agent, "text") if task.agent != task.id else ("its own", "dim")


def _own(task: TaskView, _pen: Pen) -> Span:
    return (PRIORITIES[task.own_priority][0], "dim") if task.own_priority != task.priority else (".", "rule")


def _tokens(task: TaskView, _pen: Pen) -> Span:
    over = task.estimated_tokens and task.tokens > task.estimated_tokens
    return number(task.tokens, "wait" if over else "text")


def _short(task: TaskView, text: str) -> str:
    return text.replace(f"{task.batch}.", "") if task.batch else text


def _note(task: TaskView, _pen: Pen) -> Span:
    return _short(task, _why(task)), task_sign(task.state).role if task.state in _TOLD else "dim"


def _why(task: TaskView) -> str:
    return f"for {short_duration(task.paused_s)} more: {task.note}" if task.paused_s else task.note


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
        Column("agent", "AGENT", 12, 8, _agent, "<", is_name=True),
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
        text = described(_ABOUT, cells, _LABEL)
        if order.filter or rows < len(text) - _CUT:
            return pen.message("Tasks", note, width, height, _counts(view, cells - 16))
        return pen.frame("Tasks", "none yet", text, width, height)
    shown = Rows(tasks, view.task, order.sort, order.reverse, link=lambda task: call("app.pick_task", task.id))
    table = _with_waits({task.id: task.state for task in view.snapshot.tasks})
    body = render_table(table, shown, cells, rows, pen)
    by = sorted_by(TASKS, order.sort)
    return pen.frame("Tasks", join(by, _counts(view, cells - 16 - len(by))), body, width, height)


def rows_wanted(view: View, width: int, pen: Pen) -> int:
    """Return how many rows the panel has use for beside its head and box: a row for each task, or what tasks are."""
    if view.snapshot.tasks:
        return len(view.tasks)
    return len(described(_ABOUT, pen.body_size(width, _TALL)[0], _LABEL)) - 1


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
    counts = view.snapshot.task_counts
    total = sum(counts.values())
    shown = f"/{view.tasks_order.filter}  {len(view.tasks)} of " if view.tasks_order.filter else ""
    if len(view.snapshot.tasks) < total and not shown:
        shown = f"{short_count(len(view.snapshot.tasks))} of "
    parts = [f"{shown}{short_plural(total, 'task')}"]
    parts += [f"{short_count(counts[state])} {state}" for state in _COUNTED if counts.get(state)]
    while len(parts) > 1 and cell_len(", ".join(parts)) > room:
        parts.pop()
    return ", ".join(parts)


def render_card(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: one fact a row where it is tall, the same facts side by side where it is short."""
    cells, rows = pen.body_size(width, height)
    task = view.task
    if task is None:
        if view.snapshot.tasks or rows < len(TASK_SIGNS):
            return pen.message("Task", "The selected task is shown here.", width, height)
        return pen.frame("States of a task", "", signs("", TASK_SIGNS, pen)[1:], width, height)
    task = replace(task, note=_why(task))
    known = {each.id: each.state for each in view.snapshot.tasks}
    before = _open_first([(name, known.get(name, "done")) for name in task.after])
    after = _open_first([(each.id, each.state) for each in view.snapshot.tasks if task.id in each.after])
    keys = [(name, what) for name, what in effects(task) if view.live or name == "open"]
    if rows >= _TALL:
        body = _tall(task, before, after, [key_hint(name, what, 6) for name, what in keys], cells, rows, pen)
    else:
        body = _compact(task, before, after, [key_hint(name, what) for name, what in keys], cells, pen)
    return pen.frame(f"Task {task.id}", f"batch {task.batch}" if task.batch else "", body, width, height)


def _open_first(tasks: Near) -> Near:
    return sorted(tasks, key=lambda each: each[1] == "done")


def effects(task: TaskView) -> list[tuple[str, str]]:
    """Return what the keys would do now: each key's id, and its effect in a few words."""
    found = [] if task.state in ENDED else [("raise", "more urgent"), ("lower", "less urgent"), ("cut", "cancels it")]
    if task.state in RETRIED:
        found.append(("retry", "starts it now" if task.state == "paused" else "tries it again"))
    return [*found, ("open", "its agent")]


def _tall(task: TaskView, before: Near, after: Near, keys: list[Row], cells: int, rows: int, pen: Pen) -> list[Row]:
    state: list[Row] = [[pen.worded(task_sign(task.state)), (f"  for {short_duration(task.since_s)}", "dim")]]
    state += [[(line, task_sign(task.state).role)] for line in wrapped(task.note, cells)[:3]]
    parts = [state, _facts(task, pen)]
    room = rows - sum(map(len, parts)) - len(keys) - 6  # a gap after each part, and two titles
    split = max(2, min(len(before) or 1, room - min(len(after) or 1, room // 2)))
    parts.append(_near("waits for", "no other task", before, split, pen))
    parts.append(_near("waited for by", "no other task", after, max(2, room - split), pen))
    lines: list[Row] = []
    for part in (*parts, keys):
        lines += [*([[]] if lines else []), *part]
    return lines


def _facts(task: TaskView, pen: Pen) -> list[Row]:
    priority: list[Span] = [PRIORITIES[task.priority]]
    if task.own_priority != task.priority:
        priority.append((f", inherited; its own is {PRIORITIES[task.own_priority][0]}", "dim"))
    tries = short_plural(task.attempt, "attempt") if task.attempt else "not started yet"
    facts: tuple[tuple[str, Row], ...] = (
        ("priority", priority),
        ("agent", [linked(task.agent, "info", call("app.open_agent", task.agent))]),
        ("ran", [(_ran(task), "strong"), (f"  {tries}", "dim")]),
        ("tokens", [(short_count(task.tokens), "strong"), *_estimate(task, pen)]),
        ("cost", [(_spent(task), "strong")]),
    )
    return [labelled(label, *spans, width=_LABEL) for label, spans in facts]


def _ran(task: TaskView) -> str:
    return short_duration(task.ran_s) if task.ran_s else NOTHING


def _spent(task: TaskView) -> str:
    return short_dollars(task.dollars) if task.tokens else NOTHING


def _estimate(task: TaskView, pen: Pen) -> Row:
    if not task.estimated_tokens:
        return [("  no estimate", "dim")]
    share = task.tokens / task.estimated_tokens
    bar = pen.gauge(_BAR, share, role="wait" if share > 1 else "info")
    return [("  ", "dim"), *bar, (f" of {pen.glyphs.about}{short_count(task.estimated_tokens)}", "dim")]


def _near(title: str, none: str, tasks: Near, room: int, pen: Pen) -> list[Row]:
    if not tasks:
        return [[(f"{title} {none}", "dim")]]
    rows: list[Row] = [[(f"{title} {short_plural(len(tasks), 'task')}", "dim")]]
    shown = tasks if len(tasks) <= room else tasks[: max(1, room - 1)]
    for name, state in shown:
        text, role = pen.worded(task_sign(state))
        rows.append([(fit(f"  {text}", 13), role), linked(f" {name}", "text", call("app.pick_task", name))])
    return [*rows, pen.more(len(tasks) - len(shown), indent="  ")] if len(shown) < len(tasks) else rows


def _compact(task: TaskView, before: Near, after: Near, keys: list[Row], cells: int, pen: Pen) -> list[Row]:
    sign = task_sign(task.state)
    state: list[Chunk] = [(0, [pen.worded(sign), (f" for {short_duration(task.since_s)}", "dim")])]
    facts: list[Chunk] = [
        (0, named("priority", *PRIORITIES[task.priority])),
        (3, named("own", *PRIORITIES[task.own_priority]) if task.own_priority != task.priority else []),
        (1, named("ran", _ran(task), "strong")),
        (2, named("attempts", str(task.attempt), "strong")),
        (0, named("tokens", short_count(task.tokens), "strong")),
        (2, named("of", short_count(task.estimated_tokens)) if task.estimated_tokens else []),
        (1, named("cost", _spent(task), "strong")),
        (2, named("agent", task.agent, "info")),
    ]
    return [
        fitting(cells, [*state, *([(1, [(task.note, sign.role)])] if task.note else [])]),
        fitting(cells, [chunk for chunk in facts if chunk[1]]),
        _beside("waits for", "no other task", before, cells, pen),
        _beside("waited for by", "no other task", after, cells, pen),
        fitting(cells, enumerate(keys)),
    ]


def _beside(title: str, none: str, tasks: Near, cells: int, pen: Pen) -> Row:
    if not tasks:
        return [(f"{title} {none}", "dim")]
    # Not more than could fit, because each is measured.
    chunks = [[pen.sign(task_sign(state)), (f" {name}", "text")] for name, state in tasks[: max(1, cells // 4)]]
    return fitting(cells, enumerate([[(title, "dim")], *chunks]))
