"""Takes the picture of the control room that the README shows: the demo, half a minute in, 160 columns by 45 rows.

    .venv/bin/python screenshots/make.py

writes control_room.svg and, where rsvg-convert is installed, control_room.png beside this file.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

from hivemind.proxy.app import Proxy
from hivemind.server import run_loop, serve
from hivemind.settings import Settings
from hivemind_mock.demo import SEED, bad_day, run_demo_agents, run_demo_provider
from hivemind_tui.app import ControlRoom
from hivemind_tui.plots.process import PlotProcess

PICTURE = Path(__file__).with_name("control_room.svg")
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


async def take(after_s: float) -> str:
    """The control room on the demo's world, as SVG."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(run_demo_provider(bad_day(SEED)))
        proxy = Proxy(Settings(upstream=(f"mock={url}",), profile="anthropic", port=8765))
        served = await stack.enter_async_context(serve(proxy, Settings(port=8765)))
        plots = PlotProcess()
        stack.push_async_callback(plots.aclose)
        app = ControlRoom(proxy, drain_s=30, plots=plots, environment={})
        async with app.run_test(size=(160, 45)) as pilot:
            await stack.enter_async_context(run_demo_agents(served.url))
            await asyncio.sleep(after_s)
            await pilot.pause()
            return app.export_screenshot(title="hivemind-tui --demo", simplify=True)


def main() -> None:
    """Write the pictures."""
    svg = _TEXT.sub(placed, _FACES.sub("", run_loop(take(30.0))))
    # DejaVu's characters are exactly a cell wide at this size.
    svg = svg.replace("font-family: Fira Code, monospace", "font-family: DejaVu Sans Mono, Menlo, Consolas, monospace")
    svg = svg.replace("font-size: 20px", "font-size: 20.265px")
    PICTURE.write_text(re.sub(r"terminal-\d+", "terminal", svg) + "\n", encoding="utf-8")
    convert = shutil.which("rsvg-convert")
    if convert is None:
        print("no PNG: rsvg-convert (librsvg2-bin) is missing")
    else:
        subprocess.run([convert, "-w", "1600", "-o", str(PICTURE.with_suffix(".png")), str(PICTURE)], check=True)


if __name__ == "__main__":
    main()
