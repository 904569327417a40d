"""What the panels of a lane and the strip of vitals say: slots and queue, rate windows, circuit, and the curve."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from tui.kit import text
from tui.trouble import MARKS, bad_afternoon, with_lane
from tui.worlds import VITALS, empty_world, world

from hivemind.records import replace
from hivemind.scheduler.types import Utilisation, WindowKind
from hivemind.world.health import Forecast
from hivemind.world.snapshot import CurvePoint, Line, Snapshot, TicketView
from hivemind_tui.panels import curve, limits, slots, vitals
from hivemind_tui.plots.plotter import draw
from hivemind_tui.plots.sample import mark
from hivemind_tui.render.format import local
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

PLAIN = Pen()


def slots_of(snapshot: Snapshot, width: int = 96, height: int = 13, **pen: Any) -> str:
    return text(slots.render(View(snapshot), width, height, replace(PLAIN, **pen)))


def windows_of(snapshot: Snapshot, width: int = 96, height: int = 8, **pen: Any) -> str:
    return text(limits.render_windows(View(snapshot), width, height, replace(PLAIN, **pen)))


def circuit_of(snapshot: Snapshot, width: int = 64, height: int = 8) -> str:
    return text(limits.render_circuit(View(snapshot), width, height, PLAIN))


def curve_of(snapshot: Snapshot, width: int = 64, height: int = 13, **pen: Any) -> str:
    return text(curve.render(View(snapshot), width, height, replace(PLAIN, **pen)))


def in_flight(number: int) -> tuple[TicketView, ...]:
    """So many requests in flight."""
    one = world().slots[0]
    return tuple(replace(one, ticket=n, agent=f"agent-{n}") for n in range(1, number + 1))


# --- Requests ----------------------------------------------------------------------------------------------------


def test_after_a_cut_the_limit_stands_among_the_slots() -> None:
    """Those beyond the limit go on to the end, and it is told that they are beyond it."""
    snapshot = with_lane(replace(world(), slots=in_flight(6)), level=4.0, active=6)
    rows = slots_of(snapshot).splitlines()
    assert "6 of 4 in flight, 2 over" in rows[0]
    assert "level 4 of at most 12 2 over it" in rows[6]
    assert "agent-5" in rows[7]


def test_where_slots_are_many_the_rest_is_counted() -> None:
    """No row is lost without a word."""
    snapshot = with_lane(replace(world(), slots=in_flight(40)), level=64.0, ceiling=64.0, active=40)
    rows = slots_of(snapshot, 60, 16)
    shown = sum(row.count("agent-") for row in rows.splitlines() if " more in flight" not in row)
    assert shown > 2
    assert f"… {40 - shown} more in flight" in rows
    few = with_lane(replace(world(), slots=in_flight(2)), level=64.0, ceiling=64.0, active=2)
    assert "… 62 free" in slots_of(few)


def test_the_queue_goes_on_where_slots_are_free() -> None:
    """Beside two slots and below them, in its order, and under heads of its own."""
    crowd = tuple(replace(world().queue[0], ticket=n, agent=f"agent-{n:02}", position=n) for n in range(1, 31))
    snapshot = with_lane(replace(world(), slots=in_flight(2), queue=crowd), level=2.0, active=2, waiting=30, retrying=0)
    rows = slots_of(snapshot, height=16).splitlines()[1:-1]
    assert [row[-47:].split()[2] for row in rows[1:]] == [f"agent-{n:02}" for n in range(1, 14)]
    assert rows[4].split()[1] == "QUEUE"
    assert [row[2:].split()[2] for row in rows[5:-1]] == [f"agent-{n:02}" for n in range(14, 22)]
    assert "… 9 more" in rows[-1]


# --- Rate windows ------------------------------------------------------------------------------------------------


def test_what_others_took_counts_as_used() -> None:
    """Where the provider says that less is left than we took, the rest is gone all the same."""
    window = replace(world().lanes[0].state.windows[0], used=10, reserved=2, remaining=5)
    rows = windows_of(with_lane(world(), windows=(window,)))
    assert rows.splitlines()[2].split()[3:8] == ["43", "2", "5", "50", "in"]


@pytest.mark.parametrize("size", [(96, 8), (82, 4), (60, 7), (120, 5)])
def test_windows_tell_when_they_run_out_and_when_they_reset(size: tuple[int, int]) -> None:
    """At every size and count of windows there are heads over both."""
    lane = world().lanes[0].state
    ends = Forecast(windows={lane.lane: (9.0, None, None)})
    rows = windows_of(replace(with_lane(world(), plan=()), forecast=ends), *size).splitlines()
    assert "RUNS OUT   RESETS" in rows[1]
    row = next(row for row in rows if re.search(r"req|3 OF", row) and "in 9.0s" in row)
    assert "in 9.0s   in 23s" in row


def test_a_long_window_tells_when_it_ends_and_whom_its_pace_holds() -> None:
    plan = (Utilisation("5h", 0.63, 9000.0, "allowed", 18_000.0, "", 4500.0, 1200.0),)
    row = next(row for row in windows_of(with_lane(world(), plan=plan), 120).splitlines() if "5h plan" in row)
    assert re.search(r"63% +37% +plan in 1h15m in 2h30m +low in 20m00s", row)


def test_each_family_of_models_tells_when_its_windows_run_out() -> None:
    """Each window has a row, with its family's name; where rows are too few, they are in two columns."""
    lane = world().lanes[0].state
    both = tuple(replace(w, family=family) for family in ("claude-opus", "claude-haiku") for w in lane.windows)
    ends = Forecast(windows={lane.lane: (41.0, 9.0, None, None, None, None)})
    snapshot = replace(with_lane(world(), windows=both, plan=()), forecast=ends)
    (row,) = (row for row in windows_of(snapshot, height=9).splitlines() if "in 9.0s   in 23s" in row)
    assert re.search("claude-opus +input", row)
    rows = windows_of(snapshot, height=6).splitlines()
    assert rows[1].count("RUNS OUT") == 2
    assert re.search("claude-opus +in ", next(row for row in rows if "in 9.0s" in row))


