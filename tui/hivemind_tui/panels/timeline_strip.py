"""The timeline of a recording: activity, marks, the position, and the loop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from hivemind.text.humanise import short_duration
from hivemind_tui.render.bars import Axis, times_of_day
from hivemind_tui.render.format import fit, local, percent
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.sources.playback import KINDS, Playback, kind_sign, shown_speed
from hivemind_tui.state.view import View
from hivemind_tui.widgets.panel import Panel, Render

if TYPE_CHECKING:
    from hivemind.journal.index.activity import Column

_GUTTERS = {4: 24, 2: 18, 1: 17}
"""Cells at the left, by rows: how it plays and what time it is."""
_SCALE = 19
"""Cells at the right, where there is room for them: what the bars count."""
_WIDE = 120
_ALL_BUT_NEW = 0.98
"""Share that is read of a recording which grows: of what was just written no more is to be told."""
_BAR = 1
"""Between the gutter and the bars."""
_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}
Cells = list[Span]


@dataclass(frozen=True, slots=True)
class Room:
    """The division of a strip's width."""

    left: int
    cells: int
    """Of the bars, each a piece of the recording."""
    right: int


def room(width: int, height: int) -> Room:
    """Return the division of a strip of this size."""
    left = min(max(0, width - 8), _GUTTERS[4 if height >= 4 else 2 if height >= 2 else 1])
    right = _SCALE if width >= _WIDE and height >= 4 else 1
    return Room(left, max(1, width - left - _BAR - right), right)


def share_at(x: int, width: int, height: int) -> float:
    """Return where in the recording a click on this column goes, from 0 to 1."""
    divided = room(width, height)
    # A click on the last cell goes to the end.
    return min(1.0, max(0.0, (x - divided.left - _BAR) / max(1, divided.cells - 1)))


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the strip's rows."""
    playback = view.playback
    if playback is None or width < 12:
        return [pen.row(max(0, width))] * height
    divided = room(width, height)
    if height >= 4:
        rows = _four(playback, divided, pen)
    elif height >= 2:
        rows = _two(playback, divided, pen)
    else:
        rows = [(_short_state(playback, pen), _marked(playback, divided.cells, pen), [])]
    strips = [_row(left, bars, right, divided, pen) for left, bars, right in rows]
    return (strips + [pen.row(width)] * height)[:height]


def _four(playback: Playback, divided: Room, pen: Pen) -> list[tuple[Cells, Cells, Cells]]:
    """Return rows of waiting, in flight, marks, and times of day."""
    cells = divided.cells
    found = _resampled(playback.columns, cells)
    waiting, active = _top(found, "waiting"), _top(found, "active")
    passed = playback.at - playback.begins_at
    length = playback.ends_at - playback.begins_at
    day = time.strftime("%a %d %b ", local(playback.wall))
    return [
        (
            _state(playback, pen),
            _bars(playback, found, "waiting", waiting, "wait", cells, pen),
            _scale(waiting, "waiting"),
        ),
        (
            [(day, "dim"), (_clock(playback, 1), "strong")],
            _bars(playback, found, "active", active, "ok", cells, pen),
            _scale(active, "in flight"),
        ),
        (
            [(_passed(passed, length), "dim")],
            _marked(playback, cells, pen, loop=False),
            _scale(playback.mark_count, "mark"),
        ),
        (_known(playback, pen), _labels(playback, cells, pen), []),
    ]


def _two(playback: Playback, divided: Room, pen: Pen) -> list[tuple[Cells, Cells, Cells]]:
    """Return rows of activity and of marks."""
    cells = divided.cells
    found = _resampled(playback.columns, cells)
    top = _top(found, "both")
    passed = _passed(playback.at - playback.begins_at, playback.ends_at - playback.begins_at)
    under: Cells = _known(playback, pen) or [(passed, "dim")]
    return [
        (_short_state(playback, pen), _bars(playback, found, "both", top, "ok", cells, pen), []),
        (under, _noted(playback, _marked(playback, cells, pen), pen), []),
    ]


