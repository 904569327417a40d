"""One agent's requests as a waterfall: queue, attempts, first token, stream, on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.strip import Strip

from hivemind.world.request_view import RequestView
from hivemind_tui.panels.request_table import REQUESTS
from hivemind_tui.render.bars import bar, ending, times_of_day
from hivemind_tui.render.format import fit
from hivemind_tui.render.glyphs import PIECES
from hivemind_tui.render.pen import Pen, Span, body_size, scrollbar
from hivemind_tui.render.phases import pieces
from hivemind_tui.render.table import GAP, Column, Rows, heading, hidden_order, scrolled
from hivemind_tui.state.view import View, join

_LEFT = {"number": 0, "state": 0, "model": 150}
_RIGHT = {"took": 50, "in": 110, "out": 60, "cost": 120, "status": 90}
"""Columns beside the bars, and from how many cells on each is there."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: the axis, and as many requests as fit, scrolled so that the selected one is among them."""
    cells, rows = body_size(pen, width, height)
    listed, order = view.listed, view.requests_order
    if not listed:
        note = (
            "No request fits the filter (esc takes it away)." if order.filter else "None of its requests is remembered."
        )
        return pen.frame("Requests", "", [pen.row(cells, (note, "dim"))], width, height)
    room = max(0, rows - 1)
    long = len(listed) > room
    chosen = view.request
    at = next((index for index, request in enumerate(listed) if request is chosen), 0)
    first = scrolled(at, len(listed), room)
    shown = Rows(listed, at, order.sort, order.reverse, sort_link="app.sort_by({})")
    body = _falls(view, shown, listed[first : first + room], cells - long, pen)
    if long and rows > 0:
        ends = [pen.row(1), *(pen.row(1, span) for span in scrollbar(first, room, len(listed), room, pen))]
        body = [Strip.join([strip, end]) for strip, end in zip(body, ends, strict=True)]
    columns = (*_beside(_LEFT, cells), *_beside(_RIGHT, cells))
    note = join(hidden_order(REQUESTS, order.sort, columns), _filter(view), _legend(pen))
    return pen.frame("Requests", note, body, width, height)


def _filter(view: View) -> str:
    text = view.requests_order.filter
    return f"/{text}" if text else ""


def _legend(pen: Pen) -> str:
    return "  ".join(f"{getattr(pen.glyphs, piece.glyph)} {piece.word}" for piece in PIECES.values())


def _falls(view: View, shown: Rows[RequestView], sight: Sequence[RequestView], cells: int, pen: Pen) -> list[Strip]:
    now = view.snapshot
    left, right = _beside(_LEFT, max(0, cells)), _beside(_RIGHT, cells)
    digits = max((len(f"#{request.ticket}") for request in sight), default=0)
    left[0] = replace(left[0], width=max(4, digits))
    width = max(1, cells - 2 - sum(column.width + GAP for column in (*left, *right)))
    courses = [pieces(request, now.at) for request in sight]
    start = min((course[0].start_at for course in courses), default=now.at)
    axis = ending(start, max((course[-1].end_at for course in courses), default=now.at), width)
    heads: list[Span] = [("  ", "dim")]
    for column in left:
        heads += [*heading(column, column.width, column.align, shown, pen), (" " * GAP, "dim")]
    heads.append((times_of_day(axis, now.wall - now.at, pen.glyphs.frame[5]), "dim"))
    for column in right:
        heads += heading(column, column.width, column.align, shown, pen, GAP)
    rows = [pen.row(cells, *heads)]
    for request, course in zip(sight, courses, strict=True):
        selected = request is shown.items[shown.selected]
        spans: list[Span] = [(f"{pen.glyphs.cursor} " if selected else "  ", "accent")]
        for column in left:
            text, role = column.cell(request, pen, now.at)
            spans.append((fit(text, column.width, column.align) + " " * GAP, role))
        spans += bar(course, axis, pen)
        for column in right:
            text, role = column.cell(request, pen, now.at)
            spans.append((" " * GAP + fit(text, column.width, column.align), role))
        rows.append(pen.row(cells, *spans, selected=selected, link=f"app.pick_request({request.ticket})"))
    return rows


def _beside(names: Mapping[str, int], cells: int) -> list[Column[RequestView]]:
    columns = {column.id: column for column in REQUESTS.columns}
    return [columns[name] for name, least in names.items() if cells >= least]
