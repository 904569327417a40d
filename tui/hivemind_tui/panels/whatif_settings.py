"""What could be another setting: every knob with its recorded value, and what it is to be in the what-if."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.lab.tune.overrides import shown
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import short_plural
from hivemind_tui.panels.knobs import GROUPS
from hivemind_tui.render.dials import DIALS, leap, number, shown_value
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import scrolled
from hivemind_tui.state.view import View, join
from hivemind_tui.whatif.state import Sheet

_SYMBOL, _VALUE = 12, 11
_ABOUT = 4
"""Rows at the bottom that tell about the setting under the cursor."""
_OTHERS = "Others, not while a proxy runs"


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: settings, scrolled to the cursor, and under them all about the one under it."""
    cells, rows = pen.body_size(width, height)
    sheet = view.sheet
    about = _ABOUT if rows >= 4 * _ABOUT else 0
    room = rows - about
    items = _items(sheet, room)
    at = next((index for index, (_, name) in enumerate(items) if name == sheet.name), 0)
    top = scrolled(at, len(items), room)
    body = [
        _row(name, sheet, cells, pen) if name else pen.row(cells, (heading, "title"))
        for heading, name in items[top : top + room]
    ]
    body += [pen.row(cells)] * (room - len(body))
    if about:
        body += _about(sheet, cells, pen)
    changed = len(sheet.changes)
    note = join(f"{short_plural(changed, 'setting')} changed" if changed else "as recorded", "enter simulates")
    return pen.frame("What if", note, body, width, height)


def _items(sheet: Sheet, room: int) -> list[tuple[str, str]]:
    """Headings and settings, one of the two each; without headings where they don't all fit."""
    others = [name for name in sheet.names if name not in KNOBS]
    groups = [*GROUPS, *([(_OTHERS, tuple(others))] if others else [])]
    if len(sheet.names) + len(groups) > room:
        return [("", name) for name in sheet.names]
    return [item for title, names in groups for item in ((title, ""), *(("", name) for name in names))]


def _row(name: str, sheet: Sheet, cells: int, pen: Pen) -> Strip:
    here = name == sheet.name
    change = next((each for each in sheet.changes if each.name == name), None)
    lead: list[Span] = [(pen.glyphs.cursor if here else " ", "accent")]
    if name not in KNOBS:
        wanted = shown(change.value) if change is not None else ""
        spans: list[Span] = [*lead, (f" {name}  ", "strong" if here else "text"), (wanted, "accent")]
        return pen.row(cells, *spans, selected=here, link=call("app.pick_setting", name))
    dial, base, value = DIALS[name], sheet.base.get(name), sheet.value(name)
    arrow = f" {pen.glyphs.arrow} "
    wanted = f"{arrow}{shown_value(name, value)}" if change is not None and value is not None else ""
    spans = [
        *lead,
        (" " + fit(dial.symbol, _SYMBOL), "strong" if here else "text"),
        (fit(shown_value(name, base) if base is not None else "—", _VALUE, ">"), "dim" if wanted else "strong"),
        (fit(wanted, _VALUE + len(arrow)), "accent"),
    ]
    return pen.row(cells, *spans, selected=here, link=call("app.pick_setting", name))


def _about(sheet: Sheet, cells: int, pen: Pen) -> list[Strip]:
    name = sheet.name
    rule = pen.row(cells, (pen.glyphs.frame[4] * cells, "rule"))
    if name not in KNOBS:
        return [
            rule,
            pen.row(cells, (name, "accent")),
            pen.row(cells, ("counts from a proxy's next start on", "text")),
            pen.row(cells, ("o types another value, backspace drops it", "dim")),
        ]
    knob, dial = KNOBS[name], DIALS[name]
    step = f"{dial.step:.0%}" if dial.by_ratio else number(dial.step)
    none = "; 0: no limit" if knob.zero_is_none else ""
    unit = f" {dial.unit}" if dial.unit else ""
    times = 0 if sheet.looked is None else sheet.looked.turned.get(name, 0)
    turned = f"; turned {short_plural(times, 'time')} in the recording" if times else ""
    return [
        rule,
        pen.row(cells, (name, "accent"), (f"  {number(knob.lowest)} to {number(knob.highest)}{unit}{none}", "text")),
        pen.row(cells, (dial.meaning, "text"), (turned, "wait")),
        pen.row(cells, (f"left right {step}, shift {leap(name)}; o types", "dim")),
    ]
