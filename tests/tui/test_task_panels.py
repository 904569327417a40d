"""The task graph on the screen: the list, one task closer, and what is asked before one is cancelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tui.graph import POOL, processes
from tui.kit import text
from tui.worlds import world

from hivemind.agents.plans.reading import read_plan
from hivemind.records import replace
from hivemind.scheduler.types import Priority
from hivemind.world.health import Forecast
from hivemind.world.snapshot import Alarm, Snapshot, TaskView
from hivemind.world.verdict import judged
from hivemind_tui.commands import dialogs
from hivemind_tui.panels import gantt, header, task_page
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.lists import in_order
from hivemind_tui.state.view import View, ViewBuilder
from hivemind_tui.widgets.line_table import Render

EVIL = "a\x1b[2J\n\t宽い" * 6
SIZES = {"160x45": (110, 42), "80x24": (80, 13)}


def looked(snapshot: Snapshot, chosen: str = "") -> View:
    """The tasks' page."""
    return ViewBuilder().arrange(View(snapshot, trail=("tasks",), chosen=chosen))


@pytest.mark.parametrize("size", SIZES)
def test_the_list_looks_as_agreed(size: str, golden: Callable[[str, str], None]) -> None:
    """Every state of a task, wide and narrow."""
    width, height = SIZES[size]
    golden(f"task_table_{size}", text(task_page.render(looked(processes()), width, height, Pen(boxed=width > 100))))


@pytest.mark.parametrize("chosen", ["docs", "package", "types", "sweep"])
def test_the_card_looks_as_agreed(chosen: str, golden: Callable[[str, str], None]) -> None:
    """One that runs, one that is blocked, one that failed and one that may start; tall, and side by side."""
    view = looked(processes(), f"nightly.{chosen}")
    tall, short = task_page.render_card(view, 50, 42, Pen()), task_page.render_card(view, 80, 8, Pen(boxed=False))
    golden(f"task_card_{chosen}", f"{text(tall)}\n{text(short)}")


def ran() -> Snapshot:
    """The tasks with the times of their attempts: each began when those before it were done."""
    full = processes()
    runs = {
        "lint": ((300.0, 239.0),),
        "build": ((300.0, 222.0),),
        "unit": ((222.0, 127.0),),
        "types": ((222.0, 170.0), (168.0, 110.0)),
        "docs": ((239.0, 110.0), (109.0, 0.0)),
        "review": ((127.0, 60.0), (50.0, 0.0)),
    }
    return replace(full, tasks=tuple(replace(task, runs=runs.get(gantt.short_name(task), ())) for task in full.tasks))


