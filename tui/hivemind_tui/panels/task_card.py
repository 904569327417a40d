"""The selected task beside the list: its state and why, the tasks before it and those after it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from hivemind.scheduler.tasks.graph import SPOILED
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind.world.snapshot import TaskView
from hivemind_tui.panels.agent_card import TALL, key_hint, labelled
from hivemind_tui.render.format import fit, wrapped
from hivemind_tui.render.glyphs import PRIORITIES, task_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, call, fitting, linked
from hivemind_tui.render.rows import named
from hivemind_tui.state.lists import ENDED
from hivemind_tui.state.view import View

_LABEL = 10
_BAR = 16
Near = Sequence[tuple[str, str]]
"""Other tasks and their states, those that aren't done first."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: one fact a row where it is tall, the same facts side by side where it is short."""
    cells, rows = pen.body_size(width, height)
    task = view.task
    if task is None:
        return pen.message("Task", "The selected task is shown here.", width, height)
    known = {each.id: each.state for each in view.snapshot.tasks}
    before = _open_first([(name, known.get(name, "done")) for name in task.after])
    after = _open_first([(each.id, each.state) for each in view.snapshot.tasks if task.id in each.after])
    keys = [(name, what) for name, what in effects(task) if view.live or name == "open"]
    if rows >= TALL:
        body = _tall(task, before, after, [key_hint(name, what, 6) for name, what in keys], cells, rows, pen)
    else:
        body = _short(task, before, after, [key_hint(name, what) for name, what in keys], cells, pen)
    return pen.frame(f"Task {task.id}", f"batch {task.batch}" if task.batch else "", body, width, height)


def _open_first(tasks: Near) -> Near:
    return sorted(tasks, key=lambda each: each[1] == "done")


def effects(task: TaskView) -> list[tuple[str, str]]:
    """Return what the keys would do now: each key's id, and its effect in a few words."""
    found = (
        [] if task.state in ENDED else [("raise", "more urgent"), ("lower", "less urgent"), ("cancel", "cancels it")]
    )
    if task.state in SPOILED:
        found.append(("retry", "tries it again"))
    return [*found, ("open", "its agent")]


# --- A row each --------------------------------------------------------------------------------------------------


def _tall(task: TaskView, before: Near, after: Near, keys: list[Row], cells: int, rows: int, pen: Pen) -> list[Row]:
    state: list[Row] = [[pen.worded(task_sign(task.state)), (f"  for {short_duration(task.since_s)}", "dim")]]
    state += [[(line, task_sign(task.state).role)] for line in wrapped(task.note, cells)[:3]]
    parts = [state, _facts(task, pen)]
    room = rows - sum(map(len, parts)) - len(keys) - 6  # a gap after each part, and two titles
    split = max(2, min(len(before) or 1, room - min(len(after) or 1, room // 2)))
    parts.append(_near("waits for", "nothing: it was the first", before, split, pen))
    parts.append(_near("waited for by", "nobody", after, max(2, room - split), pen))
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
    """Return a row for each task; the last row counts those left out."""
    if not tasks:
        return [[(f"{title} {none}", "dim")]]
    rows: list[Row] = [[(f"{title} {short_plural(len(tasks), 'task')}", "dim")]]
    shown = tasks if len(tasks) <= room else tasks[: max(1, room - 1)]
    for name, state in shown:
        text, role = pen.worded(task_sign(state))
        rows.append([(fit(f"  {text}", 13), role), linked(f" {name}", "text", call("app.pick_task", name))])
    return [*rows, pen.more(len(tasks) - len(shown), indent="  ")] if len(shown) < len(tasks) else rows


# --- Side by side ------------------------------------------------------------------------------------------------


def _short(task: TaskView, before: Near, after: Near, keys: list[Row], cells: int, pen: Pen) -> list[Row]:
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
        _beside("waits for", "nothing", before, cells, pen),
        _beside("waited for by", "nobody", after, cells, pen),
        fitting(cells, enumerate(keys)),
    ]


def _beside(title: str, none: str, tasks: Near, cells: int, pen: Pen) -> Row:
    if not tasks:
        return [(f"{title} {none}", "dim")]
    # Not more than could fit, because each is measured.
    chunks = [[pen.sign(task_sign(state)), (f" {name}", "text")] for name, state in tasks[: max(1, cells // 4)]]
    return fitting(cells, enumerate([[(title, "dim")], *chunks]))
