"""The curve and bars on a time axis: no dip is lost, bars are as wide as the axis, and another process draws."""

from __future__ import annotations

import asyncio
import math
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tui.courses import AT, cases
from tui.trouble import MARKS, bad_afternoon
from tui.worlds import world

from hivemind.records import replace
from hivemind.world.snapshot import CurvePoint
from hivemind_tui.panels import curve
from hivemind_tui.plots import process as plots_process
from hivemind_tui.plots.canvas import Canvas, columns, steps
from hivemind_tui.plots.plotter import draw
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.plots.sample import ROLE_CODES, Figure, Job, job_for, mark, span_of, thin
from hivemind_tui.render.bars import SPANS, bar, beginning, ending, rounded, shares, times_of_day, times_since
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.render.phases import Phase, phases_of
from hivemind_tui.state.view import View
from hivemind_tui.web.server import command_of
from hivemind_tui.whatif import process as whatif_process

_WEB = tuple(shlex.split(command_of("http://127.0.0.1:1", None))[1:])


def job(width: int = 58, height: int = 11) -> Job:
    made = job_for(world().lanes[0], width, height)
    assert made is not None
    return made


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[PlotProcess]:
    plots = PlotProcess(command, restart_s=0.01) if command else PlotProcess(restart_s=0.01)
    try:
        yield plots
    finally:
        await plots.aclose()


async def shown(plots: PlotProcess, condition: Callable[[], bool]) -> list[Figure | None]:
    """Until the condition holds after some change of the figure; return what it changed to."""
    changes: asyncio.Queue[Figure | None] = asyncio.Queue()
    plots.on_figure = lambda: changes.put_nowait(plots.figure)
    figures = []
    async with asyncio.timeout(30):
        while not (condition() and changes.empty()):
            figures.append(await changes.get())
    return figures


def test_two_points_a_column_at_most() -> None:
    """600 points in 40 columns become at most 80, in their order."""
    made = job(width=40)
    assert len(made.level) <= 80
    assert [x for x, _ in made.level] == sorted(x for x, _ in made.level)
    assert all(-600 <= x <= 0 for x, _ in made.level + made.ttft + made.active)
    assert len(made.active) <= 40


def test_thinning_keeps_every_dip_and_peak() -> None:
    """A dip of a single point among hundreds is still there in a few columns."""
    points = [
        CurvePoint(at=float(n), level=2.0 if n == 333 else 8.0, active=1, waiting=0, ttft_s=None, mark="")
        for n in range(600)
    ]
    thinned = thin(points, now=599.0, span_s=600.0, columns=10, value=lambda point: point.level)
    assert min(y for _, y in thinned) == 2.0
    assert len(thinned) <= 20


def test_what_has_no_limit_or_no_value_is_left_out() -> None:
    """An infinite level and an unknown first token make no point."""
    points = [CurvePoint(at=float(n), level=math.inf, active=n, waiting=0, ttft_s=None, mark="") for n in range(5)]
    assert thin(points, 4.0, 60.0, 10, lambda point: point.level) == []
    assert thin(points, 4.0, 60.0, 10, lambda point: point.ttft_s) == []


def test_a_curve_that_began_not_long_ago_takes_more_than_half_of_the_width() -> None:
    """From its sixth second on, so that the largest screens aren't empty while a short demo runs."""
    for age in range(6, 600):
        curve = [CurvePoint(float(at), 4.0, 1, 0, None, "") for at in (0, age)]
        assert age <= span_of(curve) < age / 0.54


def test_what_bent_the_curve_goes_with_the_job() -> None:
    """Each with its moment, its level, and a sign of its own; the ceiling too, where it is within the scale."""
    lane = bad_afternoon().lanes[0]
    made = job_for(lane, 60, 12)
    assert made is not None
    assert [(sign, ROLE_CODES[code]) for _, _, sign, code in made.marks] == [
        (mark(cause).glyph, mark(cause).role) for cause in MARKS.values()
    ]
    assert all(-600 <= x <= 0 and y > 0 for x, y, _, _ in made.marks)
    assert made.ceiling == made.top == 12.0
    far = job_for(replace(lane, state=replace(lane.state, ceiling=100.0)), 60, 12)
    assert far is not None
    assert far.ceiling is None
    assert far.top < 20


def test_no_figure_without_points_or_room() -> None:
    """Too few points or cells, and there is nothing to draw."""
    lane = world().lanes[0]
    assert job_for(lane, 20, 10) is None
    assert job_for(lane, 60, 3) is None
    assert job_for(world(minutes=0).lanes[0], 60, 10) is None


