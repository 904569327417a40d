"""The selected task beside the list: its state and why, the tasks before it and those after it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from hivemind.scheduler.tasks.graph import SPOILED
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import TaskView
from hivemind_tui.keys.table import BY_ID
from hivemind_tui.panels.task_table import mark
from hivemind_tui.render.format import fit, wrapped
from hivemind_tui.render.glyphs import PRIORITIES, task_sign
from hivemind_tui.render.pen import Pen, Span, call, fitting, linked
from hivemind_tui.state.ordering import ENDED
from hivemind_tui.state.view import View

Row = list[Span]
_TALL = 18
"""Rows from which every fact has one of its own."""
_LABEL = 10
_BAR = 16


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: one fact a row where it is tall, the same facts side by side where it is short."""
    cells, rows = pen.body_size(width, height)
    task = view.task
    if task is None:
        note: Row = [("The selected task is shown here.", "dim")]
        return pen.frame("Task", "", [pen.row(cells, *note)], width, height)
    known = {each.id: each for each in view.snapshot.tasks}
    before = [(name, known[name].state if name in known else "done") for name in task.after]
    after = [(each.id, each.state) for each in view.snapshot.tasks if task.id in each.after]
    keys = [(name, what) for name, what in effects(task) if view.live or name == "open"]
    if rows >= _TALL:
        lines = _tall(task, before, after, keys, cells, rows, pen)
    else:
        lines = _short(task, before, after, keys, cells, pen)
    body = [pen.row(cells, *line) for line in lines[:rows]]
    batch = f"batch {task.batch}" if task.batch else ""
    return pen.frame(f"Task {task.id}", batch, body, width, height)


# --- A row each --------------------------------------------------------------------------------------------------

Near = Sequence[tuple[str, str]]
"""Other tasks, and their states."""
Acting = Sequence[tuple[str, str]]
"""As of :func:`effects`."""


