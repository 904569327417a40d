"""The task graph over time: each task below the one that it waited for longest, and when its attempts ran."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from operator import attrgetter

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration
from hivemind.text.trees import in_tree, tree_lines
from hivemind.world.snapshot import TaskView
from hivemind_tui.render.bars import Axis, times_of_day
from hivemind_tui.render.format import fit, local
from hivemind_tui.render.glyphs import task_sign
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import GAP, Rows, scrolling
from hivemind_tui.state.tree import DEEPEST
from hivemind_tui.state.view import View, join

_NAMES = (16, 34)
"""Narrowest and widest column of names."""
_TIME = 6
_LEAD = 2
_BARS = 20
"""Least cells for the bars."""
_NONE = "When tasks run, it is shown here."


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the time axis and as many tasks as fit, with the selected one among them."""
    cells, rows = pen.body_size(width, height)
    listed = view.page == "tasks"
    shown = {task.id for task in (view.tasks if listed else view.snapshot.tasks)}
    tree = branches([task for task in view.snapshot.tasks if task.id in shown], pen)
    if not tree or cells < _LEAD + _NAMES[0] + _TIME + _BARS + 4 * GAP:
        return pen.message("What ran when", _NONE, width, height)
    tasks = [task for task, _ in tree]
    lines = {task.id: before for task, before in tree}
    names = {task.id: before + short_name(task) for task, before in tree}
    name = max(_NAMES[0], min(_NAMES[1], 2 + max(map(cell_len, names.values()))))
    room = cells - _LEAD - name - _TIME - 3 * GAP - 1  # a cell for the list's scrollbar
    now = view.snapshot
    began = [run[0] for task in tasks for run in runs_of(task)]
    axis = axis_of(max(began, default=0.0), now.at, room)
    if listed:
        picked = Rows(tasks, view.task, link=lambda task: call("app.pick", "chosen", task.id))
    else:  # what runs is in sight
        running = next((task for task in tasks if task.state == "running"), None)
        picked = Rows(tasks, running, link=lambda _: "app.page('tasks')")

    def draw(items: Sequence[TaskView], cells: int) -> list[Strip]:
        times = times_of_day(axis, now.wall - now.at, pen.glyphs.frame[5])
        head = f"{' ' * _LEAD}{fit('TASK', name)}{' ' * GAP}{times}{' ' * GAP}{'TIME':>{_TIME}}"
        return [pen.row(cells, (head, "dim")), *(row(task, cells) for task in items)]

    def row(task: TaskView, cells: int) -> Strip:
        selected = listed and task is picked.selected
        glyph, role = pen.sign(task_sign(task.state))
        before = lines[task.id]
        label = fit(names[task.id], name - 2)
        spans: list[Span] = [
            (f"{pen.glyphs.cursor} " if selected else " " * _LEAD, "accent"),
            (label[: len(before)], "rule"),
            (label[len(before) :], "strong" if selected else "text"),
            (f" {glyph}{' ' * GAP}", role),
            *bar(task, axis, now.at, lines, pen),
            (f"{' ' * GAP}{short_duration(task.ran_s) if task.ran_s else NOTHING:>{_TIME}}", "text"),
        ]
        return pen.row(cells, *spans, selected=selected, link=picked.link(task))

    note = join(progress(view), _legend(pen))
    return pen.frame("What ran when", note, scrolling(picked, cells, rows, pen, draw), width, height)


def axis_of(stretch_s: float, at: float, width: int) -> Axis:
    """Return an axis of so many cells that ends now and is little longer than the stretch, half a minute at least."""
    wanted = max(30.0, stretch_s * width / (width - 1))
    step = 10 ** math.floor(math.log10(wanted)) / 5
    span = math.ceil(wanted / step) * step
    return Axis(span, width, first=math.floor(at / (span / width)) - width + 1)


def progress(view: View) -> str:
    """Return how many tasks are done and, as far as that can be told, in what time all are."""
    counts, left_s = view.snapshot.task_counts, view.snapshot.forecast.tasks_done_in_s
    done = f"{counts.get('done', 0):,} of {sum(counts.values()):,} done"
    if left_s is None:
        return done
    at = time.strftime("%H:%M", local(view.snapshot.wall + left_s))
    return f"{done}, the rest in about {short_duration(left_s)}, at {at}"


