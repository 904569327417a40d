"""Takes the pictures that the README shows: the real control room on the demo, in two sizes, dark and light.

    make screenshots

writes an SVG and, where rsvg-convert is installed, a PNG of each beside this file.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from hivemind.prices import Prices
from hivemind.proxy.app import Proxy
from hivemind.server import run_loop, serve
from hivemind.settings import Settings
from hivemind_mock.demo import SEED, bad_day, run_demo_agents, run_demo_provider
from hivemind_mock.work import at_tasks
from hivemind_tui.app import ControlRoom
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.source import Local

FOLDER = Path(__file__).parent
WARM_UP_S = 24.0
"""Of demo traffic before the first picture: by then the provider had its first troubles."""
SETTLE_S = 2.5
"""Until a page is drawn and its plot is there."""
LARGE, SMALL = (160, 45), (80, 24)
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
CELL = 12.2
"""Width of a character in the exported picture."""
BLANK = "&#160;"
_TEXT = re.compile(r'<text (class="[^"]*-r\d+") x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" [^>]*>([^<]*)</text>')
_PIECE = re.compile(r"[\u2800-\u28ff]|[^\s\u2800-\u28ff]+(?: [^\s\u2800-\u28ff]+)*")
_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def placed(match: re.Match[str]) -> str:
    """A row's text, each piece at its own place: few viewers heed `textLength` or have braille in their font."""
    style, x, y, text = match.groups()
    entities = re.split(r"(&#?\w+;)", text.replace(BLANK, " "))
    plain = "".join("\0" if number % 2 else part for number, part in enumerate(entities))
    kept = iter(entities[1::2])
    pieces = []
    for piece in _PIECE.finditer(plain):
        shown = re.sub("\0", lambda _: next(kept), piece[0]).replace(" ", BLANK)
        left, width = float(x) + CELL * piece.start(), CELL * len(piece[0])
        pieces.append(f'<text {style} x="{left:.1f}" y="{y}" textLength="{width:.1f}">{shown}</text>')
    return "".join(pieces)


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


async def take(pilot: Pilot[str], picture: Picture) -> str:
    """One picture, as SVG."""
    await pilot.resize_terminal(*picture.size)
    pilot.app.theme = picture.theme
    for key in picture.keys.split():
        await pilot.press(key)
    await asyncio.sleep(SETTLE_S)
    await pilot.pause()
    svg = pilot.app.export_screenshot(title="hivemind-tui --demo", simplify=True)
    for key in ("escape", "escape", "1"):
        await pilot.press(key)
    return svg


async def all_pictures() -> AsyncIterator[tuple[Picture, str]]:
    """Every picture in turn, of one demo that runs on meanwhile."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(run_demo_provider(bad_day(SEED)))
        settings = Settings(upstream=(f"mock={url}",), profile="anthropic", port=8765)
        proxy = Proxy(settings, prices=Prices())
        served = await stack.enter_async_context(serve(proxy, settings, durable=False))
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


def placed_text(svg: str) -> str:
    """The picture with its text placed piece by piece, in a font that machines have, and no chance in its names."""
    svg = _TEXT.sub(placed, _FACES.sub("", svg))
    # DejaVu's characters are exactly a cell wide at this size.
    svg = svg.replace("font-family: Fira Code, monospace", "font-family: DejaVu Sans Mono, Menlo, Consolas, monospace")
    svg = svg.replace("font-size: 20px", "font-size: 20.265px")
    return re.sub(r"terminal-\d+", "terminal", svg) + "\n"


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
    convert = shutil.which("rsvg-convert")
    if convert is None:
        print("no PNGs: rsvg-convert (librsvg2-bin) is missing")
    run_loop(write_all(convert))


if __name__ == "__main__":
    main()
