"""The settings of a what-if: every knob with its recorded value and the value to simulate."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.lab.simulate.overrides import value_text
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import NOTHING, short_count, short_plural
from hivemind_tui.panels.knobs import VALUE, described, knob_row, listed, step
from hivemind_tui.render.dials import DIALS, GROUPS, leap, shown_value
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.state.view import View, join
from hivemind_tui.whatif.state import WhatIf

_ABOUT = 4
"""Rows at the bottom that describe the setting under the cursor."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the settings, and below them a description of the one under the cursor."""
    cells, rows = pen.body_size(width, height)
    what_if = view.what_if
    about = _ABOUT if rows >= 4 * _ABOUT else 0
    others = [name for name in what_if.names if name not in KNOBS]
    groups = [*GROUPS, *([("Others, not while a proxy runs", others)] if others else [])]
    body = listed(
        groups, what_if.names, what_if.name, lambda name: _row(name, what_if, cells, pen), cells, rows - about, pen
    )
    body += _about(what_if, cells, pen) if about else []
    changed = len(what_if.changes)
    note = f"{short_count(changed)} changed" if changed else "as recorded"
    return pen.frame("What if", join(note, "enter simulates"), body, width, height)


def _row(name: str, what_if: WhatIf, cells: int, pen: Pen) -> Strip:
    here, link = name == what_if.name, call("app.pick_setting", name)
    change = next((each for each in what_if.changes if each.name == name), None)
    if name not in KNOBS:
        wanted = value_text(change.value) if change is not None else ""
        lead: list[Span] = [
            (pen.glyphs.cursor if here else " ", "accent"),
            (f" {name}  ", "strong" if here else "text"),
        ]
        return pen.row(cells, *lead, (wanted, "accent"), selected=here, link=link)
    base, value, arrow = what_if.base.get(name), what_if.value(name), f" {pen.glyphs.arrow} "
    wanted = f"{arrow}{shown_value(name, value)}" if change is not None and value is not None else ""
    recorded = fit(shown_value(name, base) if base is not None else NOTHING, VALUE, ">")
    spans = [(recorded, "dim" if wanted else "strong"), (fit(wanted, VALUE + len(arrow)), "accent")]
    return knob_row(name, here, spans, link, cells, pen)


def _about(what_if: WhatIf, cells: int, pen: Pen) -> list[Strip]:
    name = what_if.name
    if name not in KNOBS:
        return [
            pen.row(cells, (pen.glyphs.frame[4] * cells, "rule")),
            pen.row(cells, (name, "accent")),
            pen.row(cells, ("takes effect when a proxy starts", "text")),
            pen.row(cells, ("o types another value, backspace resets it", "dim")),
        ]
    times = 0 if what_if.summary is None else what_if.summary.turned.get(name, 0)
    turned = f"; tuned {short_plural(times, 'time')} in the recording" if times else ""
    how = f"left right {step(name)}, shift {leap(name)}; o types"
    return described(name, (DIALS[name].meaning + turned, how), cells, pen)
