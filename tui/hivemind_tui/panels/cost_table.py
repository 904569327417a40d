"""What agents, models and trees of agents cost over a span of the journal, sorted; and each model since the start."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.journal.past import Cost, TokenSpending
from hivemind.records import replace
from hivemind.text.humanise import short_count, short_dollars, short_plural
from hivemind.world.snapshot import ModelView
from hivemind_tui.panels.agent_table import UNMETERED, at_least, number
from hivemind_tui.render.format import clock, fit, percent
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, call, cells_of, fitting
from hivemind_tui.render.rows import named
from hivemind_tui.render.table import Column, Rows, Table
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.lists import COST_KEYS
from hivemind_tui.state.view import View, join

_OTHERS = "all others"


def money(spent: TokenSpending, about: str) -> str:
    """Return what was spent: `$2.58`, `$2.58+` where tokens without a price come on top, `≈$2.58` where some are
    estimates."""
    if spent.unpriced and not spent.dollars:
        return "no price"
    shown = at_least(spent.dollars) if spent.unpriced else short_dollars(spent.dollars)
    return f"{about if spent.estimated else ''}{shown}"


_TABLE: Table[Cost] = Table(
    Column("name", "AGENT", 14, 0, lambda c, _: (c.name or _OTHERS, "text" if c.name else "dim"), "<", is_name=True),
    (
        Column("cost", "COST", 9, 0, lambda c, pen: (money(c.spent, pen.glyphs.about), "strong")),
        Column("share", "%", 4, 4, lambda c, _: ("", "dim")),
        Column("asked", "REQS", 5, 1, lambda c, _: number(c.requests)),
        Column("in", "IN", 5, 2, lambda c, _: number(c.spent.input)),
        Column("cached", "CACHED", 6, 5, lambda c, _: (percent(c.spent.cached, c.spent.input), "dim")),
        Column("out", "OUT", 5, 3, lambda c, _: number(c.spent.output)),
        Column("saved", "SAVED", 8, 5, lambda c, _: (_dollars(c.spent.saved), "ok")),
        Column("lost", "LOST", 8, 4, lambda c, _: (_dollars(c.spent.lost), "wait")),
        Column("wasted", "WASTED", 6, 6, lambda c, _: number(c.spent.wasted, "wait")),
        Column("unpriced", "NO PRICE", 8, 7, lambda c, _: number(c.spent.unpriced, "wait")),
        Column("estimated", "ESTIMATE", 8, 8, lambda c, _: number(c.spent.estimated, "dim")),
    ),
    sortable=COST_KEYS,
    names=(14, 40),
)


def _dollars(amount: float) -> str:
    return short_dollars(amount) if amount else ""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a head, the dearest ones first unless another column was chosen, and what all cost."""
    cells, rows = pen.body_size(width, height)
    back, snapshot = view.back, view.snapshot
    title = f"Cost by {back.by}"
    if view.lacks("tokens"):
        return pen.message(title, UNMETERED, width, height)
    answer = back.shown("cost", snapshot.at)
    if answer is None:
        why = back.trouble or back.note("cost", snapshot.at)
        return pen.message(title, f"{why[:1].upper()}{why[1:]}.", width, height)
    every, order = answer.costs[back.by], view.costs_order
    whole = TokenSpending()
    for cost in every:
        whole.add(cost.spent)
    since = clock(max(answer.since, answer.begins_at) + snapshot.wall - snapshot.at)
    late = ", when the journal begins" if answer.begins_at > answer.since and answer.span != "since start" else ""
    note = join(f"{back.words('cost')}, from {since}{late}", money(whole, pen.glyphs.about))
    if not view.costs:
        why = "Nothing matches the filter (esc clears it)." if order.filter else "Nothing was used in that time."
        return pen.message(title, why, width, height, note)
    table = _of(back.by, whole)
    shown = Rows(
        view.costs, view.cost, order.sort, order.reverse, link=lambda cost: call("app.pick", "spender", cost.name)
    )
    legend = _legend(whole, answer.lost, pen)
    body = render_table(table, shown, cells, rows - len(legend), pen)
    body += [pen.row(cells)] * (rows - len(legend) - len(body)) + [pen.row(cells, (text, "dim")) for text in legend]
    return pen.frame(title, note, body, width, height)


def _of(by: str, whole: TokenSpending) -> Table[Cost]:
    """Return the columns that have a use."""

    def share(cost: Cost, _: Pen) -> Span:
        part, of = (cost.spent.dollars, whole.dollars) if whole.dollars else (cost.spent.tokens, whole.tokens)
        return percent(part, of), "dim"

    optional = ("unpriced", "estimated", "saved", "lost")
    out = {name for name in optional if not getattr(whole, name)}
    columns = tuple(
        replace(each, cell=share) if each.id == "share" else each for each in _TABLE.columns if each.id not in out
    )
    return replace(_TABLE, name=replace(_TABLE.name, head=by.upper()), columns=columns)


def _legend(whole: TokenSpending, lost: int, pen: Pen) -> list[str]:
    """Return what the signs of the costs mean, and what is missing."""
    notes = []
    if whole.lost or whole.saved:
        notes.append("saved: by the order of requests; lost: cached prompts that expired, or were left by a switch")
    if whole.wasted:
        notes.append("wasted: tokens of attempts that failed")
    if whole.unpriced:
        notes.append(f"+ {short_count(whole.unpriced)} tokens come on top, of models whose price isn't known")
    if whole.estimated:
        notes.append(f"{pen.glyphs.about} {short_count(whole.estimated)} tokens are estimates, which nobody stated")
    if lost:
        notes.append(f"{short_plural(lost, 'event')} of this time are missing in the journal")
    return notes


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


def render_models(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
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
