"""The control room under test: a screen on a made-up source, and what stands on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from tui.worlds import FakeSource

from hivemind_tui.app import ControlRoom
from hivemind_tui.pace import Pace
from hivemind_tui.widgets.line_table import LineTable

TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
"""The environment of a terminal that can show everything."""


class _Steady(Pace):
    """A machine on which others work too mustn't change what is drawn."""

    def drawn(self, cost_s: float, late_s: float = 0.0) -> None:
        """It is never too much."""


@asynccontextmanager
async def screen(source: FakeSource, size: tuple[int, int] = (100, 30), **more: Any) -> AsyncIterator[Pilot[str]]:
    """The control room on a source, drawn once."""
    app = ControlRoom(source, environment=more.pop("environment", TERMINAL), **more)
    app._pace = _Steady(app._pace.wanted)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot


async def settle(pilot: Pilot[str]) -> None:
    """Until every key is dealt with, every command carried out and every panel drawn."""
    for _ in range(3):
        await pilot.pause()


async def press(pilot: Pilot[str], keys: str) -> None:
    """Press keys, separated by blanks, and let them have their effect."""
    for key in keys.split():
        await pilot.press(key)
        await settle(pilot)


def room(pilot: Pilot[str]) -> ControlRoom:
    """The app, as what it is."""
    assert isinstance(pilot.app, ControlRoom)
    return pilot.app


def seen(pilot: Pilot[str], panel: str) -> str:
    """The text of one panel."""
    return "\n".join(row.text for row in pilot.app.query_one(f"#{panel}", LineTable).rows)


def whole_screen(pilot: Pilot[str]) -> str:
    """What stands on the screen now, as text."""
    app = pilot.app
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips(app.size))


async def wait_until(pilot: Pilot[str], reached: Callable[[], bool]) -> None:
    """Let the screen work until the condition holds."""
    for _ in range(400):
        if reached():
            return
        await pilot.pause(0.01)
    raise AssertionError("never reached")
