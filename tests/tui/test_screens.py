"""Every screen as a whole, compared with what was agreed on, and what it makes of the room that it has."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tui.graph import processes
from tui.kit import frame, press, room, screen, seen, settle, whole_screen
from tui.lanes import several_source
from tui.worlds import FakeSource, busy_source, empty_world

from hivemind.records import replace
from hivemind.world.snapshot import Snapshot
from hivemind_styles.themes import DARK, LIGHT

SIZES = ((160, 45), (80, 24))
SCREENS = {
    "overview": "",
    "agents": "2 j j",
    "requests": "3 j j",
    "tuning": "4 j j",
    "log": "5",
    "agent": "2 enter j",
    "request": "3 j j j enter",
    "help": "?",
    "commands": ": t h e m e",
    "circuit": "c",
    "stop": "space space x",
    "quit": "q",
    "drain": "D",
    "filter": "2 / s t a t e : s t r e a m",
    "budget": "2 B 5 0 0 k",
    "write": "4 home j j j enter 0 . 7 enter frame W",
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_screen_looks_as_agreed(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    """Each page and each question, in the two sizes; a theme changes colours and nothing else."""
    source = busy_source()
    lane = source.snapshot().lanes[0]
    knobs = {**lane.state.knobs, "aimd.beta": 0.7}
    before, after = source.snapshot(), replace(lane, state=replace(lane.state, knobs=knobs))

    def tuned() -> Snapshot:
        return replace(before, lanes=(after,)) if source.applied else before

    async with screen(source, size=size) as pilot:
        fresh = room(pilot).view
        for name, keys in SCREENS.items():
            if room(pilot).modal_open:
                await press(pilot, "escape")
            kept = replace(room(pilot).view, trail=("overview",), marked=fresh.marked, scroll=0)
            room(pilot).go(replace(kept, agents_order=fresh.agents_order))
            if name == "write":
                source.become(tuned)
            for part in keys.split(" frame "):
                await press(pilot, part)
                await frame(pilot)
            text = whole_screen(pilot)
            golden(f"screen_{name}_{size[0]}x{size[1]}", text)
            if name == "agents":
                pilot.app.theme = LIGHT.name
                await settle(pilot)
                assert whole_screen(pilot) == text
                pilot.app.theme = DARK.name
                await settle(pilot)


OF_PROCESSES = {
    "families": "2 j",
    "folded": "2 @fold",
    "child": "2 j j j enter",
    "running": "1",
    "tasks": "6 j j j j j j",
    "cancel": "6 j X",
    "task_filter": "6 / s t a t e : w a i t",
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_processes_look_as_agreed(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    """Families of agents, the task graph, a budget for all; in the two sizes."""
    async with screen(FakeSource(processes()), size=size) as pilot:
        fresh = room(pilot).view
        for name, keys in OF_PROCESSES.items():
            await press(pilot, "escape")
            room(pilot).go(fresh)
            await press(pilot, keys)
            assert "panel error" not in whole_screen(pilot)
            golden(f"screen_{name}_{size[0]}x{size[1]}", whole_screen(pilot))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_first_screen_looks_as_agreed(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    """What a new user sees before the first request."""

    async def start() -> FakeSource:
        raise AssertionError("not asked for")

    async with screen(FakeSource(empty_world()), size=size, start_demo=start) as pilot:
        golden(f"screen_start_{size[0]}x{size[1]}", whole_screen(pilot))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_colours_are_as_agreed(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    """The overview with its colours, dark and light, as pictures."""
    async with screen(busy_source(), size=size) as pilot:
        for theme in (DARK, LIGHT):
            pilot.app.theme = theme.name
            await settle(pilot)
            # Each export draws a number for its names.
            picture = re.sub(r"terminal-\d+-", "terminal-", pilot.app.export_screenshot())
            golden(f"overview_{size[0]}x{size[1]}_{theme.name.removeprefix('hivemind-')}.svg", picture)


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