@pytest.mark.parametrize(("width", "height"), [(24, 4), (58, 8), (58, 11), (120, 30)])
def test_a_figure_has_the_size_asked_for(width: int, height: int) -> None:
    """plotext's figure is exactly as large as the panel's place, in roles that the panel knows."""
    figure = draw(job(width, height))
    assert len(figure.rows) == height
    assert all(sum(len(text) for text, _ in row) == width for row in figure.rows)
    roles = {ROLE_CODES[code] for row in figure.rows for text, code in row if text.strip()}
    assert "ok" in roles


@pytest.mark.e2e
async def test_the_process_draws() -> None:
    """A job handed in comes back as the figure that this process would have drawn."""
    async with process() as plots:
        plots.submit(job())
        await shown(plots, lambda: plots.figure is not None)
        assert plots.figure == draw(job())


def test_processes_import_nothing_from_where_the_program_runs(tmp_path: Path) -> None:
    """A project may have a module of the same name as one of ours, or as one that we use; it isn't run."""
    for name in ("hivemind.py", "msgspec.py", "textual.py"):
        (tmp_path / name).write_text("raise SystemExit('not ours')\n")
    command = plots_process._COMMAND
    ended = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"not ours" not in ended.stderr
    assert all("-P" in each[:3] for each in (command, whatif_process._COMMAND, _WEB))


@pytest.mark.e2e
async def test_a_killed_process_comes_back() -> None:
    """kill -9: no figure for a moment, then another process and the figure again, without a new job."""
    async with process() as plots:
        plots.submit(job())
        await shown(plots, lambda: plots.figure is not None)
        first = plots.pid
        assert first is not None
        plots.submit(job(60))
        os.kill(first, signal.SIGKILL)
        assert None in await shown(plots, lambda: plots.figure is not None and plots.pid not in (first, None))
        assert plots.figure is not None
        assert plots.figure.width == 60


async def test_a_command_that_is_no_plotter_is_given_up_on_politely() -> None:
    """Nonsense instead of figures, or no program at all, is a log line and no figure; closing still works."""
    async with process(sys.executable, "-c", "print('x' * 100)") as plots:
        plots.submit(job())
        await shown(plots, lambda: plots.pid is None)
        assert plots.figure is None
    async with process("/nonexistent/plotter") as plots:
        plots.submit(job())
        await shown(plots, lambda: True)
        assert plots.figure is None


def test_the_panel_sketches_while_there_is_no_figure() -> None:
    """Without a figure, or with one of another size, the panel draws a braille curve of its own."""
    rows = curve.render(View(world()), 64, 14, Pen())
    assert any(0x2800 < ord(letter) <= 0x28FF for row in rows for letter in row.text)
    with_figure = curve.render(View(world()), 64, 14, Pen(), draw(job(60, 11)))
    assert "-10m" in "".join(row.text for row in with_figure)
    wrong_size = curve.render(View(world()), 64, 14, Pen(), draw(job(50, 11)))
    assert [row.text for row in wrong_size] == [row.text for row in rows]


def test_braille_line() -> None:
    """A step from 0 to the top is a line along the bottom, up, and along the top; what isn't known leaves a gap."""
    canvas = Canvas(3, 1)
    canvas.curve([0.0, 0.0, 1.0, 1.0, None, None], 1.0, "ok")
    assert canvas.rows() == [[("⣀⡏", "ok"), (" ", "text")]]


def test_a_row_of_bars() -> None:
    """Each value as high as it is, and each moment with the value that held then."""
    assert steps([0.0, 0.5, 1.0, None], 1.0, " ▁▂▃▄▅▆▇█") == "▁▄█ "
    assert columns([(-60.0, 1.0), (-15.0, 2.0)], 60.0, 4) == [1.0, 1.0, 1.0, 2.0]


def test_curves_on_a_canvas_share_their_cells() -> None:
    """Where two meet the dots of both are there, in the later one's colour; a line stays behind them."""
    canvas = Canvas(2, 1)
    canvas.curve([3.0, None, None, None], 3.0, "info")
    canvas.curve([0.0, None, None, None], 3.0, "ok")
    canvas.line(0.0, 3.0, "-", "rule")
    assert canvas.rows() == [[("\u2841", "ok"), ("-", "rule")]]


def test_a_canvas_without_braille_draws_a_sign_a_cell() -> None:
    """From the bottom to the top, with what stands between two values filled."""
    canvas = Canvas(3, 3, braille=False)
    assert canvas.columns == 3
    canvas.curve([0.0, 2.0, None], 2.0, "ok", "*")
    canvas.put(1.0, 2.0, 2.0, "x", "bad")
    assert [runs for runs in canvas.rows()] == [
        [(" ", "text"), ("*", "ok"), ("x", "bad")],
        [(" ", "text"), ("*", "ok"), (" ", "text")],
        [("**", "ok"), (" ", "text")],
    ]


INK = Pen()


def drawn(made: list[Phase], width: int, pen: Pen = INK) -> str:
    axis = ending(made[0].start_at, made[-1].end_at, width)
    return "".join(text for text, _ in bar(made, axis, pen))


