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
from hivemind_tui.render.format import wrapped
from hivemind_tui.render.glyphs import PRIORITIES, TASK_SIGNS, task_sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, call, linked
from hivemind_tui.render.rows import LABEL, Fact, described, flowing, signs
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
_NEAR = 30
"""Most tasks before and after it that are named."""
_CUT = 3
"""Rows of what tasks are that an empty page can do without."""
_BAR = 16
_ANY = 18
"""Any height at which a panel has its frame."""
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
    shown = Rows(tasks, view.task, order.sort, order.reverse, link=lambda task: call("app.pick", "chosen", task.id))
    table = _with_waits({task.id: task.state for task in view.snapshot.tasks})
    body = render_table(table, shown, cells, rows, pen)
    by = sorted_by(TASKS, order.sort)
    return pen.frame("Tasks", join(by, _counts(view, cells - 16 - len(by))), body, width, height)


def rows_wanted(view: View, width: int, pen: Pen) -> int:
    """Return how many rows the panel has use for beside its head and box: a row for each task, or what tasks are."""
    if view.snapshot.tasks:
        return len(view.tasks)
    return len(described(_ABOUT, pen.body_size(width, _ANY)[0], _LABEL)) - 1


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
    """Return the panel's rows: facts over several rows where there is room; the least needed are left out."""
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
    facts = [
        *_facts(task, cells, pen),
        Fact(0, "waits for", _near(before, pen)),
        Fact(0, "needed by", _near(after, pen)),
    ]
    facts.append(Fact(2, "keys", [*enumerate(key_hint(name, what) for name, what in keys)]))
    note = f"batch {task.batch}" if task.batch else ""
    return pen.frame(f"Task {task.id}", note, flowing(facts, cells, rows), width, height)


def _open_first(tasks: Near) -> Near:
    return sorted(tasks, key=lambda each: each[1] == "done")


def effects(task: TaskView) -> list[tuple[str, str]]:
    """Return what the keys would do now: each key's id, and its effect in a few words."""
    found = [] if task.state in ENDED else [("raise", "more urgent"), ("lower", "less urgent"), ("cut", "cancels it")]
    if task.state in RETRIED:
        found.append(("retry", "starts it now" if task.state == "paused" else "tries it again"))
    return [*found, ("open", "its agent")]


def _facts(task: TaskView, cells: int, pen: Pen) -> list[Fact]:
    sign = task_sign(task.state)
    noted = wrapped(task.note, max(1, cells - LABEL))[:3]
    notes = [Fact(1 + 3 * (n > 0), "", [(0, [(line, sign.role)])]) for n, line in enumerate(noted)]
    inherited: list[Chunk] = []
    if task.own_priority != task.priority:
        inherited.append((2, [("inherited; its own is ", "dim"), PRIORITIES[task.own_priority]]))
    tries = short_plural(task.attempt, "attempt") if task.attempt else "not started yet"
    spent = short_dollars(task.dollars) if task.tokens else NOTHING
    return [
        Fact(0, "state", [(0, [pen.worded(sign), (f" for {short_duration(task.since_s)}", "dim")])]),
        *notes,
        Fact(1, "priority", [(0, [PRIORITIES[task.priority]]), *inherited]),
        Fact(3, "agent", [(0, [linked(task.agent, "info", call("app.open_agent", task.agent))])]),
        Fact(
            2, "ran", [(0, [(short_duration(task.ran_s) if task.ran_s else NOTHING, "strong")]), (1, [(tries, "dim")])]
        ),
        Fact(1, "tokens", [(0, [(short_count(task.tokens), "strong")]), (1, _estimate(task, pen))]),
        Fact(2, "cost", [(0, [(spent, "strong")])]),
    ]


def _estimate(task: TaskView, pen: Pen) -> Row:
    if not task.estimated_tokens:
        return [("no estimate", "dim")]
    share = task.tokens / task.estimated_tokens
    bar = pen.gauge(_BAR, share, role="wait" if share > 1 else "info")
    return [*bar, (f" of {pen.glyphs.about}{short_count(task.estimated_tokens)}", "dim")]


def _near(tasks: Near, pen: Pen) -> list[Chunk]:
    if not tasks:
        return [(0, [("no other task", "dim")])]
    signed: list[Row] = [
        [pen.sign(task_sign(state)), linked(f" {name}", "text", call("app.pick", "chosen", name))]
        for name, state in tasks[:_NEAR]
    ]
    return [*enumerate(signed), *([(_NEAR, pen.more(len(tasks) - _NEAR))] if len(tasks) > _NEAR else [])]
