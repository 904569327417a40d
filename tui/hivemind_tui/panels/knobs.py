"""The knobs of the lane shown, and the settings of a what-if: values, what they were before, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.lab.simulate.overrides import value_text
from hivemind.lab.simulate.questions import is_question, meaning_of
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.text.humanise import NOTHING, count, short_count, short_plural
from hivemind_tui.render.dials import DIALS, GROUPS, NAMES, number, reach, shown_value, step, tuned
from hivemind_tui.render.format import clean, fit
from hivemind_tui.render.pen import Pen, Row, Span, call
from hivemind_tui.render.table import scrolled
from hivemind_tui.state.view import View, join
from hivemind_tui.whatif.state import QUESTIONS, WhatIf

_VALUE, _LABEL, _WAS = 11, 16, 12
_ABOUT = 3
"""Rows at the bottom that describe the knob under the cursor."""
_ABOUT_WHAT_IF = 4


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: every knob by group, and below them a description of the one under the cursor."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.message("Tuning", "Settings belong to a lane, and the first request opens one.", width, height)
    now, first = lane.state.knobs, view.untuned.get(lane.state.upstream, {})
    changed = tuned(first, now)

    def row(name: str) -> Strip:
        value = shown_value(name, now[name]) if name in now else NOTHING
        was = f"was {number(first[name])}" if name in changed else ""
        spans: list[Span] = [
            (fit(value, _VALUE, ">"), "accent" if name in changed else "strong"),
            ("  " + fit(was, _WAS), "wait"),
            (DIALS[name].meaning, "dim"),
        ]
        return _row(name, name == view.knob, spans, call("app.pick_knob", name), cells, pen)

    about = _ABOUT if rows >= len(NAMES) // 2 + _ABOUT else 0
    body: list[Strip | Row] = [*_listed(GROUPS, NAMES, view.knob, row, cells, rows - about, pen)]
    if about:
        scope = "every upstream" if KNOBS[view.knob].shared else f"{lane.state.upstream}, future lanes included"
        how = f"left right {step(view.knob)}, enter types; for {scope}"
        body += _described(view.knob, (how if view.live else "as it was then; w simulates other values",), cells, pen)
    note = join(f"{short_plural(len(changed), 'setting')} tuned, W writes" if changed else "", view.lane_note())
    return pen.frame(f"Tuning {lane.state.upstream}", note, body, width, height)


def _listed(
    groups: Sequence[tuple[str, Sequence[str]]],
    names: Sequence[str],
    at: str,
    row: Callable[[str], Strip],
    cells: int,
    rows: int,
    pen: Pen,
) -> list[Strip]:
    """Return the rows of the settings, scrolled to `at`; with the titles of groups where everything fits."""
    items = [("", name) for name in names]
    if rows >= len(names) + len(groups):
        items = [item for title, group in groups for item in ((title, ""), *(("", name) for name in group))]
    index = next((index for index, (_, name) in enumerate(items) if name == at), 0)
    top = scrolled(index, len(items), rows)
    body = [row(name) if name else pen.row(cells, (title, "title")) for title, name in items[top : top + rows]]
    return body + [pen.row(cells)] * (rows - len(body))


def _row(name: str, here: bool, spans: Iterable[Span], link: str, cells: int, pen: Pen) -> Strip:
    label = fit(DIALS[name].label, _LABEL) if name in DIALS else f"{name}  "
    cursor = (pen.glyphs.cursor if here else " ", "accent")
    return pen.row(cells, cursor, (" " + label, "strong" if here else "text"), *spans, selected=here, link=link)


def _described(name: str, lines: Iterable[str], cells: int, pen: Pen) -> list[Row]:
    head = [(name, "accent"), (f"  {reach(name, '; ')}" if name in DIALS else "", "text")]
    return [[(pen.glyphs.frame[4] * cells, "rule")], head, *([(line, "dim")] for line in lines)]


def render_what_if(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: every knob with its recorded value and the value to simulate, and a description."""
    cells, rows = pen.body_size(width, height)
    what_if = view.what_if
    described = _ABOUT_WHAT_IF + (len(what_if.bases) > 1) if rows >= 4 * _ABOUT_WHAT_IF else 0
    groups = [*GROUPS, ("Provider and agents", QUESTIONS)]
    if others := [name for name in what_if.names if name not in KNOBS and name not in QUESTIONS]:
        groups.append(("Others, not while a proxy runs", tuple(others)))

    def row(name: str) -> Strip:
        link = call("app.pick_setting", name)
        return _row(name, name == what_if.name, _change(name, what_if, pen), link, cells, pen)

    body: list[Strip | Row] = [*_listed(groups, what_if.names, what_if.name, row, cells, rows - described, pen)]
    body += _about(what_if, cells, pen) if described else []
    changed = len(what_if.changes)
    note = f"{short_count(changed)} changed" if changed else "as recorded"
    return pen.frame("What if", join(note, "enter simulates"), body, width, height)


def _change(name: str, what_if: WhatIf, pen: Pen) -> list[Span]:
    change = next((each for each in what_if.changes if each.name == name), None)
    if name not in KNOBS:
        return [(value_text(change.value) if change is not None else "", "accent")]
    value, arrow = what_if.value(name), f" {pen.glyphs.arrow} "
    wanted = f"{arrow}{shown_value(name, value)}" if change is not None and value is not None else ""
    recorded = fit(_recorded(name, what_if), _VALUE, ">")
    return [(recorded, "dim" if wanted else "strong"), (fit(wanted, _VALUE + len(arrow)), "accent")]


def _recorded(name: str, what_if: WhatIf) -> str:
    """Return the recorded value, or those of all upstreams where they differ: `5, 10`, `400k, 2M`, `3 values`."""
    found = list(dict.fromkeys(base[name] for base in what_if.bases.values() if name in base))
    if not found:
        return NOTHING
    texts = [", ".join(shown_value(name, value) for value in found)]
    texts.append(", ".join("none" if not value else count(value) if value >= 1000 else f"{value:g}" for value in found))
    return next((text for text in texts if len(text) <= _VALUE), f"{len(found)} values")


def _by_upstream(name: str, what_if: WhatIf, cells: int, pen: Pen) -> str:
    """Return what the knob is at each upstream, and will be: `anthropic 5 → 7, openai 10 → 7`."""
    wanted = what_if.knobs.get(name)
    will = "" if wanted is None else f" {pen.glyphs.arrow} {shown_value(name, wanted)}"
    each = [
        f"{clean(upstream)} {shown_value(name, base[name]) if name in base else NOTHING}{will}"
        for upstream, base in what_if.bases.items()
    ]
    text = ", ".join(each)
    return text if cell_len(text) <= cells else f"{len(each)} upstreams{will}: {_recorded(name, what_if)}"


def _about(what_if: WhatIf, cells: int, pen: Pen) -> list[Row]:
    name = what_if.name
    if is_question(name):
        asks = meaning_of(name)
        return _described(name, (asks.means, f": takes {asks}"), cells, pen)
    if name not in KNOBS:
        resets = ": takes another value, and resets it (as recorded)"
        return _described(name, ("takes effect when a proxy starts", resets), cells, pen)
    times = 0 if what_if.summary is None else what_if.summary.turned.get(name, 0)
    turned = f"; tuned {short_plural(times, 'time')} in the recording" if times else ""
    how = f"left right {step(name)}; : takes a value"
    lines = [DIALS[name].meaning + turned]
    if len(what_if.bases) > 1:
        lines.append(_by_upstream(name, what_if, cells, pen))
    return _described(name, (*lines, how), cells, pen)
