"""The knobs of the lane shown: their values, what they were before the operator tuned them, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.strip import Strip

from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import NOTHING, short_plural
from hivemind_tui.render.dials import DIALS, GROUPS, NAMES, leap, number, shown_value, tuned
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import scrolled
from hivemind_tui.state.view import View, join

VALUE = 11
_LABEL, _WAS = 16, 12
_ABOUT = 3
"""Rows at the bottom that describe the knob under the cursor."""
Groups = Sequence[tuple[str, Sequence[str]]]


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: every knob by group, and below them a description of the one under the cursor."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.message("Tuning", "Knobs belong to a lane, and the first request opens one.", width, height)
    now, first = lane.state.knobs, view.untuned.get(lane.state.upstream, {})
    changed = tuned(first, now)

    def row(name: str) -> Strip:
        value = shown_value(name, now[name]) if name in now else NOTHING
        was = f"was {number(first[name])}" if name in changed else ""
        spans: list[Span] = [
            (fit(value, VALUE, ">"), "accent" if name in changed else "strong"),
            ("  " + fit(was, _WAS), "wait"),
            (DIALS[name].meaning, "dim"),
        ]
        return knob_row(name, name == view.knob, spans, call("app.pick_knob", name), cells, pen)

    about = _ABOUT if rows >= len(NAMES) // 2 + _ABOUT else 0
    body = listed(GROUPS, NAMES, view.knob, row, cells, rows - about, pen)
    if about:
        scope = "every upstream" if KNOBS[view.knob].shared else f"{lane.state.upstream}, future lanes included"
        how = f"left right {step(view.knob)}, with shift {leap(view.knob)}, enter types; for {scope}"
        body += described(view.knob, (how if view.live else "as it was then; w simulates other values",), cells, pen)
    note = join(f"{short_plural(len(changed), 'knob')} tuned, W writes" if changed else "", view.lane_note())
    return pen.frame(f"Tuning {lane.state.upstream}", note, body, width, height)


def listed(
    groups: Groups, names: Sequence[str], at: str, row: Callable[[str], Strip], cells: int, rows: int, pen: Pen
) -> list[Strip]:
    """Return the rows of the settings, scrolled to `at`; with the titles of groups where everything fits."""
    items = [("", name) for name in names]
    if rows >= len(names) + len(groups):
        items = [item for title, group in groups for item in ((title, ""), *(("", name) for name in group))]
    index = next((index for index, (_, name) in enumerate(items) if name == at), 0)
    top = scrolled(index, len(items), rows)
    body = [row(name) if name else pen.row(cells, (title, "title")) for title, name in items[top : top + rows]]
    return body + [pen.row(cells)] * (rows - len(body))


def knob_row(name: str, here: bool, spans: Iterable[Span], link: str, cells: int, pen: Pen) -> Strip:
    """Return the row of one knob: cursor, label, and whatever is shown beside them."""
    cursor = (pen.glyphs.cursor if here else " ", "accent")
    label = (" " + fit(DIALS[name].label, _LABEL), "strong" if here else "text")
    return pen.row(cells, cursor, label, *spans, selected=here, link=link)


def described(name: str, lines: Iterable[str], cells: int, pen: Pen) -> list[Strip]:
    """Return a rule, a knob's name with its range, unit and symbol, and further lines."""
    knob, dial = KNOBS[name], DIALS[name]
    none = "; 0: no limit" if knob.zero_is_none else ""
    unit = f" {dial.unit}" if dial.unit else ""
    symbol = f"; {dial.symbol} in the paper" if dial.symbol else ""
    span = f"  {number(knob.lowest)} to {number(knob.highest)}{unit}{none}{symbol}"
    return [
        pen.row(cells, (pen.glyphs.frame[4] * cells, "rule")),
        pen.row(cells, (name, "accent"), (span, "text")),
        *(pen.row(cells, (line, "dim")) for line in lines),
    ]


def step(name: str) -> str:
    """Return how far one key press turns a knob."""
    dial = DIALS[name]
    return f"{dial.step:.0%}" if dial.by_ratio else number(dial.step)
