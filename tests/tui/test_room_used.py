"""Pages use the room they have: on a large screen no more than a third of one is empty."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tui.kit import frame, press, room, screen, whole_screen
from tui.lanes import several_source

_BELOW = {"agent": "2 enter", "request": "3 enter", "fleet": "7"}
PAGES = {"overview": "1", "agents": "2", "requests": "3", "tuning": "4", "log": "5", "tasks": "6"}
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


@pytest.mark.parametrize("size", [(160, 45), (200, 60)])
async def test_no_more_than_a_third_of_a_page_is_empty(size: tuple[int, int]) -> None:
    """With 12 agents and two upstreams; at 200x60, where so few fill no list, a little more of some."""
    most = 1 / 3 if size == (160, 45) else 0.42
    async with screen(several_source(), size=size) as pilot:
        found = {}
        for name, keys in PAGES.items():
            await press(pilot, keys)
            await frame(pilot)
            found[name] = empty(whole_screen(pilot), *size)
        assert {name: share for name, share in found.items() if share > most} == {}


async def test_pages_below_and_beside_are_used_too() -> None:
    """One agent, one request, a fleet that there isn't, and the first screen; of two of them a little more."""
    size = (160, 45)
    async with screen(several_source(), size=size) as pilot:
        found = {}
        for name, keys in _BELOW.items():
            await press(pilot, f"escape escape {keys}")
            await frame(pilot)
            await frame(pilot)
            found[name] = empty(whole_screen(pilot), *size)
        app = room(pilot)
        app.go(replace(app.view, trail=("start",)))
        await frame(pilot)
        found["start"] = empty(whole_screen(pilot), *size)
        assert "panel error" not in whole_screen(pilot)
    assert max(found.pop("request"), found.pop("fleet")) < 0.4
    assert {name: share for name, share in found.items() if share > 1 / 3} == {}


def test_what_counts_as_empty() -> None:
    """Boxes alone do; a word fills its place."""
    assert empty("╭──────────────╮\n│              │", 16, 2) == 1.0
    assert empty("╭──────────────╮\n│ word         │", 16, 2) == 0.5