@pytest.mark.parametrize("size", [(160, 32), (160, 14), (110, 20)])
def test_what_ran_when_looks_as_agreed(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    """The tree of tasks and their attempts: with what they used where there is room, scrolled where there isn't."""
    golden(f"gantt_{size[0]}x{size[1]}", text(gantt.render(looked(ran(), "nightly.review"), *size, Pen())))


def test_what_ran_when_in_ascii(golden: Callable[[str, str], None]) -> None:
    """Attempts that run, ran and failed differ by more than colour."""
    rows = text(gantt.render(looked(ran()), 120, 20, Pen(glyphs=ASCII)))
    assert rows.isascii()
    golden("gantt_ascii", rows)


def test_a_task_stands_below_the_deepest_that_it_waits_for() -> None:
    """Each once, whatever a graph says; what isn't known any more is done, and no branch."""
    usual = processes().tasks[0]
    after = {"d": ("b", "a", "c"), "a": (), "b": ("a",), "c": ("b", "gone"), "x": ("y",), "y": ("x",), "z": ("z",)}
    tasks = [replace(usual, id=name, batch="", after=names) for name, names in after.items()]
    assert [before + task.id for task, before in gantt.branches(tasks, Pen())] == [
        *("a", "└ b", "  └ c", "    └ d", "z", "x", "└ y")
    ]


def test_it_says_when_all_will_be_done() -> None:
    """As far as that can be told, and by the clock on the wall."""
    view = looked(ran())
    assert gantt.progress(view) == "3 of 13 done"
    later = replace(view, snapshot=replace(view.snapshot, forecast=Forecast(tasks_done_in_s=90.0)))
    assert gantt.progress(later) == "3 of 13 done, the rest in about 1m30s, at 22:14"


def test_attempts_that_a_proxy_tells_nothing_of_are_drawn_as_one() -> None:
    """An older one tells the running time alone."""
    task = replace(processes().tasks[0], runs=(), state="done", since_s=5.0, ran_s=20.0)
    assert gantt.runs_of(task) == ((25.0, 5.0),)
    assert gantt.runs_of(replace(task, state="running")) == ((20.0, 0.0),)
    assert gantt.runs_of(replace(task, ran_s=0.0)) == ()


def test_the_plan_that_is_shown_as_an_example_is_one(tmp_path: Path) -> None:
    """Whoever pastes it has two tasks."""
    (tmp_path / "plan.yaml").write_text(task_page.PLAN, encoding="utf-8")
    assert [*read_plan(tmp_path / "plan.yaml", "plan.yaml").tasks] == ["lint", "test"]


def test_a_paused_task_tells_for_how_long() -> None:
    """In the list and on its card, and that it can be started at once."""
    full = processes()
    paused = replace(full.tasks[0], state="paused", paused_s=3600.0, note="a plan's window is used up")
    view = looked(replace(full, tasks=(paused,)), paused.id)
    card = text(task_page.render_card(view, 120, 12, Pen(boxed=False)))
    for shown in (text(task_page.render(view, 160, 12, Pen())), card):
        assert "paused" in shown
        assert "for 1h00m more: a plan's window is us" in shown
    assert "starts it now" in card


def test_no_task_yet() -> None:
    """It is said how there are some; and what a filter hides comes back with escape."""
    assert "hivemind batch plan.yaml" in text(task_page.render(looked(world()), 100, 10, Pen()))
    assert "its agent works on it" in text(task_page.render_card(looked(world()), 50, 30, Pen()))
    assert "is shown here" in text(task_page.render_card(looked(world()), 50, 6, Pen()))
    view = looked(processes())
    none = replace(view, tasks_shown=(), tasks_order=replace(view.tasks_order, filter="x"))
    assert "esc clears it" in text(task_page.render(none, 100, 10, Pen()))


def test_those_that_matter_come_first() -> None:
    """What runs, then what may by whose turn it is, then what waits; what is done last comes last."""
    one = processes().tasks[0]
    tasks = [
        replace(one, id="done", state="done"),
        replace(one, id="waits", state="waiting"),
        replace(one, id="large", state="ready", estimated_tokens=90),
        replace(one, id="unknown", state="ready", estimated_tokens=0),
        replace(one, id="small", state="ready", estimated_tokens=10),
        replace(one, id="urgent", state="ready", priority=Priority.HIGH, estimated_tokens=99),
        replace(one, id="failed", state="failed"),
        replace(one, id="runs", state="running"),
        replace(one, id="new", state="something new"),
    ]
    order = "runs urgent small large unknown waits failed done new"
    assert " ".join(task.id for task in in_order(tasks)) == order


def strange(task: TaskView) -> TaskView:
    """Everything about it is too long or without end."""
    return replace(
        task,
        id=EVIL,
        agent=EVIL,
        batch=EVIL,
        note=EVIL,
        state="something new",
        after=(EVIL,) * 40,
        attempt=10**6,
        tokens=10**15,
        dollars=1e9,
        ran_s=1e9,
        since_s=1e9,
        estimated_tokens=1,
    )


@pytest.mark.parametrize("render", [task_page.render, task_page.render_card])
@pytest.mark.parametrize("width", [20, 81, 250])
def test_each_row_has_its_width(render: Render, width: int) -> None:
    """Whatever there is to show, at every height."""
    full = processes()
    odd = replace(full, tasks=tuple(strange(task) for task in full.tasks), task_counts={"something new": 13})
    for snapshot in (full, odd, world()):
        for height in (1, 5, 17, 18, 60):
            rows = render(looked(snapshot), width, height, Pen(boxed=height % 2 == 1))
            assert [row.cell_length for row in rows] == [width] * height


def test_the_header_tells_of_pool_and_tasks() -> None:
    """How far the graph is, what failed, and what is left for all together."""
    full = replace(processes(), task_counts=Counter(running=2, done=30, failed=1, waiting=7))
    rows = text(header.render(View(full), 160, 2, Pen()))
    assert "budget 88% of $20 today" in rows
    assert "tasks 30/40 2 run 1 failed" in rows
    assert "budget" not in text(header.render(View(world()), 160, 2, Pen()))
    spent = replace(full, pool=replace(POOL, per="run", used_dollars=30.0))
    assert "budget 150% of $20 this run" in text(header.render(View(spent), 80, 2, Pen()))


def test_what_a_cancelled_task_takes_with_it_is_named() -> None:
    """Those that wait for it, and for these; and what becomes of a process."""
    full = processes()
    by_name = {task.id.removeprefix("nightly."): task for task in full.tasks}
    rows = "\n".join("".join(text for text, _ in row) for row in dialogs.cancel_question(View(full), by_name["review"]))
    assert "2 tasks can't run without it: nightly.publish, nightly.announce" in rows
    assert "a batch ends its process" in rows
    rows = "\n".join("".join(text for text, _ in row) for row in dialogs.cancel_question(View(full), by_name["sweep"]))
    assert "no task waits for it" in rows


def test_an_alarm_is_named_at_every_width() -> None:
    """What is broken is shown first, and how many more there are."""
    broken = (Alarm("slots", "lab/1", "", "1 slots are taken.", 0.0), Alarm("idle", "lab/1", "ann", "It waits.", 0.0))
    alarmed = replace(world(), alarms=broken)
    for width in (80, 160):
        row = text(header.render(View(judged(alarmed)), width, 2, Pen()))
        assert "DEGRADED alarm slots of lab/1, until it holds again" in row
    paused = View(judged(replace(alarmed, mode="paused")))
    assert "ALARM slots lab/1 (+1)" in text(header.render(paused, 160, 2, Pen()))
