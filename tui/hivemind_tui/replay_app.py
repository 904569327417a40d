"""The control room on a recording: a timeline below the panels, keys that move in time, and pictures of the screen."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hivemind.errors import UsageError
from hivemind.scheduler.commands import Rejected
from hivemind_tui.app import ControlRoom
from hivemind_tui.commands.dialogs import kind_key, kinds_menu
from hivemind_tui.commands.queue import Intent
from hivemind_tui.keys import keymap
from hivemind_tui.panels.timeline_strip import Scrubber
from hivemind_tui.render.format import clock, percent
from hivemind_tui.sources.playback import HOW, KINDS, READ_ONLY, Playback, moment_of
from hivemind_tui.sources.replay import ReplaySource, text_of_mark
from hivemind_tui.state.view import View
from hivemind_tui.widgets.overlay import Choice

_NO_REQUESTS = "a recording accepts no requests, so there is nothing to connect to"
_NAME = 60
_FROZEN = "space stops a recording"
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


class ReplayRoom(ControlRoom):
    """A screen on a recording."""

    def __init__(self, source: ReplaySource, *, folder: Path | None = None, **more: Any) -> None:
        """`folder`: where pictures go; None: the current directory."""
        super().__init__(source, **more)
        self.recording = source
        self._folder = folder or Path.cwd()
        self._greeting = False
        self.view = replace(self.view, trail=("overview",), playback=source.playback())

    def on_mount(self) -> None:
        # Textual calls the base class's handler too, after this one.
        self._board.show_timeline()
        self.recording.moved = self._moved
        self.run_worker(self.monitor.timed(self.recording.run(), "replay"), name="replay")

    def _look(self) -> None:
        super()._look()
        self.view = replace(self.view, playback=self.recording.playback())

    def _moved(self) -> None:
        self._detail_due_s = 0.0
        self._look()
        self._draw_all()

    def go(self, view: View) -> None:
        super().go(replace(view, playback=self.recording.playback()))

    # --- What a recording can't do -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow keys that steer, which are answered with the reason why they can't."""
        if keymap.steers(action, parameters):
            return not self.modal_open
        return super().check_action(action, parameters)

    async def _dispatch_action(self, namespace: Any, action_name: str, params: Any) -> bool:
        if namespace is self and keymap.steers(action_name, params):
            reasons = {"freeze": _FROZEN, "page": _NO_REQUESTS, "demo": _NO_REQUESTS}
            self.complain(reasons.get(action_name, READ_ONLY))
            return True
        return bool(await super()._dispatch_action(namespace, action_name, params))

    def action_open(self) -> None:
        if self.view.page == "tuning":
            self.complain(READ_ONLY)
        else:
            super().action_open()

    def action_pick_knob(self, name: str) -> None:
        self.go(replace(self.view, knob=name))

    def steer(self, intent: Intent, refused: Callable[[str], None] | None = None) -> None:
        self.complain(READ_ONLY)

    # --- Moving in time --------------------------------------------------------------------------------------------

    def action_play(self) -> None:
        self.recording.play()
        self._moved()

    def action_turn(self, steps: int) -> None:
        if self.view.page == "whatif":
            self.vary(steps)
        else:
            self._go_to(self.recording.transport.at + steps)

    def action_event(self, step: int) -> None:
        if not self.recording.event(step):
            self.complain("no event after this" if step > 0 else "no event before this")
        self._moved()

    def action_speed(self, step: int) -> None:
        self.recording.transport.change_speed(step)
        self._moved()

    def action_find(self, step: int) -> None:
        if self.view.page == "log" and self.view.log_search:
            super().action_find(step)
            return
        recording = self.recording
        found = recording.mark(step)
        if found is None:
            self.complain(_none_further(recording.playback(), step))
            return
        recording.go(found.at, text_of_mark(found), found.kind)
        self._moved()

    def action_play_to_mark(self) -> None:
        if not self.recording.play_to_mark():
            self.complain(_none_further(self.recording.playback(), 1))
        self._moved()

    def action_edge(self, index: int) -> None:
        if self.view.page == "whatif":
            self.action_row(index)
        elif index:
            self.recording.follow()
            self._moved()
        else:
            self._go_to(self.recording.transport.begins_at)

    def action_go_to(self) -> None:
        self.line.ask("go to", hint=HOW, done=self.go_to)

    def go_to(self, text: str) -> None:
        """Go to a moment as a user types it. Raises: Rejected."""
        if not text.strip():
            return
        try:
            self._go_to(moment_of(text, self.recording.playback()))
        except UsageError as error:
            raise Rejected(str(error)) from None

    def offers(self, text: str) -> list[Choice]:
        if self.view.page == "whatif" or text.lower().startswith("filter"):
            return super().offers(text)
        try:
            at = moment_of(text, self.recording.playback())
        except UsageError:
            return []
        when = clock(at + self.recording.playback().wall_offset_s)
        return [Choice(f"go to {when}", "show that moment of the recording", "g", partial(self._go_to, at))]

    def action_loop(self, edge: int) -> None:
        self.recording.transport.set_loop(edge)
        self._moved()

    def action_unloop(self) -> None:
        self.recording.transport.unloop()
        self._moved()

    def on_scrubber_scrubbed(self, event: Scrubber.Scrubbed) -> None:
        if not self.modal_open:
            now = self.recording.playback()
            self._go_to(now.begins_at + event.share * (now.ends_at - now.begins_at))

    def _go_to(self, at: float) -> None:
        self.recording.go(at)
        self._moved()

    def action_kinds(self) -> None:
        """Open a menu in which each key shows or hides a kind of marks."""
        rows = kinds_menu(self._board.pen, self.recording.kinds, self.recording.counts())
        choices = {
            kind_key(number): partial(self._toggle_kinds, frozenset({kind})) for number, kind in enumerate(KINDS, 1)
        }
        every = frozenset(KINDS)
        self.ask("Marks", rows, choices | {"a": partial(self._toggle_kinds, every - self.recording.kinds or every)})

    def _toggle_kinds(self, turned: frozenset[str]) -> None:
        self.recording.show_kinds(self.recording.kinds ^ turned)
        self._moved()
        self.action_kinds()

    # --- Pictures --------------------------------------------------------------------------------------------------

    def action_picture(self) -> None:
        self.clear_notifications()
        self.call_after_refresh(self._take_picture)

    def _take_picture(self) -> None:
        now = self.recording.playback()
        svg = placed_text(self.export_screenshot(title=f"{now.name}  {clock(now.wall)}", simplify=True))
        self.run_worker(self._write_picture(svg, picture_name(now)), group="picture")

    async def _write_picture(self, svg: str, name: str) -> None:
        try:
            path = write_new(self._folder, name, svg)
        except OSError as error:
            self.complain(f"{self._folder}: the picture can't be written there ({error.strerror})")
            return
        png = await as_png(path, self.size.width)
        both = f" and {png.name}" if png is not None else ""
        self.inform(f"written: {path.name}{both}")


def picture_name(now: Playback) -> str:
    """Return a file name of the journal and the moment shown."""
    journal = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in now.name[:_NAME])
    return f"{journal}-{clock(now.wall).replace(':', '')}"


def _none_further(now: Playback, step: int) -> str:
    if step > 0 and now.known_to < 1:
        return f"no mark after this in the {percent(now.known_to, 1)} read so far"
    return "no mark after this" if step > 0 else "no mark before this"


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
