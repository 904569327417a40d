"""Takes the pictures that the README shows: the real control room on the demo, in two sizes, dark and light, and on
what was recorded of it.

    make screenshots

writes an SVG and, where rsvg-convert is installed, a PNG of each beside this file.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from textual.pilot import Pilot

from hivemind.host.proxy import Proxy
from hivemind.host.server import run_loop, serve
from hivemind.journal.index.player import Player
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.sink import JournalSink
from hivemind.prices import Prices
from hivemind.scheduler.events import Event
from hivemind.settings import Settings
from hivemind_mock.agents.demo import SEED, bad_day, run_demo_agents, run_demo_provider
from hivemind_mock.agents.tasks import at_tasks
from hivemind_mock.bench.runs import Run, execute_run
from hivemind_mock.provider.scenarios import SCENARIOS
from hivemind_tui.app import ControlRoom
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.render.export import CONVERTER, placed_text
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.base import Local
from hivemind_tui.sources.replay import ReplaySource

FOLDER = Path(__file__).parent
WARM_UP_S = 24.0
"""Of demo traffic before the first picture: by then the provider had its first troubles."""
SETTLE_S = 2.5
"""Until a page is drawn and its plot is there."""
LARGE, SMALL = (160, 45), (80, 24)
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: what to press to get there, and how it is seen."""

    name: str
    keys: str
    theme: str = "hivemind-dark"
    size: tuple[int, int] = LARGE


PICTURES = (
    Picture("overview", "1"),
    Picture("overview_light", "1", theme="hivemind-light"),
    Picture("overview_small", "1", size=SMALL),
    Picture("overview_small_light", "1", theme="hivemind-light", size=SMALL),
    Picture("agents", "2 s s s"),
    Picture("agent", "2 $ enter"),
    Picture("request", "3 enter"),
    Picture("tasks", "6 j j j"),
    Picture("tuning", "4 j j j right right left"),
    Picture("tuning_small", "4", size=SMALL),
    Picture("log_light", "5", theme="hivemind-light"),
)
RECORDED = (
    Picture(
        "replay",
        "g 3 0 percent_sign enter left_square_bracket g 7 5 percent_sign enter right_square_bracket"
        " g 4 0 percent_sign enter n right",
    ),
    Picture("replay_small", "g 5 0 percent_sign enter", size=SMALL),
)
WHAT_IF = (
    Picture("whatif", "end w g right right right j j j right right right right enter"),
    Picture("whatif_small", "w enter", size=SMALL),
)


async def take(pilot: Pilot[str], picture: Picture, title: str = "hivemind-tui --demo") -> str:
    """One picture, as SVG."""
    await pilot.resize_terminal(*picture.size)
    pilot.app.theme = picture.theme
    for key in picture.keys.split():
        await pilot.press(key)
        for simulating in [each for each in pilot.app.workers if each.group == "what if"]:
            await simulating.wait()
    await asyncio.sleep(SETTLE_S)
    await pilot.pause()
    svg = pilot.app.export_screenshot(title=title, simplify=True)
    for key in ("escape", "escape", "1"):
        await pilot.press(key)
    return svg


async def live_pictures(journal: Path) -> AsyncIterator[tuple[Picture, str]]:
    """Those of one demo that runs on meanwhile, and is recorded."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(run_demo_provider(bad_day(SEED)))
        settings = Settings(upstream=(f"mock={url}",), profile="anthropic", port=8765)
        proxy = Proxy(settings, prices=Prices())
        served = await stack.enter_async_context(serve(proxy, settings, durable=False))
        began = proxy.engine.now()
        sink = JournalSink(
            journal,
            JournalBegan(began, time.time(), journal.stem, 1, "hivemind", served.url, proxy.snapshot().upstreams),
        )

        def record(events: Sequence[Event]) -> None:
            for event in events:
                sink.record(event)

        proxy.engine.record = record
        plots = PlotProcess()
        stack.push_async_callback(plots.aclose)
        source = Local(proxy, FOLDER / "hivemind.toml")
        app = ControlRoom(source, drain_s=30, plots=plots, environment=ENVIRONMENT)
        async with app.run_test(size=LARGE) as pilot:
            await stack.enter_async_context(run_demo_agents(served.url))
            await stack.enter_async_context(at_tasks(proxy.apply))
            await asyncio.sleep(WARM_UP_S)
            for picture in PICTURES:
                yield picture, await take(pilot, picture)
        proxy.engine.record = None
        sink.close(proxy.engine.now())


def evening(folder: Path) -> Path:
    """A journal of a whole run, which takes no time: eleven agents before a provider that is slow and has faults."""
    slow = replace(SCENARIOS["replay-11"], turns=14, rpm=600, tpm=2_000_000, base_s=2.0, jitter_s=0.8)
    run = Run(replace(slow, bad_gateway=0.05, reset=0.03, spike=0.05, concurrency=8), "hivemind", 1, journals=folder)
    execute_run(run)
    assert run.journal is not None
    return run.journal


async def recorded_pictures(journal: Path, pictures: Sequence[Picture]) -> AsyncIterator[tuple[Picture, str]]:
    """Those of what was recorded."""
    player = Player.open(journal, priced=True)
    plots = PlotProcess()
    try:
        source = ReplaySource(player, player.name)
        source.journal = journal
        app = ReplayRoom(source, plots=plots, environment=ENVIRONMENT)
        async with app.run_test(size=LARGE) as pilot:
            await asyncio.sleep(SETTLE_S)
            for picture in pictures:
                yield picture, await take(pilot, picture, "hivemind-tui --replay latest")
                await pilot.press("backslash")
    finally:
        player.close()
        await plots.aclose()


async def what_if_pictures() -> AsyncIterator[tuple[Picture, str]]:
    """Those of what other settings would have done with a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        journal = await asyncio.to_thread(evening, Path(folder))
        async for made in recorded_pictures(journal, WHAT_IF):
            yield made


async def all_pictures() -> AsyncIterator[tuple[Picture, str]]:
    """Every picture in turn."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / time.strftime("%Y%m%d-%H%M%S-8765.jsonl")
        async for made in live_pictures(journal):
            yield made
        async for made in recorded_pictures(journal, RECORDED):
            yield made
        async for made in what_if_pictures():
            yield made


async def write_all(convert: str | None) -> None:
    """Write every picture."""
    async for picture, svg in all_pictures():
        path = FOLDER / f"{picture.name}.svg"
        path.write_text(placed_text(svg), encoding="utf-8")
        print(path.name)
        if convert is not None:
            width = str(picture.size[0] * 10)
            command = (convert, "-w", width, "-o", str(path.with_suffix(".png")), str(path))
            await asyncio.to_thread(subprocess.run, command, check=True)


def main() -> None:
    """Write the pictures."""
    convert = shutil.which(CONVERTER)
    if convert is None:
        print(f"no PNGs: {CONVERTER} (librsvg2-bin) is missing")
    run_loop(write_all(convert))


if __name__ == "__main__":
    main()
