"""The timeline of a recording: activity, marks, the position, and the loop. A click or a drag moves to that moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from hivemind.text.humanise import short_duration
from hivemind_tui.render.bars import Axis, times_of_day
from hivemind_tui.render.format import clock, fit, local, percent
from hivemind_tui.render.pen import Pen, Span, cells_of
from hivemind_tui.sources.playback import KINDS, Playback, kind_sign, shown_speed
from hivemind_tui.state.view import View
from hivemind_tui.widgets.line_table import Panel

if TYPE_CHECKING:
    from hivemind.journal.index.activity import ActivityColumn

_GUTTERS = {4: 24, 2: 18}
"""Cells at the left, by rows: how it plays and what time it is."""
_SCALE = 19
"""Cells at the right, where there is room for them: what the bars count."""
_WIDE = 120
_ALL_BUT_NEW = 0.98
"""Share of a growing recording that is indexed when only what was just written is missing."""
_BAR = 1
"""Between the gutter and the bars."""
_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}
_Row = tuple[list[Span], list[Span], list[Span]]
"""What stands at the left, in the middle, and at the right."""


def room(width: int, height: int) -> tuple[int, int, int]:
    """Return the division of a strip of this size: its gutter, the cells of the bars, and what is right of them."""
    left = min(max(0, width - 8), _GUTTERS[4 if height >= 4 else 2])
    right = _SCALE if width >= _WIDE and height >= 4 else 1
    return left, max(1, width - left - _BAR - right), right


def share_at(x: int, width: int, height: int) -> float:
    """Return where in the recording a click on this column goes, from 0 to 1."""
    left, cells, _ = room(width, height)
    # A click on the last cell goes to the end.
    return min(1.0, max(0.0, (x - left - _BAR) / max(1, cells - 1)))


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the strip's rows."""
    if view.playback is None or width < 12:
        return [pen.row(max(0, width))] * height
    gutter_cells, cells, right_cells = room(width, height)
    strip = _Strip(view.playback, cells, pen)
    rows = strip.four() if height >= 4 else strip.two()
    strips: list[Strip] = []
    for left, bars, right in rows:
        pad = (" " * max(0, gutter_cells - 1 - cells_of(left)), "text")
        gutter = pen.row(gutter_cells + _BAR, (" ", "text"), *left, pad, (pen.glyphs.frame[5], "rule"))
        strips.append(Strip.join([gutter, pen.row(cells, *bars), pen.row(right_cells, *right)]))
    return (strips + [pen.row(width)] * height)[:height]


def state_of(playback: Playback, pen: Pen) -> tuple[str, str, str]:
    """Return the state of the playback as glyph, word and role."""
    glyphs = pen.glyphs
    if playback.playing:
        word = "loop" if playback.loop_from is not None and playback.loop_to is not None else "playing"
        return glyphs.play, word, "accent"
    if playback.following:
        return glyphs.dot, "as it happens", "ok"
    if playback.at_end and not playback.growing:
        return glyphs.stop, "the end", "strong"
    return glyphs.pause, "stopped", "strong"


def _amount(column: ActivityColumn, what: str) -> int:
    if what == "both":
        return column.active + column.waiting
    return column.waiting if what == "waiting" else column.active


