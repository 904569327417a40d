"""The control room under test: a screen on a made-up source, and what stands on it."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from tui.idle import idle
from tui.worlds import FakeSource

from hivemind_tui.app import ControlRoom
from hivemind_tui.board import _TURNS
from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.loop.base_app import BandedScreen
from hivemind_tui.loop.loop_lag import Pace
from hivemind_tui.widgets.line_table import LineTable

SMALLEST = 20, 5
"""Where what is drawn doesn't matter."""
TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
"""The environment of a terminal that can show everything."""

_PATIENCE_S = 60.0
"""After which a condition that another thread or process brings about counts as never reached."""


class _OnDemand(Pace):
    """Frames are drawn where a test asks for one, so that what is shown doesn't depend on how fast the machine is."""

    asked = False

    def due(self, now_s: float) -> bool:
        """Return whether the test asked for a frame, once for each."""
        asked, self.asked = self.asked, False
        return asked

    def drawn(self, cost_s: float, late_s: float = 0.0) -> None:
        """Ignore what a frame cost: the rate stays."""


@asynccontextmanager
async def screen(source: FakeSource, size: tuple[int, int] = (100, 30), **more: Any) -> AsyncIterator[Pilot[str]]:
    """The control room on a source, drawn once."""
    app = ControlRoom(source, environment=more.pop("environment", TERMINAL), **more)
    async with piloted(app, size) as pilot:
        yield pilot


def _unpainted() -> Screen[None]:
    """Return a screen that renders no band for a terminal that isn't there; :func:`whole_screen` renders it itself."""
    screen = BandedScreen(id="_default")
    screen._paint = lambda regions: None  # type: ignore[method-assign]
    return screen


@asynccontextmanager
async def piloted(app: ControlRoom, size: tuple[int, int], **more: Any) -> AsyncIterator[Pilot[str]]:
    """A control room that draws on demand, drawn once; `more` goes to Textual's `run_test`."""
    app._pace, app.order_kept_s = _OnDemand(app._pace.wanted), math.inf
    app.get_default_screen = _unpainted  # type: ignore[method-assign]
    async with app.run_test(size=size, **more) as pilot:
        await settle(pilot)
        await frame(pilot)
        yield pilot


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until every key is dealt with, every command carried out and every panel that is due drawn."""
    # A layout resizes panels, which then draw themselves, which asks for another refresh.
    for _ in range(3):
        await idle()
        if pilot.app._resize_event is not None:
            pilot.app._check_resize()  # a timer of 8 ms would
        pilot.app.screen._on_timer_update()
    await idle()


async def frame(pilot: Pilot[str]) -> None:
    """Look at the source again and draw every panel, as the control room does by itself several times a second."""
    app = room(pilot)
    assert isinstance(app._pace, _OnDemand)
    for _ in range(_TURNS):
        app._pace.asked = True
        app._tick()
    await settle(pilot)


async def press(pilot: Pilot[str], keys: str, until: Callable[[], bool] | None = None) -> None:
    """Press keys, separated by blanks, and let them have their effect. `@ID` runs a command of the palette.

    `until`: what a thread, a process or a timer brings about after them.
    """
    for key in keys.split():
        await at_once(pilot, key)
        await settle(pilot)
    if until is not None:
        await wait_until(pilot, until)


async def at_once(pilot: Pilot[str], keys: str) -> None:
    """Press keys without waiting for their effect, except before a command of the palette."""
    for part in re.split(r"(@\w+)", keys):
        if part.startswith("@"):
            await settle(pilot)
            room(pilot).run_key_action(BY_ID[part[1:]].action)
        else:
            await pilot.app._press_keys(part.split())


async def afresh(pilot: Pilot[str], sequences: Iterable[str]) -> AsyncIterator[str]:
    """Yield each sequence of keys after it was pressed, each from the view that there is at first."""
    fresh = room(pilot).view
    for keys in sequences:
        if room(pilot).modal_open:
            await press(pilot, "escape")
        room(pilot).go(fresh)
        await at_once(pilot, keys)
        await settle(pilot)
        yield keys


def said(pilot: Pilot[str]) -> list[str]:
    """The notes on the screen."""
    return [str(note.message) for note in pilot.app._notifications]


def text(rows: Iterable[Strip]) -> str:
    """Rows of a panel as they are read."""
    return "\n".join(row.text for row in rows)


def room(pilot: Pilot[str]) -> ControlRoom:
    """The app, as what it is."""
    assert isinstance(pilot.app, ControlRoom)
    return pilot.app


def seen(pilot: Pilot[str], panel: str) -> str:
    """The text of one panel."""
    return text(pilot.app.query_one(f"#{panel}", LineTable).rows)


def whole_screen(pilot: Pilot[str]) -> str:
    """What stands on the screen now, as text."""
    return text(pilot.app.screen._compositor.render_strips(pilot.app.size))


async def wait_until(pilot: Pilot[str], reached: Callable[[], bool]) -> None:
    """Draw frames until the condition holds, which a thread, a process or a timer brings about."""
    async with asyncio.timeout(_PATIENCE_S):
        while not reached():
            await asyncio.sleep(0.001)
            await frame(pilot)