def _used(task: TaskView) -> list[str]:
    """Return what a task has used, by whom, and why it ended if that is known: in full, and ever shorter."""
    of = f" of {short_count(task.estimated_tokens)}" if task.estimated_tokens else ""
    tokens = f"{short_count(task.tokens)}{of} tokens"
    cost = f", {short_dollars(task.dollars)}" if task.dollars else ""
    tries = f", attempt {task.attempt}" if task.attempt > 1 else ""
    note = f": {task.note}" if task.note else ""
    parts = f"{tokens}{cost}", f", {task.agent}{tries}", note
    return ["".join(parts), parts[0] + parts[1], parts[0], tokens]


def _legend(pen: Pen) -> str:
    glyphs = pen.glyphs
    return f"{glyphs.stream} runs  {glyphs.sent} ran  {glyphs.lost} failed"


def short_name(task: TaskView) -> str:
    """Return the task's name without that of its batch."""
    return task.id.removeprefix(f"{task.batch}.") if task.batch else task.id


def runs_of(task: TaskView) -> Sequence[tuple[float, float]]:
    """Return how long ago its attempts began and ended; of a proxy that doesn't tell, all together as one."""
    if task.runs or not task.ran_s:
        return task.runs
    ended = 0.0 if task.state == "running" else task.since_s
    return ((ended + task.ran_s, ended),)


def bar(task: TaskView, axis: Axis, at: float, known: Mapping[str, object], pen: Pen) -> list[Span]:
    """Return its attempts on the axis, exactly as wide as that, beside them what it used; of one that never ran what it
    waits for, or why."""
    runs, width = runs_of(task), axis.width
    if not runs:
        missing = [name for name in task.after if name in known]
        waits = f"after {', '.join(missing)}" if task.state == "waiting" and missing else task.note
        text = waits.replace(f"{task.batch}.", "") if task.batch else waits
        return [(fit(text, width), "dim")]
    spans: list[Span] = []
    end = 0
    for index, (began, ended) in enumerate(runs):
        first, last = max(end, axis.cell(at - began)), axis.cell(at - ended)
        if last < first:
            continue  # within the last cell of the attempt before
        glyph, role = _piece(task, last=index == len(runs) - 1, pen=pen)
        spans += [(" " * (first - end), "text"), (glyph * (last - first + 1), role)]
        end = last + 1
    before, after = len(spans[0][0]) - 1, width - end - 1
    text = next((text for text in _used(task) if cell_len(text) <= max(before, after)), "")
    if text and before > after:
        return [(f"{fit(text, before, '>')} ", "dim"), *spans[1:], (" " * (width - end), "text")]
    return [*spans, (fit(f" {text}", width - end), "dim")]


def _piece(task: TaskView, *, last: bool, pen: Pen) -> Span:
    """Return how an attempt is drawn: each before the last one failed, or was cut short."""
    if last and task.state == "running":
        return pen.glyphs.stream, "ok"
    if not last or task.state in ("failed", "ready", "paused", "blocked"):
        return pen.glyphs.lost, "bad"
    return pen.glyphs.sent, "info" if task.state == "done" else "dim"


def branches(tasks: Sequence[TaskView], pen: Pen) -> list[tuple[TaskView, str]]:
    """Return the tasks in the order of the graph with the lines of the tree before each: a task stands below the
    deepest of those that it waits for, siblings by arrival."""
    by_id = {task.id: task for task in tasks}
    depths = _depths(by_id)
    above = {}
    for task in tasks:
        waits_for = max((name for name in task.after if name in by_id), key=depths.__getitem__, default=task.id)
        if waits_for != task.id:
            above[task.id] = waits_for
    placed = in_tree(tasks, attrgetter("id"), above)
    return [(task, tree_lines(lasts, pen.glyphs.tree, DEEPEST)) for task, lasts in placed]


def _depths(by_id: Mapping[str, TaskView]) -> dict[str, int]:
    """Return by task how many others, one after the other, it comes after at most; 0 in a ring."""
    before = {name: {each for each in task.after if each in by_id} for name, task in by_id.items()}
    below: dict[str, list[str]] = {}
    for name, names in before.items():
        for each in names:
            below.setdefault(each, []).append(name)
    left = {name: len(names) for name, names in before.items()}
    depths = dict.fromkeys(by_id, 0)
    known = [name for name, count in left.items() if not count]
    for name in known:
        for each in below.get(name, ()):
            depths[each] = max(depths[each], depths[name] + 1)
            left[each] -= 1
            if not left[each]:
                known.append(each)
    return depths
