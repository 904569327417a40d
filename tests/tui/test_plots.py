"""The curve: down-sampled without losing a dip, and drawn in cells."""

from __future__ import annotations

import math
import shlex
import subprocess
from pathlib import Path

from tui.trouble import MARKS, bad_afternoon
from tui.worlds import world

from hivemind.records import replace
from hivemind.world.snapshot import CurvePoint
from hivemind_tui.past import process as past_process
from hivemind_tui.plots.canvas import Canvas, columns, steps
from hivemind_tui.plots.sample import Curves, curves_of, mark, span_of, thin
from hivemind_tui.web.server import command_of
from hivemind_tui.whatif import process as whatif_process

_WEB = tuple(shlex.split(command_of("http://127.0.0.1:1", None))[1:])


def curves(width: int = 58) -> Curves:
    made = curves_of(world().lanes[0], width)
    assert made is not None
    return made


def test_two_points_a_column_at_most() -> None:
    """600 points in 40 columns become at most 80, in their order."""
    made = curves(40)
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


def test_what_bent_the_curve_goes_with_it() -> None:
    """Each with its moment, its level, and a sign of its own; the ceiling too, where it is within the scale."""
    lane = bad_afternoon().lanes[0]
    made = curves_of(lane, 60)
    assert made is not None
    assert [sign for _, _, sign in made.marks] == [mark(cause) for cause in MARKS.values()]
    assert all(-600 <= x <= 0 and y > 0 for x, y, _ in made.marks)
    assert made.ceiling == made.top == 12.0
    far = curves_of(replace(lane, state=replace(lane.state, ceiling=100.0)), 60)
    assert far is not None
    assert far.ceiling is None
    assert far.top < 20


def test_no_curves_without_points_or_room() -> None:
    """Too few points or cells, and there is nothing to draw."""
    lane = world().lanes[0]
    assert curves_of(lane, 20) is None
    assert curves_of(world(minutes=0).lanes[0], 60) is None


def test_processes_import_nothing_from_where_the_program_runs(tmp_path: Path) -> None:
    """A project may have a module of the same name as one of ours, or as one that we use; it isn't run."""
    for name in ("hivemind.py", "msgspec.py", "textual.py"):
        (tmp_path / name).write_text("raise SystemExit('not ours')\n")
    command = whatif_process._COMMAND
    ended = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"not ours" not in ended.stderr
    assert all("-P" in each[:3] for each in (command, past_process._COMMAND, _WEB))


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
