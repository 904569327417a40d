"""The strip of vitals below the header."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tui.worlds import VITALS, empty_world, world

from hivemind.records import replace
from hivemind.world.health import Forecast
from hivemind.world.snapshot import Snapshot
from hivemind_tui.panels import vitals
from hivemind_tui.render.format import local
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

PLAIN = Pen()


def busy(**changes: Any) -> Snapshot:
    """A minute in which much happened, and what is foreseen."""
    changes = {"tasks": 40, "tasks_done": 12, **changes}
    forecast = Forecast(tasks_done_in_s=42.0, hour_ends_in_s=600.0)
    return replace(world(), vitals=replace(VITALS, **changes), forecast=forecast)


def text(snapshot: Snapshot, width: int, height: int, pen: Pen = PLAIN) -> str:
    """The strip's rows."""
    return "\n".join(row.text for row in vitals.render(View(snapshot), width, height, pen))


@pytest.mark.parametrize(
    ("name", "snapshot", "width", "height", "pen"),
    [
        ("tiles", busy(), 160, 3, PLAIN),
        ("tiles_wide", busy(), 250, 3, PLAIN),
        ("tiles_ascii", busy(tasks=0), 160, 3, replace(PLAIN, glyphs=ASCII)),
        ("tiles_empty", empty_world(), 160, 3, PLAIN),
        ("row", busy(), 80, 1, PLAIN),
        ("row_wide", busy(), 150, 1, PLAIN),
        ("row_empty", empty_world(), 80, 1, PLAIN),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_strip(
    golden: Callable[[str, str], None], name: str, snapshot: Snapshot, width: int, height: int, pen: Pen
) -> None:
    """In one row, and in tiles."""
    golden(f"vitals_{name}", text(snapshot, width, height, pen))


def test_a_later_end_is_told_by_the_clock() -> None:
    """Of the tasks, and of the hour whose dollars are foreseen."""
    forecast = Forecast(tasks_done_in_s=3000.0, dollars_by_hour=21.5, hour_ends_in_s=600.0)
    found = replace(busy(), forecast=forecast)
    end, hour = (time.strftime("%H:%M", local(found.wall + later)) for later in (3000.0, 600.0))
    assert f"ETA {end}" in text(found, 250, 3)
    assert f"$3.41/h, $21.50 by {hour}" in text(found, 250, 3)


@pytest.mark.parametrize(("used", "role"), [(60_000.0, "strong"), (70_000.0, "wait"), (79_000.0, "bad")])
def test_near_the_limit_tokens_change_their_colour(used: float, role: str) -> None:
    """From 80 % on, and from 97 %."""
    found = list(vitals.vitals_of(busy(tokens_per_min=used)))
    assert next(each for each in found if each.label == "TOKENS").figure[0][1] == role


def bars(series: tuple[float | None, ...], cells: int, now: int = 60) -> str:
    """A sparkline's characters."""
    return "".join(char for char, _ in vitals.sparkline(series, cells, now, "ok", PLAIN))


def test_a_sparkline_ends_with_the_newest() -> None:
    """A point a cell where there is room; nothing where nothing is known, and a low bar for zero."""
    assert bars((0.0, 1.0, None, 8.0), 6) == "  ▁▁ █"
    assert bars((), 3) == "   "
    assert bars((None, None), 3) == "   "
    assert bars((5.0,), 0) == ""


def test_a_sparkline_moves_without_flickering() -> None:
    """Points that shared a cell share it still when there is one more: peaks keep their height while they move."""
    points = tuple(float(n * 37 % 23) for n in range(200))
    earlier, later = bars(points[:60], 20, 60), bars(points[3:63], 20, 63)
    assert later[:-1] == earlier[1:]


def test_a_sparkline_is_scaled_by_its_largest_value() -> None:
    """Or by a given one, if that is larger."""
    spans = vitals.sparkline((0.05,), 1, 1, "bad", PLAIN, 0.1)
    assert spans == [("▄", "bad")]


def test_the_longest_wait_is_no_shorter_than_the_one_that_is_told() -> None:
    """The series doesn't count waits that aren't over, but the figure does."""
    tile = text(busy(wait_p95_s=34.0, series={"wait_p95_s": (2.7, 15.0)}), 160, 3)
    assert "p95 34s" in tile
    assert "max 34s 1m" in tile


def test_the_peak_is_no_less_than_the_figure() -> None:
    """A figure may count what its series doesn't have yet."""
    shown = text(busy(error_share=0.41, requests_per_s=88.0, series={**VITALS.series, "error_share": (0.22,)}), 200, 3)
    assert "41 %" in shown
    assert "max 41 % 1m" in shown
    assert "max 88.0/s" in shown


def test_tiles_say_which_time_their_figures_are_of() -> None:
    """The last minute, and for the peak the span that its sparkline shows."""
    tiles = text(busy(tasks=0, step_s=60.0, series={"error_share": (0.1,) * 60}), 160, 3)
    assert "ERRORS 1m" in tiles
    assert "max 13 % 1h" in tiles
    assert "errors 1m 13 %" in text(busy(), 150, 1)
