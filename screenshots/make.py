"""Takes the pictures of the README: the control room on the demo, in two sizes, dark and light, and on recordings.

    make screenshots

writes a PNG of each beside this file (rsvg-convert makes them), and the text of those that are the same every time.
Each picture is checked while it is taken: what it must show, that the keys it names exist, and that its figures agree.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from hivemind.host.loop import run_loop
from hivemind.host.proxy import Proxy
from hivemind.host.server import serve
from hivemind.journal.codec import line_of
from hivemind.journal.index.player import Player
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.prices import Prices
from hivemind.records import replace
from hivemind.scheduler.events import Event, Sampled
from hivemind.settings import Settings
from hivemind.settings.sections import AimdSettings
from hivemind.text.humanise import short_count, short_duration
from hivemind_mock.agents.demo import SEED, at_tasks, bad_day, run_demo_agents, run_demo_provider
from hivemind_mock.bench.runs import BenchRun, execute_run
from hivemind_mock.provider.config import SCENARIOS
from hivemind_tui.app import ControlRoom
from hivemind_tui.commands.files import placed_text
from hivemind_tui.keys.keymap import BY_ID, here
from hivemind_tui.loop.loop_lag import Pace
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.base import Local
from hivemind_tui.sources.replay import ReplaySource

FOLDER = Path(__file__).parent
WARM_UP_S = 24.0
"""Of demo traffic before the first picture: by then the provider had its first troubles."""
SETTLE_S = 2.5
"""Until a page is drawn and its plot is there."""
LARGE, SMALL = (160, 45), (80, 24)
CONVERTER = "rsvg-convert"
CELL_PIXELS = 9
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


class Frames(Pace):
    """Draws frames at a rate that a busy machine doesn't change, until they are stopped."""

    stopped = False

    def due(self, now_s: float) -> bool:
        """Return whether it is time for the next frame."""
        return not self.stopped and super().due(now_s)

    def drawn(self, cost_s: float, late_s: float = 0.0) -> None:
        """Ignore the cost of a frame."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: what to press to get there, and how it is seen."""

    name: str
    keys: str
    theme: str = "hivemind-dark"
    size: tuple[int, int] = LARGE
    shows: tuple[str, ...] = ()
    """Regular expressions that its text must match."""
    same: bool = False
    """Whether its text is the same every time."""


OVERVIEW = (r"3 Requests", r"Rate windows", r"\d+ retried OK", r"\d+ (agents? )?recovered")
PICTURES = (
    Picture("overview", "1", shows=(*OVERVIEW, r"level \d", r"ETA")),
    Picture("overview_light", "1", theme="hivemind-light", shows=OVERVIEW),
    Picture("overview_small", "1", size=SMALL, shows=OVERVIEW),
    Picture("overview_small_light", "1", theme="hivemind-light", size=SMALL, shows=OVERVIEW),
    Picture("agents", "2 s s s", shows=(r"AGENT", r"y copies it")),
    Picture("agent", "2 enter", shows=(r"state ", r"Tokens over time", r"Requests")),
    Picture(
        "request", "3 slash d o n e enter s s s s s s enter", shows=(r"\d ✕ .* (4|5)\d\d ", r"[2-9] ✓ .*200 answered")
    ),
    Picture("tasks", "6 j j j", shows=(r"WAITS FOR OR NOTE", r"needed by")),
    Picture("tuning", "4 j j j j j right right left", shows=(r"1 setting tuned, W writes", r"was 0.5")),
    Picture("tuning_small", "4", size=SMALL, shows=(r"max concurrency",)),
    Picture("log_light", "5", theme="hivemind-light", shows=(r"following", r"answered at attempt")),
)
RECORDED = (
    Picture(
        "replay",
        "g 3 0 percent_sign enter colon l o o p space f r o m enter"
        " g 7 5 percent_sign enter colon l o o p space t o enter g 4 0 percent_sign enter n right",
        shows=(r"REPLAY x1", r"stopped x1", r"\d+s of ", r"\[.*\d\d:\d\d:\d\d.*\]"),
    ),
    Picture("replay_small", "g 5 0 percent_sign enter", size=SMALL, shows=(r"REPLAY x1",)),
)
WHAT_IF = (
    Picture(
        "whatif",
        "end w home right right right j j j right right right right enter",
        shows=(
            r"Recorded against max_concurrency=",
            r"this run (would|might) have",
            r"wall time .* to \d",
            r"they diverge",
        ),
        same=True,
    ),
    Picture("whatif_small", "w enter", size=SMALL, shows=(r"wall time",), same=True),
)

