"""One agent's requests as a waterfall: queue, attempts, first token, stream, on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.strip import Strip

from hivemind.world.request_view import RequestView
from hivemind_tui.panels.request_table import rows_of, table
from hivemind_tui.render.bars import bar, ending, times_of_day
from hivemind_tui.render.glyphs import PHASES
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.render.phases import phases_of
from hivemind_tui.render.table import GAP, Column, Placed, Rows, Table, heads, hidden_order, scrolling
from hivemind_tui.state.view import View, join

_LEFT = {"number": 0, "state": 0, "model": 150}
_RIGHT = {"took": 50, "in": 110, "out": 60, "cost": 120, "status": 90}
"""Columns beside the bars, and the cells from which each is shown."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the time axis and as many requests as fit, with the selected one among them."""
    cells, rows = pen.body_size(width, height)
    typed = view.requests_order.filter
    if not view.listed:
        note = "No request matches the filter (esc clears it)." if typed else "None of its requests is remembered."
        return pen.message("Requests", note, width, height)
    columns = table(view.snapshot.at, view.snapshot.wall - view.snapshot.at)
    shown = rows_of(view)
    body = scrolling(shown, cells, rows, pen, lambda items, room: _waterfall(view, columns, shown, items, room, pen))
    beside = [*_beside(columns, _LEFT, cells), *_beside(columns, _RIGHT, cells)]
    legend = "  ".join(f"{getattr(pen.glyphs, phase.glyph)} {phase.word}" for phase in PHASES.values())
    note = join(hidden_order(columns, shown.sort, beside), f"/{typed}" if typed else "", legend)
    return pen.frame("Requests", note, body, width, height)


def _waterfall(
    view: View,
    columns: Table[RequestView],
    shown: Rows[RequestView],
    items: Sequence[RequestView],
    cells: int,
    pen: Pen,
) -> list[Strip]:
    now = view.snapshot
    left, right = _beside(columns, _LEFT, max(0, cells)), _beside(columns, _RIGHT, cells)
    digits = max((len(f"#{request.ticket}") for request in items), default=0)
    left[0] = Placed(left[0].column, max(4, digits), 0)
    width = max(1, cells - columns.lead - GAP - sum(each.width + each.gap for each in (*left, *right)))
    made = {request.ticket: phases_of(request, now.at) for request in items}
    start = min((phases[0].start_at for phases in made.values()), default=now.at)
    axis = ending(start, max((phases[-1].end_at for phases in made.values()), default=now.at), width)
    times = times_of_day(axis, now.wall - now.at, pen.glyphs.frame[5])
    bars: Column[RequestView] = Column("bars", times, width, 0, lambda *_: ("", "text"), "<")
    body = [heads(columns, [*left, Placed(bars, width, GAP), *right], shown, cells, pen)]
    for request in items:
        selected = request is shown.items[shown.selected]
        spans: list[Span] = [(f"{pen.glyphs.cursor} " if selected else "  ", "accent")]
        spans += [
            *(each.span(request, pen) for each in left),
            (" " * GAP, "text"),
            *bar(made[request.ticket], axis, pen),
        ]
        spans += [each.span(request, pen) for each in right]
        body.append(pen.row(cells, *spans, selected=selected, link=shown.link(request)))
    return body


def _beside(columns: Table[RequestView], least: Mapping[str, int], cells: int) -> list[Placed[RequestView]]:
    by_id = {column.id: column for column in columns.columns}
    return [Placed(by_id[name], by_id[name].width, GAP) for name, fits_from in least.items() if cells >= fits_from]
