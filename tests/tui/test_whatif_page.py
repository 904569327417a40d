"""The what-if page: every key pressed, what is asked and shown, applied and written, live and in a replay."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot
from tui.decks import Deck, recording, write
from tui.kit import (
    SMALLEST,
    TERMINAL,
    afresh,
    piloted,
    press,
    room,
    said,
    screen,
    seen,
    settle,
    wait_until,
    whole_screen,
)
from tui.trials import BETA, CEILING, Made, usual
from tui.worlds import FakeSource, world

from hivemind.journal.index.player import Player
from hivemind.lab.simulate.overrides import Change
from hivemind.records import replace
from hivemind.scheduler.commands import SetPriority, Tune
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import RecordingView
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.base import Link
from hivemind_tui.sources.replay import ReplaySource
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.whatif.protocol import ReadRecording, Simulate, WhatIfFailed, WhatIfResult

pytestmark = pytest.mark.e2e
FULL, SMALL = (160, 45), (80, 24)


def live(path: Path, failing: str = "") -> FakeSource:
    """A proxy that writes a journal."""
    return FakeSource(replace(world(), recording=RecordingView(str(path), 1, 0, failing)))


@asynccontextmanager
async def on_page(
    source: FakeSource, size: tuple[int, int] = FULL, made: SimulationProcess | None = None
) -> AsyncIterator[tuple[Pilot[str], Made]]:
    """The page, with the recording read."""
    usually = Made(usual)
    async with screen(source, size) as pilot:
        room(pilot).simulation = made or usually
        await press(pilot, "w")
        yield pilot, usually


async def test_settings_are_chosen_and_simulated(tmp_path: Path) -> None:
    """w reads the recording from its first part, though the proxy tells of the one that is being written; arrows turn,
    enter simulates, and both runs stand side by side."""
    path = write(tmp_path)
    second = path.with_name("20261121-140000-8765.2.jsonl")
    second.write_bytes(path.read_bytes())
    async with on_page(live(second)) as (pilot, made):
        assert room(pilot).view.trail == ("overview", "whatif")
        assert "412 requests of 11 agents in 12m34s" in seen(pilot, "comparison")
        await press(pilot, "j j j j right right right right home left left left left enter")
        assert made.asked == [ReadRecording(str(path)), Simulate(str(path), (CEILING, BETA))]
        assert "Recorded against max_concurrency=8, aimd.beta=0.7" in seen(pilot, "comparison")
        assert "they diverge after 3m00s" in seen(pilot, "courses")
        await press(pilot, "right")
        assert "of other settings than those chosen now" in seen(pilot, "comparison")


KEYS: dict[str, tuple[Change, ...]] = {
    "right": (Change("max_concurrency", 13.0),),
    "@turn_far_down": (Change("max_concurrency", 2.0),),
    "@turn_far_up": (Change("max_concurrency", 22.0),),
    "right left": (),
    "right @as_recorded": (),
    "@other 8 enter": (CEILING,),
    "@other b e t a = 0 . 7 enter": (BETA,),
    "@other 8 escape": (),
    "@other enter": (),
    ": b e t a space 0 . 7 enter": (BETA,),
    ": l i m i t = 8 enter": (CEILING,),
    ": a i m d . b e t a enter 0 . 7 enter": (BETA,),
    ": l i m i t s space x 2 enter": (Change("provider.limits", "x2"),),
    ": p r o m p t enter 5 m enter": (Change("provider.cache", "5m"),),
    "end @other 5 m enter": (Change("provider.outage", "5m"),),
    "@other a g e n t s = x 2 enter": (Change("agents", "x2"),),
    "pagedown pageup right": (Change("max_concurrency", 13.0),),
    "j k right": (Change("max_concurrency", 13.0),),
    "@other q u e u e . m a x _ w a i t _ s = 6 0 enter": (Change("queue.max_wait_s", 60.0),),
}


async def test_each_key_changes_what_it_says(tmp_path: Path) -> None:
    """And nothing is sent to the proxy."""
    source = live(write(tmp_path))
    async with on_page(source, SMALLEST) as (pilot, _):
        async for keys in afresh(pilot, KEYS):
            assert room(pilot).view.what_if.changes == KEYS[keys], keys
        assert source.applied == []


async def test_mistakes_are_notes(tmp_path: Path) -> None:
    """A value that can't be, which is asked for again, a name that isn't, and nothing to take back or to apply."""
    async with on_page(live(write(tmp_path)), SMALL) as (pilot, _):
        found = set()
        for keys in ("@other 0 . 5 x enter", "@other n o n e s u c h = 1 enter", ": o u t a g e space s o o n enter"):
            await press(pilot, keys)
            found.add(seen(pilot, "footer").partition("▲")[2])
            await press(pilot, "escape")
        for keys in ("@as_recorded", "A", "W"):
            await press(pilot, keys)
            found |= {*said(pilot)}
        assert len(found) == 6


@pytest.mark.slow
async def test_a_scenario_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no such file is refused with the reason, and the line stays open."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evening.toml").write_text('max_concurrency = 8\n[provider]\nlimits = "x2"\n')
    os.mkfifo("pipe")
    async with on_page(live(write(tmp_path)), (140, 36)) as (pilot, made):
        await press(pilot, "@scenario p i p e enter")
        assert "pipe: must be a file of at most 100 kB" in whole_screen(pilot)
        await press(pilot, "ctrl+u n o n e enter")
        assert "none: No such file or directory" in whole_screen(pilot)
        await press(pilot, "ctrl+u e v e n i n g full_stop t o m l enter")
        assert "limits  x2" in seen(pilot, "whatif-settings")
        await press(pilot, "enter", until=lambda: room(pilot).view.what_if.outcome is not None)
        (asked,) = [each for each in made.asked if isinstance(each, Simulate)]
        assert list(map(str, asked.changes)) == ["max_concurrency=8", "provider.limits=x2"]


@pytest.mark.slow
async def test_small_screens_show_the_settings_or_the_answer(tmp_path: Path) -> None:
    """The answer once there is one; a key that chooses brings the settings back, and so does escape."""
    async with on_page(live(write(tmp_path)), SMALL) as (pilot, _):
        assert "max concurrency" in whole_screen(pilot)
        await press(pilot, "right enter")
        assert "max concurrency" not in whole_screen(pilot)
        assert "agents finished" in whole_screen(pilot)
        await press(pilot, "escape")
        assert "max concurrency" in whole_screen(pilot)
        await press(pilot, "enter j")
        assert "max concurrency" in whole_screen(pilot)
        await press(pilot, "escape")
        assert room(pilot).view.page == "overview"


async def test_escape_cancels_and_the_page_is_left_with_it(tmp_path: Path) -> None:
    """While something is computed it is shown how far it is; who looks at another page meanwhile is told of the answer,
    and the question isn't asked again. A refusal stands beside what was known before."""
    async with on_page(live(write(tmp_path))) as (pilot, made):
        made.free.clear()
        await press(pilot, "right enter")
        assert "simulating" in seen(pilot, "comparison")
        assert "40%" in seen(pilot, "comparison")
        assert "esc cancel" in seen(pilot, "footer")
        await press(pilot, "enter")
        assert said(pilot) == ["a simulation is running; esc cancels it"]
        await press(pilot, "escape", until=lambda: made.cancelled == 1)
        assert "simulating" not in seen(pilot, "comparison")
        assert room(pilot).view.page == "whatif"
        await press(pilot, "enter 3")
        made.free.set()
        await wait_until(pilot, lambda: room(pilot).view.what_if.outcome is not None)
        assert said(pilot)[-1] == "the simulation is done: w shows it"
        await press(pilot, "w")
        assert "agents finished" in seen(pilot, "comparison")
        room(pilot).simulation = Made(lambda _: [WhatIfFailed("the simulation ended: Killed")])
        await press(pilot, "right enter")
        assert "the simulation ended: Killed" in seen(pilot, "comparison")
        await press(pilot, "escape")
        assert room(pilot).view.page == "requests"


