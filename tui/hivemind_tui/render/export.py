"""A picture of the screen that other programs show as it was: SVG, and PNG where a converter is installed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from pathlib import Path

CONVERTER = "rsvg-convert"
_CELL = 12.2
"""Width of a character in the exported picture."""
_PIXELS = 10
"""Of a PNG, a character across."""
_BLANK = "&#160;"
_TEXT = re.compile(r'<text (class="[^"]*-r\d+") x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" [^>]*>([^<]*)</text>')
_PIECE = re.compile(r"[\u2800-\u28ff]|[^\s\u2800-\u28ff]+(?: [^\s\u2800-\u28ff]+)*")
_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_TRIES = 1000


def placed_text(svg: str) -> str:
    """Return the picture with its text placed piece by piece, in a common font and without random names."""
    svg = _TEXT.sub(_placed, _FACES.sub("", svg))
    # DejaVu's characters are exactly a cell wide at this size.
    svg = svg.replace("font-family: Fira Code, monospace", "font-family: DejaVu Sans Mono, Menlo, Consolas, monospace")
    svg = svg.replace("font-size: 20px", "font-size: 20.265px")
    return re.sub(r"terminal-\d+", "terminal", svg) + "\n"


def _placed(match: re.Match[str]) -> str:
    """A row's text, each piece at its own place: few viewers heed `textLength` or have braille in their font."""
    style, x, y, text = match.groups()
    entities = re.split(r"(&#?\w+;)", text.replace(_BLANK, " "))
    plain = "".join("\0" if number % 2 else part for number, part in enumerate(entities))
    kept = iter(entities[1::2])
    pieces = []
    for piece in _PIECE.finditer(plain):
        shown = re.sub("\0", lambda _: next(kept), piece[0]).replace(" ", _BLANK)
        left, width = float(x) + _CELL * piece.start(), _CELL * len(piece[0])
        pieces.append(f'<text {style} x="{left:.1f}" y="{y}" textLength="{width:.1f}">{shown}</text>')
    return "".join(pieces)


def write_new(folder: Path, name: str, svg: str) -> Path:
    """Write the picture into a new file of that name, with a number appended if it exists. Raises: OSError."""
    for number in range(1, _TRIES):
        path = folder / (f"{name}.svg" if number == 1 else f"{name}-{number}.svg")
        if path.with_suffix(".png").exists():
            continue
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(svg)
            return path
    raise FileExistsError(17, "too many pictures of that moment", str(folder))


async def as_png(path: Path, columns: int, converter: str | None = None) -> Path | None:
    """Convert the SVG to a PNG beside it; return None where no converter is installed, or it fails."""
    command = converter or shutil.which(CONVERTER)
    if command is None:
        return None
    made = path.with_suffix(".png")
    arguments = (command, "-w", str(columns * _PIXELS), "-o", str(made), str(path))
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*arguments, stdin=quiet, stdout=quiet, stderr=quiet)
    except OSError:
        return None
    return made if await process.wait() == 0 else None