def _row(left: Cells, bars: Cells, right: Cells, divided: Room, pen: Pen) -> Strip:
    used = sum(cell_len(text) for text, _ in left)
    pad = " " * max(0, divided.left - 1 - used)
    side = pen.glyphs.frame[5]
    gutter = pen.row(divided.left + _BAR, (" ", "text"), *left, (pad, "text"), (side, "rule"))
    middle = pen.row(divided.cells, *bars)
    return Strip.join([gutter, middle, pen.row(divided.right, *right)])


# --- At the left -----------------------------------------------------------------------------------------------------


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


def _state(playback: Playback, pen: Pen) -> Cells:
    glyph, word, role = state_of(playback, pen)
    return [(f"{glyph} {word} ", role), (shown_speed(playback.speed), "strong" if playback.playing else "dim")]


def _short_state(playback: Playback, pen: Pen) -> Cells:
    glyph, _, role = state_of(playback, pen)
    return [(f"{glyph} {shown_speed(playback.speed):<6}", role), (_clock(playback, 0), "strong")]


def _clock(playback: Playback, digits: int) -> str:
    whole = time.strftime("%H:%M:%S", local(playback.wall))
    return f"{whole}.{int(playback.wall % 1 * 10)}" if digits else whole


def _passed(passed_s: float, length_s: float) -> str:
    return f"{short_duration(passed_s)} of {short_duration(length_s)}"


def _known(playback: Playback, pen: Pen) -> Cells:
    """Return how much is indexed, while figures are estimates."""
    if playback.known_to < 1 and not (playback.growing and playback.known_to >= _ALL_BUT_NEW):
        about = f"{pen.glyphs.about} " if playback.approximate else ""
        return [(f"{about}reading {percent(playback.known_to, 1)}", "wait" if playback.approximate else "dim")]
    if playback.approximate:
        return [(f"{pen.glyphs.about} about", "wait")]
    return []


def _scale(value: int, of: str) -> Cells:
    if of == "mark":
        return [(f"     {value:>3} ", "strong"), (of if value == 1 else f"{of}s", "dim")]
    return [(" max", "dim"), (f" {value:>3} ", "strong"), (of, "dim")] if value else [(f"       . {of}", "dim")]


# --- Bars ------------------------------------------------------------------------------------------------------------


def _amount(column: Column, what: str) -> int:
    if what == "both":
        return column.active + column.waiting
    return column.waiting if what == "waiting" else column.active