class _Strip:
    """Draws one frame of the timeline."""

    def __init__(self, playback: Playback, cells: int, pen: Pen) -> None:
        self._playback = playback
        self._cells = cells
        self._pen = pen
        self._cursor = self._cell(playback.at)
        edges = ((playback.loop_from, "["), (playback.loop_to, "]"))
        self._edges = [(self._cell(at), edge) for at, edge in edges if at is not None]
        """The cells where the loop begins and ends."""
        columns, count = playback.columns, len(playback.columns)
        firsts = [cell * count // cells for cell in range(cells)]
        pieces = [columns[at : max(at + 1, (n + 1) * count // cells)] for n, at in enumerate(firsts)]
        self._columns = [[column for column in piece if column is not None] for piece in pieces]
        """What each cell stands for; nothing where nothing is known."""

    def _cell(self, at: float) -> int:
        return min(self._cells - 1, int(self._playback.share(at) * self._cells))

    def two(self) -> list[_Row]:
        playback, below = self._playback, self._known() or [(self._passed(), "dim")]
        glyph, _, role = state_of(playback, self._pen)
        state = [(f"{glyph} {shown_speed(playback.speed):<6}", role), (clock(playback.wall), "strong")]
        return [(state, self._bars("both", "ok"), []), (below, self._noted(self._marked()), [])]

    def four(self) -> list[_Row]:
        playback, marks = self._playback, self._playback.mark_count
        glyph, word, role = state_of(playback, self._pen)
        state = [(f"{glyph} {word} ", role), (shown_speed(playback.speed), "strong" if playback.playing else "dim")]
        day = time.strftime("%a %d %b ", local(playback.wall))
        moment = f"{clock(playback.wall)}.{int(playback.wall % 1 * 10)}"
        counted: list[Span] = [(f"     {marks:>3} ", "strong"), ("mark" if marks == 1 else "marks", "dim")]
        return [
            (state, self._bars("waiting", "wait"), self._scale("waiting", "waiting")),
            ([(day, "dim"), (moment, "strong")], self._bars("active", "ok"), self._scale("active", "in flight")),
            ([(self._passed(), "dim")], self._marked(loop=False), counted),
            (self._known(), self._labels(), [("     g lists them", "dim")] if marks else []),
        ]

    def _passed(self) -> str:
        playback = self._playback
        passed, length = playback.at - playback.begins_at, playback.ends_at - playback.begins_at
        return f"{short_duration(passed)} of {short_duration(length)}"

    def _known(self) -> list[Span]:
        playback, about = self._playback, self._pen.glyphs.about
        if playback.known_to < 1 and not (playback.growing and playback.known_to >= _ALL_BUT_NEW):
            text = f"reading {percent(playback.known_to, 1)}"
            return [(f"{about} {text}", "wait")] if playback.approximate else [(text, "dim")]
        return [(f"{about} about", "wait")] if playback.approximate else []

    def _top(self, what: str) -> int:
        return max((_amount(column, what) for columns in self._columns for column in columns), default=0)

    def _scale(self, what: str, word: str) -> list[Span]:
        value = self._top(what)
        return [(" max", "dim"), (f" {value:>3} ", "strong"), (word, "dim")] if value else [(f"       . {word}", "dim")]

    def _bars(self, what: str, role: str) -> list[Span]:
        glyphs, top = self._pen.glyphs, self._top(what)
        spans: list[Span] = []
        for cell, columns in enumerate(self._columns):
            if cell == self._cursor:
                spans.append((glyphs.thumb, "accent"))
            elif not columns:
                spans.append((glyphs.idle, "rule"))
            else:
                most = max(_amount(column, what) for column in columns)
                waits = what == "both" and any(column.waiting for column in columns)
                level = 0 if not most else max(1, round(most / top * (len(glyphs.steps) - 1)))
                spans.append((glyphs.steps[level], "rule" if cell > self._cursor else "wait" if waits else role))
        return spans

    def _marked(self, *, loop: bool = True) -> list[Span]:
        shown: dict[int, str] = {}
        for mark in self._playback.marks:
            cell = self._cell(mark.at)
            if _RANKS.get(mark.kind, 99) < _RANKS.get(shown.get(cell, ""), 100):
                shown[cell] = mark.kind
        line: list[Span] = [(" ", "text")] * self._cells
        line[self._cursor] = self._pen.glyphs.thumb, "accent"
        for cell, kind in shown.items():
            line[cell] = self._pen.sign(kind_sign(kind))
        for cell, edge in self._edges if loop else ():
            line[cell] = edge, "accent"
        return line

    def _labels(self) -> list[Span]:
        playback, glyphs = self._playback, self._pen.glyphs
        if playback.note:
            return self._note()
        length = playback.ends_at - playback.begins_at
        if length <= 0:
            return []
        axis = Axis(length, self._cells, origin_at=playback.begins_at)
        tick = glyphs.frame[5]
        text = times_of_day(axis, playback.begins_at + playback.wall_offset_s, tick)
        for cell, _ in self._edges:  # a label that an edge stands in would be read wrongly
            first, last = text.rfind(" ", 0, cell) + 1, text.find(" ", cell)
            last = last if last >= 0 else len(text)
            text = text[:first] + " " * max(0, last - first) + text[last:]
        looped = range(self._edges[0][0], self._edges[1][0] + 1) if len(self._edges) == 2 else range(0)
        line: list[Span] = [(letter, "accent" if cell in looped else "dim") for cell, letter in enumerate(text)]
        if text[:1] == tick:  # beside the gutter's own line
            line[0] = " ", "text"
        if text[self._cursor] == " ":
            line[self._cursor] = glyphs.thumb, "accent"
        for cell, edge in self._edges:
            line[cell] = edge, "accent"
        return line

    def _note(self) -> list[Span]:
        kind = self._playback.note_kind
        glyph, role = self._pen.sign(kind_sign(kind)) if kind else (self._pen.glyphs.arrow, "info")
        return [(f"{glyph} ", role), (self._playback.note, "text")]

    def _noted(self, line: list[Span]) -> list[Span]:
        """Return the line with the note beside the cursor, on the side with more room."""
        if not self._playback.note:
            return line
        cursor = self._cursor
        sign, (text, plain) = self._note()
        if cursor < self._cells // 2:
            room = max(0, self._cells - cursor - 2 - cells_of([sign]))
            return [*line[: cursor + 1], (" ", "text"), sign, (fit(text, room), plain)]
        room = max(0, cursor - 1 - cells_of([sign]))
        text = fit(text, min(room, cell_len(text)))
        pad = " " * (room - cell_len(text))
        return [(pad, "text"), sign, (text, plain), (" ", "text"), *line[cursor:]]


class Scrubber(Panel):
    """A panel that posts where in the recording the mouse is while its button is down."""

    class Scrubbed(Message):
        """The operator moved the mouse there."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share
            """Of the recording, from 0 to 1."""

        def can_replace(self, message: Message) -> bool:
            """Return whether the message is outdated: only the last position counts."""
            return isinstance(message, Scrubber.Scrubbed)

    def __init__(self, *, id: str) -> None:
        super().__init__(render, id=id)
        self._dragged = False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1:
            self._dragged = True
            self.capture_mouse()
            self._post(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged:
            self._post(event.x)

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        if self._dragged:
            self._dragged = False
            self.release_mouse()

    def _post(self, x: int) -> None:
        self.post_message(self.Scrubbed(share_at(x, *self.size)))
