"""Charts of the vitals, and how many waits and first tokens took how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual.strip import Strip
from tui.requests import requests_of
from tui.worlds import VITALS, empty_world, world

from hivemind.world.health import BOUNDS_S, Histogram
from hivemind_tui.panels import trends
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View
from hivemind_tui.widgets.line_table import Render


def rows_of(render: Render, view: View, width: int, height: int) -> list[str]:
    """The rows of a panel, all of the right width."""
    rows: list[Strip] = render(view, width, height, Pen())
    assert [row.cell_length for row in rows] == [width] * height
    return [row.text for row in rows]


def test_the_charts_look_as_agreed(golden: Callable[[str, str], None]) -> None:
    """In one column, in two, and in ASCII."""
    view = View(world())
    golden("trends_80x30", "\n".join(rows_of(trends.render, view, 80, 30)))
    golden("trends_140x24", "\n".join(rows_of(trends.render, view, 140, 24)))
    golden("trends_ascii", "\n".join(row.text for row in trends.render(view, 80, 30, replace(Pen(), glyphs=ASCII))))


def test_where_there_is_too_little_room_the_important_charts_stay() -> None:
    """A head and two rows of bars each, at least."""
    rows = "\n".join(rows_of(trends.render, View(world()), 60, 10))
    assert [label in rows for label in ("REQUESTS", "TOKENS", "WAIT", "SPEND")] == [True, True, False, False]


def test_what_appears_is_said_before_anything_happened() -> None:
    """Charts and counts begin with the first requests."""
    view = View(empty_world())
    assert "begin with the first" in rows_of(trends.render, view, 80, 10)[1]
    assert "are counted here" in rows_of(trends.render_times, view, 80, 10)[1]
    assert trends.times_rows(view) == 1


def test_each_time_is_counted_with_the_share_that_took_no_longer() -> None:
    """Where there are fewer rows than lengths, a row is for several, and no count is lost."""
    bins = [0] * (len(BOUNDS_S) + 1)
    bins[4], bins[5], bins[7], bins[-1] = 10, 20, 5, 5
    vitals = replace(VITALS, waits=Histogram(tuple(bins)), ttfts=Histogram())
    view = View(replace(world(), vitals=vitals))
    assert trends.times_rows(view) == len(bins) - 4
    rows = rows_of(trends.render_times, view, 80, 3 + trends.times_rows(view))
    shown = {row[2:10].strip(): row[10:45].split()[-2:] for row in rows[2:-1]}
    assert shown["to 0.1s"] == ["10", "25%"]
    assert shown["to 0.25s"] == ["20", "75%"]
    assert shown["longer"] == ["5", "100%"]
    few = rows_of(trends.render_times, view, 80, 7)
    assert sum(int(row[10:45].split()[-2]) for row in few[2:-1]) == 40


def test_an_agents_own_times_are_those_of_its_requests() -> None:
    """As far as they are remembered and were sent."""
    full = world()
    requests = requests_of(full, 60)
    name = requests[-1].agent
    sent = sum(request.agent == name and bool(request.attempts) for request in requests)
    view = View(full, trail=("agents", "agent"), selected=name, requests=requests)
    assert f"{sent} requests remembered" in rows_of(trends.render_own_times, view, 90, 12)[0]
