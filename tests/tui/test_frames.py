"""When the screen is drawn: how often, and all panels of a frame from one snapshot and together."""

from __future__ import annotations

import itertools
import re

from tui.kit import frame, room, screen, seen, settle
from tui.trouble import with_lane
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.world.snapshot import Snapshot
from hivemind_tui.board import _TURNS
from hivemind_tui.loop.loop_lag import Pace, wanted_fps
from hivemind_tui.widgets.line_table import Panel


def _moving() -> FakeSource:
    """A source of which every look is another moment, told by the number of failed requests and of those in flight."""
    count = itertools.count(1)

    def now() -> Snapshot:
        number = next(count)
        moment = with_lane(world(), active=number, level=100.0, ceiling=100.0)
        return replace(moment, totals=replace(moment.totals, failed=number))

    return FakeSource(now)


def _moment(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, text
    return int(found[1])


async def test_panels_of_a_frame_show_one_snapshot() -> None:
    """Though every look at the source finds another moment, header, slots and curve show the same; a command that
    looks between two turns changes nothing in the frame that is being drawn."""
    async with screen(_moving(), size=(160, 45)) as pilot:
        app, shown = room(pilot), set()
        for turn in range(3):
            await frame(pilot)
            if turn == 2:
                app._look()
                app._board.draw_turn(app.view)
                app._fresh()
                app._board.draw_turn(app.view)
                await settle(pilot)
            header = _moment(seen(pilot, "header"), r"(\d+) failed")
            assert _moment(seen(pilot, "slots"), r"(\d+) of 100 in flight") == header
            assert _moment(seen(pilot, "curve"), r"in flight (\d+)") == header
            shown.add(header)
        assert len(shown) == 3


async def test_a_frame_is_shown_at_once() -> None:
    """After the first of its turns nothing has changed yet; after the last one everything has."""
    async with screen(_moving(), size=(160, 45)) as pilot:
        app = room(pilot)
        panels = [panel for panel in app.query(Panel) if panel.is_on_screen]
        before = [panel.rows for panel in panels]
        for turn in range(_TURNS):
            assert [panel.rows for panel in panels] == before
            if app._board.between_frames:
                app._look()
            assert app._board.between_frames == (turn == 0)
            app._board.draw_turn(app.view)
            await settle(pilot)
        assert seen(pilot, "header") != "\n".join(row.text for row in before[0])


def test_slower_over_ssh() -> None:
    """Over ssh the screen draws half as often."""
    assert wanted_fps({}) == 8
    assert wanted_fps({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}) == 4


def test_dear_frames_halve_the_rate_and_cheap_ones_bring_it_back() -> None:
    """Frames over 8 ms halve the rate down to one a second; cheap ones double it up to the rate wanted."""
    pace = Pace(8.0)
    rates = []
    for _ in range(200):
        pace.drawn(0.02)
        rates.append(pace.fps)
    assert sorted(set(rates), reverse=True) == [8.0, 4.0, 2.0, 1.0]
    for _ in range(200):
        pace.drawn(0.001)
    assert pace.fps == 8.0


def test_a_late_loop_counts_beyond_the_usual() -> None:
    """A loop that is a little late is a busy machine; one that is very late has too much to do."""
    usual, late = Pace(8.0), Pace(8.0)
    for _ in range(100):
        usual.drawn(0.001, late_s=0.02)
        late.drawn(0.001, late_s=0.1)
    assert usual.fps == 8.0
    assert late.fps == 1.0


def test_frames_come_at_the_rate() -> None:
    """Asked at every tick of a sixteenth of a second, a pace of 4 says yes to every fourth."""
    pace = Pace(4.0)
    due = [pace.due(100 + tick / 16) for tick in range(160)]
    assert sum(due) == 40


def test_a_rate_asked_for_holds_at_once() -> None:
    """A screen that nobody looks at slows down with the next frame."""
    pace = Pace(8.0)
    pace.want(1.0)
    assert (pace.fps, pace.wanted) == (1.0, 1.0)
