"""The control room on a recording: what its keys and the mouse do, and what they don't."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast
from tui.decks import AT, LENGTH_S, Deck, recording
from tui.kit import TERMINAL, frame, piloted, press, said, seen, settle, wait_until
from tui.worlds import world

from hivemind.journal.index.player import Player
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority
from hivemind_tui.keys import keymap
from hivemind_tui.keys.keymap import BY_ID, KEYS
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.playback import KINDS, READ_ONLY
from hivemind_tui.sources.replay import ReplaySource
from hivemind_tui.widgets.line_table import Panel

pytestmark = pytest.mark.e2e
WIDE, NARROW = (160, 45), (80, 24)


@asynccontextmanager
async def replay(
    deck: Deck | None = None,
    size: tuple[int, int] = WIDE,
    folder: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[tuple[Pilot[str], ReplayRoom]]:
    """A room on the made-up recording, whose time stands unless it is played."""
    source = ReplaySource(cast(Player, deck or Deck(recording())), "20261121-140000-8765", clock)
    app = ReplayRoom(source, folder=folder, environment=TERMINAL)
    async with piloted(app, size) as pilot:
        await settle(pilot)
        yield pilot, app


def at(app: ReplayRoom) -> float:
    """Seconds since the recording began, of what is shown."""
    return app.view.snapshot.at - AT


async def until_at(pilot: Pilot[str], app: ReplayRoom, second: float) -> None:
    await wait_until(pilot, lambda: at(app) == pytest.approx(second))


async def test_it_opens_on_the_overview_and_says_what_it_is() -> None:
    """At every size the banner and the timeline are there, and nobody is greeted to connect an agent. Textual calls the
    handlers of a class and of its bases: each worker of the room is there once."""
    async with replay(size=WIDE) as (pilot, app):
        assert sorted(worker.name for worker in app.workers) == ["commands", "panels", "replay"]
        for size in (WIDE, NARROW, (40, 12)):
            await pilot.resize_terminal(*size)
            assert app.view.page == "overview"
            await wait_until(pilot, lambda: "REPLAY x1" in seen(pilot, "header"))
            await wait_until(pilot, lambda: "14:00:00" in seen(pilot, "timeline"))


@pytest.mark.slow
async def test_notes_cover_neither_the_timeline_nor_the_verdict() -> None:
    """However many there are and whatever the size, they stand above the timeline and below the header."""
    source = ReplaySource(cast(Player, Deck(recording())), "20261121-140000-8765", time.monotonic)
    app = ReplayRoom(source, environment=TERMINAL)
    async with piloted(app, WIDE, notifications=True) as pilot:
        for number in range(12):
            app.notify(f"note {number}: " + "word " * 20, markup=False, timeout=600)
        for size in (WIDE, NARROW, (60, 20)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            shown = [app.screen.find_widget(toast).visible_region for toast in app.screen.query(Toast)]
            assert any(region.area for region in shown)
            for region in filter(None, shown):
                assert region.bottom <= app.query_one("#timeline").region.y
                assert region.y >= app.query_one("#header").region.bottom


async def test_keys_go_about_in_time() -> None:
    """Each of them leads where it says, and the panels show that moment."""
    async with replay(size=NARROW) as (pilot, app):
        for keys, second in (
            ("right right", 2.0),
            ("@turn_far_up", 12.0),
            ("left", 11.0),
            ("@turn_far_down", 1.0),
            ("end", LENGTH_S),
            ("home", 0.0),
            ("n", 30.95),
            ("n n", 50.95),
            ("N", 45.95),
        ):
            await press(pilot, keys)
            await until_at(pilot, app, second)
        assert "PauseAgent" not in seen(pilot, "timeline")
        await wait_until(pilot, lambda: "carol: held" in seen(pilot, "timeline"))
        assert next(agent for agent in app.view.snapshot.agents if agent.name == "carol").held
        await press(pilot, "g 1 4 colon 0 1 colon 3 0 enter")
        await until_at(pilot, app, 90.0)
        await press(pilot, "colon 5 0 % enter")
        await until_at(pilot, app, 60.0)


async def test_what_cant_be_gone_to_is_told() -> None:
    """No mark further on, no such time: one line each, and nothing moves."""
    async with replay(size=NARROW) as (pilot, app):
        for keys, words in (
            ("N", "no mark before this"),
            ("end n", "no mark after this"),
        ):
            await press(pilot, keys)
            assert words in str(said(pilot)), keys
        await press(pilot, "4 enter")
        app.run_key_action("pick_knob('aimd.beta')")
        assert (said(pilot)[-1], app.view.knob, app.line.is_open) == (READ_ONLY, "aimd.beta", False)
        await press(pilot, "1 end g p l a y space t o enter")
        assert app.recording.transport.playing
        await press(pilot, "space end")
        await press(pilot, "g 1 6 colon 0 0 enter")
        assert "no such mark yet; times" in seen(pilot, "palette")
        await press(pilot, "escape")
        await until_at(pilot, app, LENGTH_S)


@pytest.mark.parametrize("size", [pytest.param(WIDE, marks=pytest.mark.slow), NARROW])
async def test_a_few_keys_lead_to_a_kind_of_marks(size: tuple[int, int]) -> None:
    """The list says how many there are of each kind and where the next is, and narrows with what is typed; after the
    last comes the first. The row below plays there at x8."""
    now = [0.0]
    async with replay(size=size, clock=lambda: now[0]) as (pilot, app):
        kinds = Counter(mark.kind for mark in app.recording._player.marks)
        assert "g go to mark" in seen(pilot, "footer")
        await press(pilot, "g")
        assert [kind for kind in kinds if f" {KINDS[kind].word} " not in seen(pilot, "palette")] == []
        await press(pilot, "escape")
        for kind, count in kinds.items():
            times = []
            await press(pilot, "home")
            for _ in range(count + 1):
                await press(pilot, f"g {' '.join(KINDS[kind].word.split()[0])} enter")
                times.append(round(at(app), 3))
            assert times[-1] == times[0]
            assert len(set(times)) == count
        first = round(app.recording.of_kind("rate_limited")[0].at - AT, 3)
        await press(pilot, "home g 4 2 9 enter")
        await until_at(pilot, app, first)
        await press(pilot, "home g 4 2 9 down enter")
        assert app.recording.transport.speed == 8
        while app.recording.transport.playing:
            now[0] += 0.4
            await frame(pilot)
            app.recording.turn()
        assert round(at(app), 3) == first
        await press(pilot, "5 ?")
        assert [kind for kind in kinds if f"{KINDS[kind].word}: " not in seen(pilot, "overlay")] == []


@pytest.mark.slow
async def test_it_plays_stops_and_repeats() -> None:
    """Space plays and stops, the speeds go up and down, a loop comes back to its beginning."""
    # At 64 times the speed less than the loop passes between two looks at this clock.
    async with replay(clock=itertools.count(0.0, 0.03).__next__) as (pilot, app):
        transport = app.recording.transport
        await press(pilot, "space > > > > > >")
        assert transport.speed == 64
        await wait_until(pilot, lambda: app.view.playback is not None and app.view.playback.at_end)
        assert not transport.playing
        await wait_until(pilot, lambda: "the end" in seen(pilot, "timeline"))
        await wait_until(pilot, lambda: "space play again" in seen(pilot, "footer"))
        await press(pilot, "< < < < < < < < <")
        assert transport.speed == 0.25
        await press(pilot, "home right @loop_from right right @loop_to")
        assert transport.loop == (AT + 1, AT + 3)
        await press(pilot, "> > > > > > > > space")
        seeks = app.recording._player.seeks  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: seeks.count(AT + 1) > 3)
        await wait_until(pilot, lambda: "loop x64" in seen(pilot, "timeline"))
        await press(pilot, "space @unloop")
        assert transport.loop is None
        assert not transport.playing


STEERING = "p D r a c plus minus b h B x X u 0 7 v d W"


async def test_what_steers_is_out_of_use() -> None:
    """Each key that would steer a proxy says why it doesn't; none of them asks anything or leaves a mark, nor stands in
    the help or in the palette, which have every key of a replay."""
    async with replay(size=NARROW) as (pilot, app):
        await press(pilot, "right right")
        for key in STEERING.split():
            app.clear_notifications()
            await press(pilot, key)
            assert "recording" in str(said(pilot)), key
            assert not app.modal_open, key
        assert app.view.page == "overview"
        assert not app.view.marked
        steered = {key.id for key in KEYS if keymap.steers(*keymap.parsed(key.action))}
        pressed = {key.id for key in KEYS if {*key.keys.split(",")} & {*STEERING.split()}}
        unpressed = {key.id for key in KEYS if key.keys} & steered - pressed
        assert unpressed == {"less", "more", "mark"}
        await pilot.resize_terminal(*WIDE)
        await press(pilot, "? ?")
        shown = seen(pilot, "overlay")
        assert [key.id for key in KEYS if key.live is False and key.help not in shown] == []
        assert BY_ID["drain"].help not in shown
        await press(pilot, "escape colon")
        names = [choice.name for choice in app.palette._choices]
        assert ("play" in names, "drain" in names) == (True, False)


@pytest.mark.slow
async def test_the_mouse_goes_about_on_the_timeline() -> None:
    """A click goes there, dragging along with the button down; without it nothing moves."""
    async with replay() as (pilot, app):
        await pilot.click("#timeline", offset=(159, 1))
        await until_at(pilot, app, LENGTH_S)
        await pilot.mouse_down("#timeline", offset=(0, 1))
        await until_at(pilot, app, 0.0)
        await pilot.hover("#timeline", offset=(84, 1))
        await wait_until(pilot, lambda: 55 < at(app) < 65)
        await pilot.mouse_up("#timeline", offset=(84, 1))
        await pilot.hover("#timeline", offset=(120, 1))
        await settle(pilot)
        assert 55 < at(app) < 65


async def written(app: ReplayRoom) -> None:
    for worker in [each for each in app.workers if each.group == "picture"]:
        await worker.wait()


@pytest.mark.slow
async def test_pictures_are_written_and_never_over_others(tmp_path: Path) -> None:
    """Each press writes another file, named after the journal and the moment."""
    async with replay(folder=tmp_path) as (pilot, app):
        await press(pilot, "right @picture")
        name = "20261121-140000-8765-140001"
        await wait_until(pilot, lambda: (tmp_path / f"{name}.svg").exists())
        await written(app)
        await press(pilot, "@picture", until=lambda: (tmp_path / f"{name}-2.svg").exists())
        await written(app)
        assert "REPLAY" in (tmp_path / f"{name}.svg").read_text("utf-8").replace("&#160;", " ")


async def test_damage_and_what_is_not_read_yet_are_seen() -> None:
    """The header tells what is wrong, the timeline how far it is read and that what is shown is about."""
    deck = Deck(recording(), known_to=0.5)
    deck.approximate = True
    deck.damage = ["7 events are missing in 1 gaps: the disk was full or too slow"]
    async with replay(deck) as (pilot, _):
        await wait_until(pilot, lambda: "7 events are missing" in seen(pilot, "header"))
        await wait_until(pilot, lambda: "≈ reading 50%" in seen(pilot, "timeline"))
        await press(pilot, "end n")
        assert "no mark after this in the 50% read so far" in str(said(pilot))


@pytest.mark.slow
async def test_panels_offer_nothing_that_steers() -> None:
    """No panel tells of a key that is out of use."""
    events = recording()
    rate_limited = replace(world().lanes[0].state, rate_limited_for_s=9.0, pinned=True, paused=True)
    events[-1:-1] = [
        ev.Commanded(AT + 118.97, "you", "PauseAdmissions", {"paused": True}),
        ev.TaskAdded(AT + 118.97, "t1", "batch", "alice", Priority.NORMAL, 1000, ()),
        ev.Sampled(AT + 118.98, (rate_limited,)),
    ]
    async with replay(Deck(events)) as (pilot, app):
        await press(pilot, "end")
        for keys in ("1", "2", "enter", "4", "6", "3 enter"):
            await press(pilot, keys)
            shown = "\n".join(seen(pilot, panel.id) for panel in app.query(Panel) if panel.display and panel.id)
            assert app.view.snapshot.tasks
            offered = ("ends it", "resumes", "types", "holds", "gives it", "cancels", "Point an agent", "marks it")
            titles = ("[ ] Concurrency", "c Circuit")
            assert [words for words in (*offered, *titles) if words in shown] == [], keys
