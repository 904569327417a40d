"""The knobs of the lane shown: their values, how far each was turned from where it stood, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.strip import Strip

from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import short_plural
from hivemind_tui.render.dials import DIALS, NAMES, leap, number, shown_value, tuned
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import scrolled
from hivemind_tui.state.view import View, join

GROUPS = (
    ("Concurrency", ("max_concurrency", "aimd.floor", "aimd.alpha", "aimd.beta", "aimd.latency_target_s")),
    ("Circuit breaker", ("circuit.threshold", "circuit.window", "circuit.cooldown_s")),
    ("Rate limits of ours", ("rpm", "tpm")),
    ("Retry, every upstream", tuple(name for name in NAMES if name.startswith("retry."))),
)
"""By what they are about."""
_SYMBOL, _VALUE, _WAS = 12, 11, 12
_ABOUT = 3
"""Rows at the bottom that tell about the knob under the cursor."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A row of the list: a heading, or a knob."""

    heading: str = ""
    knob: str = ""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: every knob by group, and under them all about the one under the cursor."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.message("Tuning", "Knobs belong to a lane, and the first request opens one.", width, height)
    first = view.untuned.get(lane.state.upstream, {})
    changed = tuned(first, lane.state.knobs)
    about = _ABOUT if rows >= len(NAMES) // 2 + _ABOUT else 0
    room = rows - about
    items = [_Item(knob=name) for name in NAMES]
    if room >= len(NAMES) + len(GROUPS):
        items = [item for title, names in GROUPS for item in (_Item(heading=title), *(_Item(knob=n) for n in names))]
    at = next((index for index, item in enumerate(items) if item.knob == view.knob), 0)
    top = scrolled(at, len(items), room)
    body = [_row(item, view, lane.state.knobs, first, cells, pen) for item in items[top : top + room]]
    body += [pen.row(cells)] * (room - len(body))
    if about:
        body += _about(view, lane.state.upstream, cells, pen)
    note = join(f"{short_plural(len(changed), 'knob')} turned, W writes" if changed else "", view.lane_note())
    return pen.frame(f"Tuning {lane.state.upstream}", note, body, width, height)


def _row(
    item: _Item,
    view: View,
    knobs: Mapping[str, float],
    first: Mapping[str, float],
    cells: int,
    pen: Pen,
) -> Strip:
    if item.heading:
        return pen.row(cells, (item.heading, "title"))
    name, dial = item.knob, DIALS[item.knob]
    here = name == view.knob
    turned = name in first and name in knobs and first[name] != knobs[name]
    value = shown_value(name, knobs[name]) if name in knobs else "—"
    was = f"was {number(first[name])}" if turned else ""
    spans: list[Span] = [
        (pen.glyphs.cursor if here else " ", "accent"),
        (" " + fit(dial.symbol, _SYMBOL), "strong" if here else "text"),
        (fit(value, _VALUE, ">"), "accent" if turned else "strong"),
        ("  " + fit(was, _WAS), "wait"),
        (dial.meaning, "dim"),
    ]
    return pen.row(cells, *spans, selected=here, link=call("app.pick_knob", name))


def _about(view: View, upstream: str, cells: int, pen: Pen) -> list[Strip]:
    name = view.knob
    knob, dial = KNOBS[name], DIALS[name]
    step = f"{dial.step:.0%}" if dial.by_ratio else number(dial.step)
    none = "; 0: no limit" if knob.zero_is_none else ""
    unit = f" {dial.unit}" if dial.unit else ""
    scope = "every upstream" if knob.shared else f"{upstream}, its lanes to come too"
    how = f"left right {step}, with shift {leap(name)}, enter types; for {scope}"
    if not view.live:
        how = "as it stood then; w asks what other values would have done"
    return [
        pen.row(cells, (pen.glyphs.frame[4] * cells, "rule")),
        pen.row(cells, (name, "accent"), (f"  {number(knob.lowest)} to {number(knob.highest)}{unit}{none}", "text")),
        pen.row(cells, (how, "dim")),
    ]