def _resampled(columns: Sequence[Column | None], cells: int) -> list[list[Column]]:
    """Return the columns that each cell stands for; none where nothing is known."""
    count = len(columns)
    if not count:
        return [[] for _ in range(cells)]
    found = []
    for cell in range(cells):
        first = cell * count // cells
        piece = columns[first : max(first + 1, (cell + 1) * count // cells)]
        found.append([column for column in piece if column is not None])
    return found


def _top(found: Sequence[Sequence[Column]], what: str) -> int:
    return max((_amount(column, what) for columns in found for column in columns), default=0)


def _bars(
    playback: Playback, found: Sequence[Sequence[Column]], what: str, top: int, role: str, cells: int, pen: Pen
) -> Cells:
    """Return one bar per cell, dim after the cursor."""
    steps = pen.glyphs.steps
    cursor = _cell(playback, playback.at, cells)
    spans: Cells = []
    for cell, columns in enumerate(found):
        if cell == cursor:
            spans.append((pen.glyphs.thumb, "accent"))
        elif not columns:
            spans.append((pen.glyphs.idle, "rule"))
        else:
            most = max(_amount(column, what) for column in columns)
            waits = what == "both" and any(column.waiting for column in columns)
            level = 0 if not most else max(1, round(most / top * (len(steps) - 1)))
            spans.append((steps[level], "rule" if cell > cursor else "wait" if waits else role))
    return spans


def _cell(playback: Playback, at: float, cells: int) -> int:
    return min(cells - 1, int(playback.share(at) * cells))


def _marked(playback: Playback, cells: int, pen: Pen, *, loop: bool = True) -> Cells:
    """Return a glyph for each mark, and the loop's edges if wanted."""
    shown: dict[int, str] = {}
    for mark in playback.marks:
        cell = _cell(playback, mark.at, cells)
        if _RANKS.get(mark.kind, 99) < _RANKS.get(shown.get(cell, ""), 100):
            shown[cell] = mark.kind
    line: Cells = [(" ", "text")] * cells
    for cell, kind in shown.items():
        sign_ = kind_sign(kind)
        line[cell] = getattr(pen.glyphs, sign_.glyph), sign_.role
    cursor = _cell(playback, playback.at, cells)
    if cursor not in shown:
        line[cursor] = pen.glyphs.thumb, "accent"
    for cell, edge in _edges(playback, cells) if loop else ():
        line[cell] = edge, "accent"
    return line


def _labels(playback: Playback, cells: int, pen: Pen) -> Cells:
    """Return the times of day and the loop, or for a while a note about a mark."""
    if playback.note:
        return _note_spans(playback, pen)
    length = playback.ends_at - playback.begins_at
    if length <= 0:
        return []
    axis = Axis(length, cells, origin_at=playback.begins_at)
    tick = pen.glyphs.frame[5]
    text = times_of_day(axis, playback.begins_at + playback.wall_offset_s, tick)
    edges = _edges(playback, cells)
    for cell, _ in edges:  # a label that an edge stands in would be read wrongly
        first, last = text.rfind(" ", 0, cell) + 1, text.find(" ", cell)
        last = last if last >= 0 else len(text)
        text = text[:first] + " " * max(0, last - first) + text[last:]
    looped = range(edges[0][0], edges[1][0] + 1) if len(edges) == 2 else range(0)
    line: Cells = [(letter, "accent" if cell in looped else "dim") for cell, letter in enumerate(text)]
    if text[:1] == tick:  # beside the gutter's own line
        line[0] = " ", "text"
    cursor = _cell(playback, playback.at, cells)
    if text[cursor] == " ":
        line[cursor] = pen.glyphs.thumb, "accent"
    for cell, edge in edges:
        line[cell] = edge, "accent"
    return line


def _edges(playback: Playback, cells: int) -> list[tuple[int, str]]:
    """Return the cells where the loop begins and ends."""
    edges = ((playback.loop_from, "["), (playback.loop_to, "]"))
    return [(_cell(playback, at, cells), edge) for at, edge in edges if at is not None]


def _note_spans(playback: Playback, pen: Pen) -> Cells:
    sign = kind_sign(playback.note_kind)
    glyph = getattr(pen.glyphs, sign.glyph) if playback.note_kind else pen.glyphs.arrow
    role = sign.role if playback.note_kind else "info"
    return [(f"{glyph} ", role), (playback.note, "text")]


def _noted(playback: Playback, line: Cells, pen: Pen) -> Cells:
    """Return the line with the note beside the cursor, on the side with more room."""
    if not playback.note:
        return line
    cells, cursor = len(line), _cell(playback, playback.at, len(line))
    (glyph, role), (text, plain) = _note_spans(playback, pen)
    if cursor < cells // 2:
        room = max(0, cells - cursor - 2 - cell_len(glyph))
        return [*line[: cursor + 1], (" ", "text"), (glyph, role), (fit(text, room), plain)]
    room = max(0, cursor - 1 - cell_len(glyph))
    text = fit(text, min(room, cell_len(text)))
    pad = " " * (room - cell_len(text))
    return [(pad, "text"), (glyph, role), (text, plain), (" ", "text"), *line[cursor:]]


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

    def __init__(self, render: Render, *, id: str) -> None:
        super().__init__(render, id=id)
        self._dragged = False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag."""
        if event.button == 1:
            self._dragged = True
            self.capture_mouse()
            self._tell(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Post each new position."""
        if self._dragged:
            self._tell(event.x)

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """End the drag."""
        if self._dragged:
            self._dragged = False
            self.release_mouse()

    def _tell(self, x: int) -> None:
        self.post_message(self.Scrubbed(share_at(x, *self.size)))
