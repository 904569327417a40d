"""The strip of vitals below the header."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from tui.worlds import VITALS, empty_world, world

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


@pytest.mark.parametrize("height", [1, 2, 3, 5])
def test_it_fills_its_space_exactly(height: int) -> None:
    """At every width, and the most important vitals stay."""
    for width in (3, 20, 79, 320):
        rows = vitals.render(View(busy()), width, height, PLAIN)
        assert [cell_len(row.text) for row in rows] == [width] * height
        if width >= 20:
            assert "2.4/s" in "".join(row.text for row in rows)
    assert vitals.render(View(busy()), 80, 0, PLAIN) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"requests_per_s": 0.0}, "0/min"),
        ({"requests_per_s": 0.02}, "1.2/min"),
        ({"requests_per_s": 0.5}, "30/min"),
        ({"requests_per_s": 250.0}, "250/s"),
        ({"tokens_limit": None}, "71k/min"),
        ({"error_share": 0.003, "failed_share": 0.0}, "<1 %, requests 0 %"),
        ({"error_share": 0.0}, "0 %"),
        ({"error_share": None}, "—"),
        ({"wait_p95_s": None}, "—"),
        ({}, "12 of 40, ETA 42s"),
        ({}, "p95 13s  p50 0.8s"),
    ],
)
def test_what_a_tile_says(changes: dict[str, Any], words: str) -> None:
    """The figure, and what belongs to it."""
    assert words in text(busy(**changes), 200, 3)


def test_a_later_end_is_told_by_the_clock() -> None:
    """Of the tasks, and of the hour whose dollars are foreseen."""
    forecast = Forecast(tasks_done_in_s=3000.0, dollars_by_hour=21.5, hour_ends_in_s=600.0)
    found = replace(busy(), forecast=forecast)
    end, hour = (time.strftime("%H:%M", local(found.wall + later)) for later in (3000.0, 600.0))
    assert f"ETA {end}" in text(found, 250, 3)
    assert f"$3.41/h, $21.50 by {hour}" in text(found, 250, 3)


def test_without_tasks_there_is_no_tile_for_them() -> None:
    assert "TASKS" not in text(busy(tasks=0), 200, 3)


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
    assert "max 34s" in tile
