"""Every screen as a whole, compared with what was agreed on: as text in two sizes, some in colour."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tui.graph import processes
from tui.kit import frame, press, room, screen, settle, whole_screen
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