def _tall(task: TaskView, before: Near, after: Near, acting: Acting, cells: int, rows: int, pen: Pen) -> list[Row]:
    parts = [_where(task, cells, pen), _facts(task, pen)]
    keys = [_key(name, what) for name, what in acting]
    room = rows - sum(map(len, parts)) - len(keys) - 6  # a gap after each part, and two titles
    split = max(2, min(len(before) or 1, room - min(len(after) or 1, room // 2)))
    parts.append(_near("waits for", "nothing: it was the first", before, split, pen))
    parts.append(_near("waited for by", "nobody", after, max(2, room - split), pen))
    lines: list[Row] = []
    for part in (*parts, keys):
        lines += [*([[]] if lines else []), *part]
    return lines


def _where(task: TaskView, cells: int, pen: Pen) -> list[Row]:
    rows: list[Row] = [[mark(task.state, pen), (f"  for {short_duration(task.since_s)}", "dim")]]
    return rows + [[(line, task_sign(task.state).role)] for line in wrapped(task.note, cells)[:3]]


def _facts(task: TaskView, pen: Pen) -> list[Row]:
    tries = short_plural(task.attempt, "attempt") if task.attempt else "not started yet"
    rows: list[Row] = [
        _labelled("priority", *_priority(task)),
        _labelled("agent", linked(task.agent, "info", call("app.open_agent", task.agent))),
        _labelled("ran", (short_duration(task.ran_s) if task.ran_s else NOTHING, "strong"), (f"  {tries}", "dim")),
        _labelled("tokens", (short_count(task.tokens), "strong"), *_estimate(task, pen)),
        _labelled("cost", (_spent(task), "strong")),
    ]
    return rows


def _spent(task: TaskView) -> str:
    return short_dollars(task.dollars) if task.tokens else NOTHING


def _labelled(label: str, *spans: Span) -> Row:
    return [(fit(label, _LABEL), "dim"), *spans]


def _priority(task: TaskView) -> Row:
    word, role = PRIORITIES[task.priority]
    if task.own_priority == task.priority:
        return [(word, role)]
    return [(word, role), (f", inherited; its own is {PRIORITIES[task.own_priority][0]}", "dim")]


def _estimate(task: TaskView, pen: Pen) -> Row:
    if not task.estimated_tokens:
        return [("  no estimate", "dim")]
    share = task.tokens / task.estimated_tokens
    bar = pen.gauge(_BAR, share, role="wait" if share > 1 else "info")
    return [("  ", "dim"), *bar, (f" of {pen.glyphs.about}{short_count(task.estimated_tokens)}", "dim")]


def _near(title: str, none: str, tasks: Near, room: int, pen: Pen) -> list[Row]:
    """Return a row for each task; the last row counts those left out."""
    if not tasks:
        return [[(f"{title} ", "dim"), (none, "dim")]]
    rows: list[Row] = [[(f"{title} {short_plural(len(tasks), 'task')}", "dim")]]
    # What is open says most.
    ordered = sorted(tasks, key=lambda each: each[1] == "done")
    shown = ordered if len(ordered) <= room else ordered[: max(1, room - 1)]
    for name, state in shown:
        text, role = mark(state, pen)
        rows.append([(fit(f"  {text}", 13), role), linked(f" {name}", "text", call("app.pick_task", name))])
    if len(shown) < len(tasks):
        rows.append([(f"  {pen.glyphs.ellipsis} {len(tasks) - len(shown)} more", "dim")])
    return rows


def effects(task: TaskView) -> list[tuple[str, str]]:
    """Return what the keys would do now: each key's id, and its effect in a few words."""
    told = [] if task.state in ENDED else [("raise", "more urgent"), ("lower", "less urgent"), ("cancel", "cancels it")]
    if task.state in SPOILED:
        told.append(("retry", "tries it again"))
    return [*told, ("open", "its agent")]


def _key(name: str, what: str, width: int = 6) -> Row:
    key = BY_ID[name]
    return [linked(f"{key.shown:<{width}}", "accent", f"app.{key.action}"), (f" {what}", "dim")]


# --- Side by side ------------------------------------------------------------------------------------------------


def _short(task: TaskView, before: Near, after: Near, acting: Acting, cells: int, pen: Pen) -> list[Row]:
    first: list[tuple[int, Row]] = [
        (0, [mark(task.state, pen), (f" for {short_duration(task.since_s)}", "dim")]),
        (1, [(task.note, task_sign(task.state).role)] if task.note else []),
    ]
    facts: list[tuple[int, Row]] = [
        (0, [("priority ", "dim"), *_priority(task)[:1]]),
        (3, [("own ", "dim"), PRIORITIES[task.own_priority]] if task.own_priority != task.priority else []),
        (1, [("ran ", "dim"), (short_duration(task.ran_s) if task.ran_s else NOTHING, "strong")]),
        (2, [("attempts ", "dim"), (str(task.attempt), "strong")]),
        (0, [("tokens ", "dim"), (short_count(task.tokens), "strong")]),
        (2, [("of ", "dim"), (short_count(task.estimated_tokens), "text")] if task.estimated_tokens else []),
        (1, [("cost ", "dim"), (_spent(task), "strong")]),
        (2, [("agent ", "dim"), (task.agent, "info")]),
    ]
    keys = [(rank, _key(name, what, 0)) for rank, (name, what) in enumerate(acting)]
    return [
        fitting(cells, [chunk for chunk in first if chunk[1]]),
        fitting(cells, [chunk for chunk in facts if chunk[1]]),
        _beside("waits for", before, cells, pen),
        _beside("waited for by", after, cells, pen),
        fitting(cells, keys),
    ]


def _beside(title: str, tasks: Near, cells: int, pen: Pen) -> Row:
    if not tasks:
        return [(f"{title} nobody" if title.endswith("by") else f"{title} nothing", "dim")]
    ordered = sorted(tasks, key=lambda each: each[1] == "done")
    chunks: list[tuple[int, Row]] = [(0, [(title, "dim")])]
    for rank, (name, state) in enumerate(ordered, 1):
        text, role = mark(state, pen)
        chunks.append((rank, [(text[:1], role), (f" {name}", "text")]))
    return fitting(cells, chunks[: 1 + _most(cells)])


def _most(cells: int) -> int:
    """Return how many chunks fit at most, so that no more are measured."""
    return max(1, cells // 4)