HINTS = {
    r"(\S+) writes": "write",
    r"(\S+) (?:gives it one|sets one)": "budget",
    r"; (\S+) ends it": "release",
    r"(\S+) copies": "copy",
    r"\((\S+) clears it\)": "back",
    r"forced, (\S+) changes": "circuit",
    r"fixed, (\S+) lets AIMD": "pin",
    r"below, (\S+) follows": "last",
    r"(\S+) simulates": "open",
}
"""Keys that panels name, and their ids in the key table."""


def check(app: ControlRoom, picture: Picture, text: str) -> None:
    """Raise AssertionError where the picture doesn't show what it should, or contradicts itself or the program."""
    for pattern in picture.shows:
        assert re.search(pattern, text), f"{picture.name}: no {pattern!r} in\n{text}"
    for pattern, name in HINTS.items():
        for shown in re.findall(pattern, text):
            assert shown == BY_ID[name].shown, f"{picture.name}: {shown!r} isn't the key of {name!r}"
    view = app.view
    keys = tuple(f"{key.pair or key.shown} " for key in here(view))
    hints = re.split(r" {2,}", text.splitlines()[-1].strip())
    undone = view.undoable.partition(" ")[0]  # what would be undone stands behind its key
    unknown = [hint for hint in hints if not hint.startswith(keys) and not (undone and hint.startswith(undone))]
    assert not unknown, f"{picture.name}: not in the key table: {unknown}"
    if view.page != "whatif":
        agree(app, picture.name, text)


def agree(app: ControlRoom, name: str, text: str) -> None:
    """Raise AssertionError where the figures of a picture contradict each other, or its clock and its position."""
    view = app.view
    snapshot, lane, playback = view.snapshot, view.lane, view.playback
    assert lane is not None
    state = lane.state
    slots, queue = view.of_lane(snapshot.slots), view.of_lane(snapshot.queue)
    assert (state.active, state.waiting + state.retrying) == (len(slots), len(queue)), (
        f"{name}: lane and tickets differ"
    )
    assert sum(agent.in_flight for agent in snapshot.agents) == len(snapshot.slots), f"{name}: agents and slots differ"
    totals = snapshot.totals
    assert totals.finished + totals.failed + totals.refused + totals.abandoned <= totals.requests, name
    if "answered" in text.split("\n")[1]:
        assert f"{short_count(totals.finished)} answered" in text, f"{name}: totals and view differ"
    if view.page == "overview":
        assert f"{state.active} of {int(state.level)} in flight" in text, f"{name}: slots and view differ"
    if playback is not None:
        wall = time.strftime("%H:%M:%S", time.localtime(playback.wall))
        assert text.count(wall) >= 2, f"{name}: the clocks of header and timeline differ"
        passed = short_duration(playback.at - playback.begins_at)
        lasts = short_duration(playback.ends_at - playback.begins_at)
        assert f"{passed} of {lasts}" in text, f"{name}: no position {passed} of {lasts}"
        assert abs(playback.at - snapshot.at) < 1, f"{name}: clock and snapshot differ"


async def take(pilot: Pilot[str], picture: Picture, title: str = "hivemind-tui --demo") -> tuple[str, str]:
    """Take one picture, check it, and return it as SVG and as text."""
    app = pilot.app
    assert isinstance(app, ControlRoom)
    await pilot.resize_terminal(*picture.size)
    app.theme = picture.theme
    for key in picture.keys.split():
        await pilot.press(key)
        for simulating in [each for each in app.workers if each.group == "what if"]:
            await simulating.wait()
    await asyncio.sleep(SETTLE_S)
    # All panels show one moment, the one that is checked.
    pace = app._pace
    assert isinstance(pace, Frames)
    pace.stopped = True
    app._look()
    app._draw_all()
    await asyncio.sleep(0.3)
    await pilot.pause()
    svg = app.export_screenshot(title=title, simplify=True)
    text = "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.size)) + "\n"
    check(app, picture, text)
    pace.stopped = False
    for key in ("escape", "escape", "escape", "1"):
        await pilot.press(key)
    return svg, text