async def test_without_a_recording_it_is_said_why(tmp_path: Path) -> None:
    """Nothing is recorded, it can't be written, or it is on another machine."""
    missing = tmp_path / "20261121-140000-8765.jsonl"
    attached = live(missing)
    attached.link = Link("attached", "http://there:8765")
    never = live(tmp_path, failing="no room")
    sources = (FakeSource(world()), live(missing, failing="no space left"), live(missing), attached, never)
    told = []
    for source in sources:
        async with screen(source, SMALLEST) as pilot:
            await press(pilot, "w")
            assert room(pilot).view.page == "overview"
            told += said(pilot)
    assert "nothing is recorded" in told[0]
    assert "no space left" in told[1]
    assert told[2].endswith("can't be read")
    assert told[3].endswith("on this machine; over there: hivemind what-if 20261121-140000-8765")
    assert "no room" in told[4]


async def test_it_is_applied_after_a_look_and_taken_back(tmp_path: Path) -> None:
    """A shows what would change; y has the proxy take it, on every upstream, and u takes all of it back. What no
    running proxy takes is told as lines for the file."""
    source = live(write(tmp_path))
    async with on_page(source, SMALL) as (pilot, _):
        await press(pilot, "@other f e a t u r e s . a d m i s s i o n = o f f enter A")
        assert "admission = false" in seen(pilot, "overlay")
        await press(pilot, "y @as_recorded home")
        assert source.applied == []
        await press(pilot, "right @other a g e n t . a l i c e . p r i o r i t y = h i g h enter A")
        asked = seen(pilot, "overlay")
        assert "12 → 13" in asked
        assert "agent.alice.priority" in asked
        await press(pilot, "n")
        assert source.applied == []
        await press(pilot, "A y")
        changed = [Tune("max_concurrency", 13.0), SetPriority("alice", Priority.HIGH)]
        assert source.applied == changed
        await press(pilot, "u")
        back = [SetPriority("alice", Priority.NORMAL), Tune("max_concurrency", 12.0, "anthropic")]
        assert source.applied[2:] == back


