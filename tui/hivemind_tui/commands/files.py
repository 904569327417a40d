"""What the room writes and opens as files: pictures of the screen, the report of the run, and journals."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.files import DEMO_FOLDER, FOLDER
from hivemind.journal.read.reader import Listed, listed
from hivemind.text.humanise import short_duration, short_plural
from hivemind_tui.commands.room import Room
from hivemind_tui.render.format import clock
from hivemind_tui.whatif.process import recording_of
from hivemind_tui.widgets.overlay import Choice

_NAME = 60
_CELL = 12.2
"""Width of a character in the exported picture."""
_BLANK = "&#160;"
_TEXT = re.compile(r'<text (class="[^"]*-r\d+") x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" [^>]*>([^<]*)</text>')
_PIECE = re.compile(r"[\u2800-\u28ff]|[^\s\u2800-\u28ff]+(?: [^\s\u2800-\u28ff]+)*")
_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_TRIES = 1000


def _program(module: str) -> Sequence[str]:
    return sys.executable, "-P", "-c", f"import sys; from {module} import main; sys.exit(main())"


class FileActions(Room):
    """Pictures, journals and the report."""

    folder: Path
    """Where pictures and reports go."""
    has_terminal = True
    """Whether another program can take the terminal over; a browser's room has none."""

    def action_picture(self) -> None:
        self.clear_notifications()
        self.call_after_refresh(self._take_picture)

    def _take_picture(self) -> None:
        now, snapshot = self.view.playback, self.view.snapshot
        name, wall = ("hivemind", snapshot.wall) if now is None else (now.name, now.wall)
        svg = placed_text(self.export_screenshot(title=f"{name}  {clock(wall)}", simplify=True))
        self.run_worker(self._write_picture(svg, picture_name(name, wall)), group="picture")

    async def _write_picture(self, svg: str, name: str) -> None:
        try:
            path = write_new(self.folder, name, svg)
        except OSError as error:
            self.complain(f"{self.folder}: the picture can't be written there ({error.strerror})")
            return
        self.inform(f"written: {path.name}")

    def action_report(self) -> None:
        """Write the report of what was recorded so far, in another process."""

        def begin() -> None:
            path = recording_of(self.source, self.view.snapshot, "hivemind report")
            self.inform("writing the report")
            self.run_task(self._write_report(path.resolve()), "report")

        self.attempt(begin)

    async def _write_report(self, path: Path) -> None:
        pipe, command = asyncio.subprocess.PIPE, (*_program("hivemind.cli.main"), "report", str(path))
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            out, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            self.complain(f"no report: {errors.decode(errors='replace').strip().rpartition(chr(10))[2]}")
        else:
            self.inform(f"written: {out.decode(errors='replace').strip()} in {self.folder}")

    def action_go_to(self) -> None:
        """Go to an earlier time: of a live proxy to a journal, of a recording to a mark."""
        self.action_journals()

    def action_journals(self) -> None:
        """List the journals beside that of this run, and those of demos; the one that is chosen is played back."""

        def begin() -> None:
            path = recording_of(self.source, self.view.snapshot, "hivemind-tui --replay")
            self.run_task(self._list_journals(path.parent), "journals")

        self.attempt(begin)

    async def _list_journals(self, folder: Path) -> None:
        try:
            journals = await asyncio.to_thread(_journals, folder)
        except UsageError as error:
            self.complain(str(error))
            return
        choices = [
            Choice(
                begun(journal.began) + " (now)" * (journal.end == "still being written"),
                _told(journal),
                short_plural(journal.openings, "opening") if journal.openings else "",
                partial(self._play_back, journal.path),
                f"{journal.name} circuit opened",
            )
            for journal in journals
        ]
        nothing = "no journal of that day or name; esc leaves"
        self.palette.open(lambda: choices, lambda _: (), self._board.pen, "Journals: enter plays one back", nothing)

    def _play_back(self, path: Path) -> None:
        if self.has_terminal:
            self.aside = (*_program("hivemind_tui.__main__"), "--replay", str(path))
            self.exit("aside")
        else:
            self.complain(f"a browser can't show it here; in a terminal: hivemind-tui --replay {path.stem}")


def begun(moment: float) -> str:
    """Return a day and time: `yesterday 10:23`."""
    at = datetime.fromtimestamp(moment)
    days = (date.today() - at.date()).days
    return f"{('today', 'yesterday')[days] if days in (0, 1) else f'{at:%a %d %b}'} {at:%H:%M}"


def _told(journal: Listed) -> str:
    """Return how long a journal is and what is in it: `demo 5m10s, 11 agents, 349 requests`."""
    kind = "demo " if journal.path.parent.name == DEMO_FOLDER else ""
    told = f"{kind}{short_duration(journal.length_s)}"
    if journal.requests is None:
        return told
    return f"{told}, {short_plural(journal.agents or 0, 'agent')}, {short_plural(journal.requests, 'request')}"


def _journals(folder: Path) -> Sequence[Listed]:
    """Return those of this folder, and of the state directory those of demos and others, the newest first.

    Raises: UsageError.
    """
    both = FOLDER, DEMO_FOLDER
    folders = [folder.with_name(name) for name in both] if folder.name in both else [folder]
    journals = [journal for place in folders for journal in listed(place)[0]]
    return sorted(journals, key=lambda journal: journal.began, reverse=True)


def picture_name(name: str, wall: float) -> str:
    """Return a file name of what is shown and the moment."""
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name[:_NAME])
    return f"{name}-{clock(wall).replace(':', '')}"


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
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(svg)
            return path
    raise FileExistsError(17, "too many pictures of that moment", str(folder))