@pytest.mark.parametrize("width", [1, 2, 7, 60, 200])
@pytest.mark.parametrize("name", sorted(cases()))
def test_bar_is_as_wide_as_its_axis(name: str, width: int) -> None:
    """Whatever the course, and with fewer cells than pieces too."""
    made = phases_of(cases()[name], AT)
    for axis in (ending(made[0].start_at, made[-1].end_at, width), beginning(made[0].start_at, AT, width)):
        assert sum(len(text) for text, _ in bar(made, axis, INK)) == axis.width


@pytest.mark.parametrize("name", sorted(cases()))
def test_every_piece_has_a_cell(name: str) -> None:
    """Also where a cell is minutes."""
    made = phases_of(cases()[name], AT)
    runs = drawn([replace(phase, start_at=phase.start_at - 9000 * (phase is made[0])) for phase in made], 100).split()
    assert len("".join(runs)) >= len(made)


def test_where_cells_are_few_failures_stay() -> None:
    """What went wrong is what one looks for; pauses go first."""
    assert shares([1, 1, 1, 9], 3, [4, 0, 3, 1]) == [0, 1, 1, 1]
    assert shares([1, 1, 1, 9], 1, [4, 0, 3, 1]) == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("lengths", "cells", "expected"),
    [
        ([1, 1], 10, [5, 5]),
        ([0.001, 8, 0.001], 10, [1, 8, 1]),
        ([0, 0], 5, [4, 1]),
        ([3, 1], 4, [3, 1]),
        ([1, 1, 1], 10, [4, 3, 3]),
        ([5], 7, [7]),
    ],
)
def test_cells_go_by_length(lengths: list[float], cells: int, expected: list[int]) -> None:
    """Each phase gets its share, and one cell at least; together they are all cells."""
    assert shares(lengths, cells, [0] * len(lengths)) == expected


def test_what_is_over_keeps_its_shape() -> None:
    """As time goes on, a finished bar moves by whole cells and is drawn the same while the axis is as long."""
    made = phases_of(cases()["answered"], AT)
    shapes = set()
    for step in range(80):
        axis = ending(made[0].start_at, AT + step * 0.7, 120)
        shapes.add((axis.span_s, "".join(text for text, _ in bar(made, axis, INK)).strip()))
    assert [span for span, _ in sorted(shapes)] == [60, 120]


@pytest.mark.parametrize("stretch", [0.1, 29, 31, 119, 121, 3000, 90_000, 400_000])
def test_axis_holds_all_of_it(stretch: float) -> None:
    """Both ends stand on it, each in its own cell, and it isn't much longer than it must be."""
    axis = ending(AT - stretch, AT, 80)
    assert axis.cell(AT) == 79
    assert axis.cell(AT - stretch) == 79 or stretch > 0.3
    assert axis.cell(AT - stretch - axis.cell_s * 80) == 0
    assert (AT - stretch) / axis.cell_s - axis.first >= 0
    assert axis.span_s in SPANS or axis.span_s % 86_400 == 0


def test_times_of_day_stand_at_round_moments() -> None:
    """Every label begins at its own moment, and none is cut."""
    axis = ending(AT - 100, AT, 60)
    line = times_of_day(axis, 1_700_000_000.0 - AT, "|")
    assert len(line) == 60
    assert line.split() == ["|22:11:30", "|22:12:00", "|22:12:30", "|22:13:00"]
    assert line.index("|22:13:00") == axis.cell(AT - 19.99)  # the moment is 22:13:20
    assert line.index("|22:12:00") == axis.cell(AT - 79.99)
    day = ending(AT - 500_000, AT, 60)
    assert times_of_day(day, 1_700_000_000.0 - AT, "|").split("|")[1].strip() == "09 Nov"


def test_times_since_the_beginning() -> None:
    """An axis of one request begins at nought."""
    assert times_since(beginning(AT, AT + 18, 40), "|") == "|0s       |5s       |10s      |15s      "
    assert times_since(beginning(AT, AT + 18, 2), "|") == "  "


@pytest.mark.parametrize(
    ("moment", "text"), [(0, "0s"), (30, "30s"), (90, "1m30s"), (3600, "1h"), (5400, "1h30m"), (432_000, "5d")]
)
def test_round_durations(moment: float, text: str) -> None:
    """In few letters, without what is nought."""
    assert rounded(moment) == text


def test_pieces_differ_without_colours() -> None:
    """Each kind has a character of its own, on a poor console too."""
    for glyphs in (INK.glyphs, ASCII):
        pen = replace(INK, glyphs=glyphs)
        kinds = ("queue", "failed", "pause", "first", "stream")
        text = drawn([Phase(kind, AT + n, AT + n + 1) for n, kind in enumerate(kinds)], 60, pen)
        assert len(set(text.strip())) == len(kinds)