async def test_it_is_applied_and_written(tmp_path: Path) -> None:
    """w in the question writes the knobs too, after a look at the file; W writes alone."""
    source = live(write(tmp_path))
    async with on_page(source, SMALL) as (pilot, _):
        await press(pilot, "j j j j @other 0 . 7 enter A w", until=lambda: "+beta = 0.7" in seen(pilot, "overlay"))
        assert source.applied == [Tune("aimd.beta", 0.7)]
        await press(pilot, "y")
        assert (source.drafted, source.written) == ({"aimd.beta": 0.7}, [source.file])
        await wait_until(pilot, lambda: not room(pilot).view.untuned)
        await press(pilot, "W y")
        assert (len(source.applied), len(source.written)) == (1, 2)


@pytest.mark.slow
async def test_in_a_replay_it_is_told_how_to_apply(tmp_path: Path) -> None:
    """Arrows turn settings rather than time, w and y copy commands, and what was answered is only shown again."""
    source = ReplaySource(cast(Player, Deck(recording())), "journal")
    source.journal = write(tmp_path)
    made = Made(usual)
    app = ReplayRoom(source, folder=tmp_path, environment=TERMINAL)
    async with piloted(app, SMALL) as pilot:
        app.simulation = made
        await settle(pilot)
        await press(pilot, "w right right enter")
        assert made.asked == [
            ReadRecording(str(source.journal)),
            Simulate(str(source.journal), app.view.what_if.changes),
        ]
        assert app.view.playback is not None
        assert app.view.playback.at == source.transport.begins_at
        await press(pilot, "j enter")
        assert len(made.asked) == 2
        assert isinstance(app.view.what_if.outcome, WhatIfResult)
        await press(pilot, "A")
        assert "hivemind set max_concurrency 14" in seen(pilot, "overlay")
        await press(pilot, "y")
        assert app.clipboard == "hivemind set max_concurrency 14"
        await press(pilot, "y")
        assert app.clipboard == f"hivemind what-if {source.journal} --set max_concurrency=14"