async def live_pictures(journal: Path) -> AsyncIterator[tuple[Picture, str, str]]:
    """Those of one demo that runs on meanwhile, and is recorded."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(run_demo_provider(bad_day(SEED)))
        settings = Settings(upstream=(f"mock={url}",), profile="anthropic", port=8765, aimd=AimdSettings(floor=2))
        proxy = Proxy(settings, prices=Prices())
        await stack.enter_async_context(serve(proxy, settings, durable=False))
        began = proxy.engine.now()
        upstreams = proxy.snapshot().upstreams
        events: list[Event] = [
            JournalBegan(began, time.time(), journal.stem, 1, "hivemind", proxy.address, upstreams),
        ]
        proxy.engine.hooks.record = events.extend
        plots = PlotProcess()
        stack.push_async_callback(plots.aclose)
        source = Local(proxy, FOLDER / "hivemind.toml")
        app = ControlRoom(source, drain_s=30, plots=plots, environment=ENVIRONMENT)
        app._pace = Frames(app._pace.wanted)
        async with app.run_test(size=LARGE) as pilot:
            await stack.enter_async_context(run_demo_agents(proxy.address))
            await stack.enter_async_context(at_tasks(proxy.apply))
            await asyncio.sleep(WARM_UP_S)
            for picture in PICTURES:
                yield picture, *await take(pilot, picture)
        proxy.engine.hooks.record = None
        events.append(JournalEnded(proxy.engine.now()))
        write_journal(journal, events)


def write_journal(path: Path, events: Iterable[Event]) -> None:
    """Write the events, but only one sample a second, as a recorder does; screens take many more."""
    sampled_at = -math.inf
    with path.open("wb") as file:
        for event in events:
            if isinstance(event, Sampled):
                if event.at < sampled_at + 0.999:
                    continue
                sampled_at = event.at
            file.write(line_of(event))


def evening(folder: Path) -> Path:
    """A journal of a whole run, which takes no time: eleven agents before a provider that is slow and has faults."""
    slow = replace(SCENARIOS["replay-11"], turns=14, rpm=600, tpm=2_000_000, base_s=2.0, jitter_s=0.8)
    run = BenchRun(
        replace(slow, bad_gateway=0.05, reset=0.03, spike=0.05, concurrency=8), "hivemind", 1, journals=folder
    )
    execute_run(run)
    assert run.journal is not None
    return run.journal


async def recorded_pictures(journal: Path, pictures: Sequence[Picture]) -> AsyncIterator[tuple[Picture, str, str]]:
    """Those of what was recorded."""
    player = Player(journal, priced=True)
    plots = PlotProcess()
    try:
        source = ReplaySource(player, player.name)
        source.journal = journal
        app = ReplayRoom(source, plots=plots, environment=ENVIRONMENT)
        app._pace = Frames(app._pace.wanted)
        async with app.run_test(size=LARGE) as pilot:
            await asyncio.sleep(SETTLE_S)
            for picture in pictures:
                yield picture, *await take(pilot, picture, "hivemind-tui --replay latest")
                app.action_unloop()
    finally:
        player.close()
        await plots.aclose()


async def what_if_pictures() -> AsyncIterator[tuple[Picture, str, str]]:
    """Those of what other settings would have done with a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        journal = await asyncio.to_thread(evening, Path(folder))
        async for made in recorded_pictures(journal, WHAT_IF):
            yield made


async def all_pictures() -> AsyncIterator[tuple[Picture, str, str]]:
    """Every picture in turn."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / time.strftime("%Y%m%d-%H%M%S-8765.jsonl")
        async for made in live_pictures(journal):
            yield made
        async for made in recorded_pictures(journal, RECORDED):
            yield made
        async for made in what_if_pictures():
            yield made


async def write_all(folder: Path, convert: str | None) -> None:
    """Write every picture into the folder."""
    async for picture, svg, text in all_pictures():
        path = folder / f"{picture.name}.svg"
        path.write_text(placed_text(svg), encoding="utf-8")
        if picture.same:
            path.with_suffix(".txt").write_text(text, encoding="utf-8")
        print(path.name)
        if convert is not None:
            width = str(picture.size[0] * CELL_PIXELS)
            command = (convert, "-w", width, "-o", str(path.with_suffix(".png")), str(path))
            await asyncio.to_thread(subprocess.run, command, check=True)
            path.unlink()


def main(arguments: Sequence[str]) -> None:
    """Write the PNGs beside this file, or SVGs into the folder that is named."""
    convert = shutil.which(CONVERTER)
    if convert is None and not arguments:
        sys.exit(f"{CONVERTER} (librsvg2-bin) is missing")
    os.environ["TZ"] = "UTC"  # the texts have times of day
    time.tzset()
    run_loop(write_all(Path(arguments[0]), None) if arguments else write_all(FOLDER, convert))


if __name__ == "__main__":
    main(sys.argv[1:])
