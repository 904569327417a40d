"""One request's headers, credentials masked."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.panels.decisions import absent
from hivemind_tui.panels.request_timeline import detail_of, subject
from hivemind_tui.render.format import clean, fit
from hivemind_tui.render.pen import Pen
from hivemind_tui.render.table import GAP
from hivemind_tui.render.wrapping import broken, scrolled
from hivemind_tui.state.view import View

MASK = "***"
"""Stands where a credential stood."""
_ROWS = 4
"""At most, for one header."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, scrolled: method and path, the request's headers, the last response's headers."""
    cells, rows = pen.body_size(width, height)
    detail = detail_of(view)
    if detail is None:
        return pen.message("Headers", absent(subject(view)), width, height)
    pairs = (*detail.request_headers, *detail.response_headers)
    if not (detail.method or pairs):
        live = "Headers are remembered for the newest requests only."
        replay = "There are none in the recording; --record-bodies keeps them too."
        body = [pen.row(cells, (fit(live if view.live else replay, cells), "dim"))]
        return pen.frame("Headers", "", body, width, height)
    cells -= 1
    path = broken(detail.path, cells - len(detail.method) - 1, _ROWS, pen.glyphs.ellipsis)
    entries = [[pen.row(cells, (detail.method, "strong"), (f" {path[0]}", "text"))]]
    entries[0] += [pen.row(cells, (" " * (len(detail.method) + 1) + text, "text")) for text in path[1:]]
    for title, headers in (("Request", detail.request_headers), ("Response", detail.response_headers)):
        entries.append([pen.row(cells, (title, "title"), ("" if headers else "  none yet", "dim"))])
        name = min(cells * 3 // 5, max((len(name) for name, _ in headers), default=0))
        entries += [_entry(header, value, name, cells, pen) for header, value in headers]
    return pen.frame(
        "Headers", "credentials masked", scrolled(entries, view.scroll, cells + 1, rows, pen), width, height
    )


def _entry(header: str, value: str, name: int, cells: int, pen: Pen) -> list[Strip]:
    label = fit(clean(header), name, ellipsis=pen.glyphs.ellipsis)
    texts = broken(value, cells - name - GAP, _ROWS, pen.glyphs.ellipsis)
    role = "dim" if MASK in value else "text"
    labels = [label, *([" " * name] * (len(texts) - 1))]
    return [pen.row(cells, (each + " " * GAP, "dim"), (text, role)) for each, text in zip(labels, texts, strict=True)]