def test_the_tightest_family_is_never_the_one_left_out() -> None:
    """Where families are too many for the rows, the one with the least left is among those shown."""
    lane = world().lanes[0]
    many = tuple(
        replace(w, family=f"model-{n}", remaining=0 if n == 8 else w.limit)
        for n in range(9)
        for w in lane.state.windows
    )
    rows = windows_of(with_lane(world(), windows=many, plan=()), height=7)
    assert "model-8" in rows
    assert "WINDOW 8 OF 27" in rows


def test_an_unknown_window_limit_is_no_division_by_zero() -> None:
    """A window whose limit is 0 is drawn."""
    window = replace(world().lanes[0].state.windows[0], limit=0, kind=WindowKind.TOKENS)
    assert "tokens" in windows_of(with_lane(world(), windows=(window,)), 70)


# --- Circuit -----------------------------------------------------------------------------------------------------


def test_forced_open_circuit_says_so() -> None:
    """What the operator forced is told in words, with who did it and that no probe comes."""
    forced = with_lane(world(), circuit="open", circuit_forced=True)
    line = Line(5000.0, forced.wall, "info", "you", "anthropic", "circuit forced open")
    rows = circuit_of(replace(forced, lines=(*forced.lines, line)))
    assert "✕ OPEN forced" in rows
    assert "none while forced open" in rows
    assert "you: circuit forced open" in rows


def test_half_open_tells_of_the_probe() -> None:
    """Whether it flies or waits for somebody to come."""
    assert "in flight, its result decides" in circuit_of(with_lane(world(), circuit="half_open"))
    assert "the next request" in circuit_of(with_lane(world(), circuit="half_open", active=0))


@pytest.mark.parametrize(("mode", "words"), [("paused", "everything waits"), ("draining", "new requests are refused")])
def test_what_else_stands_in_the_way_is_told(mode: str, words: str) -> None:
    """A pause of the operator's, of the provider's, and a drain."""
    rows = circuit_of(replace(world(), mode=mode))
    assert words in rows
    assert "rate-limited, 3.1s left" in rows


# --- The curve ---------------------------------------------------------------------------------------------------


def test_each_cause_has_a_sign_of_its_own() -> None:
    """No two causes that mean different things look alike, in either set of glyphs."""
    signs = {mark(cause) for cause in MARKS.values()}
    assert len(signs) == len(MARKS)
    assert len({sign.glyph for sign in signs}) == len({sign.plain for sign in signs}) == len(MARKS)


