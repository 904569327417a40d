"""Pages use the room they have: on a large screen no more than a third of one is empty."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tui.kit import frame, press, room, screen, seen, whole_screen
from tui.lanes import several_source
from tui.worlds import FakeSource

from hivemind.records import replace

PAGES = {"overview": "1", "agents": "2", "requests": "3", "tuning": "4", "log": "5", "tasks": "6"}
PAGES |= {"agent": "2 enter", "request": "3 enter", "fleet": "7"}
_OF_TASKS = {"overview": "1", "tasks": "6"}
"""Pages that a task graph fills."""
_BLOCK = 8, 2
"""Cells and rows of what counts as one place: less than that is the space between words and lines."""
_LINES = " ─│╭╮╰╯┊┃"


def empty(text: str, width: int, height: int) -> float:
    """The share of the screen's places in which nothing stands but the lines of boxes."""
    rows = [row.ljust(width) for row in text.splitlines()]
    places = [
        "".join(row[x : x + _BLOCK[0]] for row in rows[y : y + _BLOCK[1]])
        for y in range(0, height - 1, _BLOCK[1])
        for x in range(0, width, _BLOCK[0])
    ]
    return sum(not place.strip(_LINES) for place in places) / len(places)


SIZE = 160, 45
_MOST = 1 / 3


def without_tasks() -> FakeSource:
    """The same, without a task graph."""
    source = several_source()
    source.become(replace(source.snapshot(), tasks=(), task_counts={}))
    return source


@pytest.mark.parametrize("source", [pytest.param(several_source, marks=pytest.mark.slow), without_tasks])
async def test_no_more_than_a_third_of_a_page_is_empty(source: Callable[[], FakeSource]) -> None:
    """With 12 agents and two upstreams, with a task graph and without one; of one agent, one request, a fleet that
    there isn't, and of the first screen, too."""
    async with screen(source(), SIZE) as pilot:
        app, found = room(pilot), {}
        for name, keys in (_OF_TASKS if source is without_tasks else PAGES).items():
            await press(pilot, f"escape escape {keys}")
            await frame(pilot)
            await frame(pilot)
            assert "panel error" not in whole_screen(pilot)
            found[name] = empty(whole_screen(pilot), *SIZE)
        app.go(replace(app.view, trail=("start",)))
        await frame(pilot)
        found["start"] = empty(whole_screen(pilot), *SIZE)
        assert {name: share for name, share in found.items() if share > _MOST} == {}


async def test_no_panel_of_the_overview_is_pushed_out() -> None:
    """On wide and low screens agents and rate windows had no place."""
    async with screen(several_source(), size=(140, 36)) as pilot:
        for size in ((140, 36), (190, 36), (250, 45)):
            await pilot.resize_terminal(*size)
            await frame(pilot)
            shown = whole_screen(pilot)
            titles = ("Requests", "Concurrency", "Rate windows", "Agents", "Log")
            assert [title for title in titles if title not in shown] == [], size
            assert "alice" in seen(pilot, "agents")


def test_what_counts_as_empty() -> None:
    """Boxes alone do; a word fills its place."""
    assert empty("╭──────────────╮\n│              │", 16, 2) == 1.0
    assert empty("╭──────────────╮\n│ word         │", 16, 2) == 0.5
