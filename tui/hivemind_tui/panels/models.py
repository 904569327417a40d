"""What was spent on each model since the start."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_dollars
from hivemind.world.snapshot import ModelView
from hivemind_tui.panels.agent_table import UNMETERED, at_least
from hivemind_tui.render.format import fit, percent
from hivemind_tui.render.pen import Chunk, Pen, Row, cells_of, fitting
from hivemind_tui.render.rows import named
from hivemind_tui.state.view import View

_GAUGE = 8
_MONEY = 8
_EACH = 2
"""Rows of a model; one where there are many cells."""
_ONE_ROW = 90
_NAME = 26


def rows_wanted(view: View, width: int, pen: Pen) -> int:
    """Return how many rows the panel needs for all models, with its frame, in so many cells."""
    cells, _ = pen.body_size(width, _EACH + 2)
    return 2 + _rows_each(cells) * max(1, len(view.snapshot.models))


def _rows_each(cells: int) -> int:
    return 1 if cells >= _ONE_ROW else _EACH


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: one or two for each model, the dearest first."""
    cells, rows = pen.body_size(width, height)
    models = sorted(view.snapshot.models, key=lambda each: (-each.dollars, -each.usage.total))
    if not models:
        why = UNMETERED if view.lacks("tokens") else "Models appear here once one was used."
        return pen.message("Cost by model", why, width, height)
    dollars = sum(each.dollars for each in models)
    whole = dollars or float(sum(each.usage.total for each in models)) or 1.0
    each = _rows_each(cells)
    most = rows // each if len(models) * each <= rows else (rows - 1) // each
    body: list[Row] = []
    for model in models[:most]:
        body += _model(model, (model.dollars if dollars else model.usage.total) / whole, cells, pen)
    if len(models) > most:
        body.append(pen.more(len(models) - most))
    hourly = view.snapshot.vitals.dollars_per_hour
    note = f"{short_dollars(dollars)} since start" + (f", {short_dollars(hourly)}/h" if hourly else "")
    return pen.frame("Cost by model", note, body, width, height)


def _model(model: ModelView, share: float, cells: int, pen: Pen) -> list[Row]:
    usage = model.usage
    cost = at_least(model.dollars) if model.unpriced and model.dollars else short_dollars(model.dollars)
    cost = "no price" if model.unpriced and not model.dollars else cost
    end: Row = [
        *pen.gauge(_GAUGE, share, role="info"),
        (f" {percent(share, 1.0):>4}", "dim"),
        (f" {cost:>{_MONEY}}", "strong"),
    ]
    name = model.model or "all other models"
    cached = f" ({percent(usage.cache_read_tokens, usage.total_input)} cached)" if usage.cache_read_tokens else ""
    facts: list[Chunk] = [
        (0, [*named("in", short_count(usage.total_input)), (cached, "dim")]),
        (0, named("out", short_count(usage.output_tokens))),
        (1, [(model.provider, "dim")]),
    ]
    room = cells - cells_of(end) - 1
    if _rows_each(cells) == 1:
        used = fitting(room - _NAME - 1, facts)
        left = max(0, room - _NAME - 1 - cells_of(used))
        return [[(fit(name, _NAME), "text"), (" ", "text"), *used, (" " * (left + 1), "text"), *end]]
    return [[(fit(name, max(4, room)), "text"), (" ", "text"), *end], [("  ", "text"), *fitting(cells - 2, facts)]]