@pytest.mark.parametrize("braille", [True, False])
def test_every_cut_and_turn_stands_on_the_sketch(braille: bool) -> None:
    """All of them at their moments, explained under it, the last one in words."""
    glyphs = {} if braille else {"glyphs": ASCII}
    rows = curve_of(bad_afternoon(), 120, 24, **glyphs).splitlines()
    picture = "\n".join(rows[1:-3])
    for cause in MARKS.values():
        assert mark(cause).shown(braille) in picture
        assert mark(cause).word in rows[-3]
    assert ("×0.5 at 22:12:20: truncated" if braille else "x0.5 at 22:12:20: truncated") in rows[-3]
    assert "first token 1.4s, target 2.0s" in rows[-2]


def test_every_cut_stands_in_the_figure_too(golden: Callable[[str, str], None]) -> None:
    """As plotext draws it, with the ceiling as a line."""
    view = View(bad_afternoon())
    job = curve.wanted(view, 90, 20, PLAIN)
    assert job is not None
    rows = text(curve.render(view, 90, 20, PLAIN, draw(job)))
    assert all(mark(cause).glyph in rows for cause in MARKS.values())
    assert "┄┄┄" in rows
    golden("curve_figure", rows)


def test_a_turn_of_a_knob_is_told_as_such() -> None:
    """By the knob and its value, not as a cut."""
    lane = world().lanes[0]
    points = tuple(
        replace(point, mark="aimd.beta=0.7" if index == 300 else "") for index, point in enumerate(lane.curve)
    )
    snapshot = replace(world(), lanes=(replace(lane, curve=points),))
    assert "▲ aimd.beta=0.7 at 22:08:20" in curve_of(snapshot)


def test_a_cut_tells_the_factor_of_its_levels_not_of_the_points() -> None:
    """Between two points the level grew to 1.375 and was cut to 1.0, which is no growth by a tenth."""
    points = tuple(CurvePoint(5000.0 - 9 + n, 0.9 + n / 100, 0, 0, None, "") for n in range(9))
    points = (*points, CurvePoint(5000.0, 1.1, 0, 0, None, "truncated", (1.375, 1.0)))
    lane = replace(world().lanes[0], curve=points)
    assert "◁ ×0.73 at 22:13:20: truncated" in curve_of(replace(world(), lanes=(lane,)))


def busy(**changes: Any) -> Snapshot:
    """A minute in which much happened, and what is foreseen."""
    changes = {"tasks": 40, "tasks_done": 12, **changes}
    forecast = Forecast(tasks_done_in_s=42.0, hour_ends_in_s=600.0)
    return replace(world(), vitals=replace(VITALS, **changes), forecast=forecast)


def strip(snapshot: Snapshot, width: int, height: int, pen: Pen = PLAIN) -> str:
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
    golden(f"vitals_{name}", strip(snapshot, width, height, pen))


def test_a_later_end_is_told_by_the_clock() -> None:
    """Of the tasks, and of the hour whose dollars are foreseen."""
    forecast = Forecast(tasks_done_in_s=3000.0, dollars_by_hour=21.5, hour_ends_in_s=600.0)
    found = replace(busy(), forecast=forecast)
    end, hour = (time.strftime("%H:%M", local(found.wall + later)) for later in (3000.0, 600.0))
    assert f"ETA {end}" in strip(found, 250, 3)
    assert f"$3.41/h, $21.50 by {hour}" in strip(found, 250, 3)


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
    tile = strip(busy(wait_p95_s=34.0, series={"wait_p95_s": (2.7, 15.0)}), 160, 3)
    assert "p95 34s" in tile
    assert "max 34s 1m" in tile


def test_the_peak_is_no_less_than_the_figure() -> None:
    """A figure may count what its series doesn't have yet."""
    shown = strip(busy(error_share=0.41, requests_per_s=88.0, series={**VITALS.series, "error_share": (0.22,)}), 200, 3)
    assert "41 %" in shown
    assert "max 41 % 1m" in shown
    assert "max 88.0/s" in shown


def test_tiles_say_which_time_their_figures_are_of() -> None:
    """The last minute, and for the peak the span that its sparkline shows."""
    tiles = strip(busy(tasks=0, step_s=60.0, series={"error_share": (0.1,) * 60}), 160, 3)
    assert "ERRORS 1m" in tiles
    assert "max 13 % 1h" in tiles
    assert "errors 1m 13 %" in strip(busy(), 150, 1)
