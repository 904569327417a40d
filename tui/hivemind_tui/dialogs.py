"""What the overlay says: the circuit menu, the question before quitting, and the help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .format import clean
from .glyphs import LEGEND, sign
from .ink import Ink, Span
from .keymap import KEYS
from .view import View

Rows = list[list[Span]]

CIRCUIT_MODES: Mapping[str, Literal["auto", "open", "closed", "probe"]] = {
    "a": "auto",
    "o": "open",
    "c": "closed",
    "h": "probe",
}
"""Keys of the circuit menu."""


def circuit_menu(view: View) -> tuple[str, Rows]:
    """Title and rows of the circuit menu; what forcing it open would touch stands beside it."""
    lane = view.lane
    flying = lane.state.active if lane else 0
    steered = "forced" if lane and lane.state.circuit_forced else "automatic"
    state = sign(lane.state.circuit).word if lane else "closed"
    name = clean(lane.state.lane) if lane else "every lane"
    return f"Circuit of {name}", [
        [(f"now {state}, {steered}", "dim")],
        [],
        _choice("a", "automatic", "errors open it, a probe closes it"),
        _choice("o", "force open", f"nothing new is sent; {_in_flight(flying)}"),
        _choice("c", "force closed", "errors don't open it any more"),
        _choice("h", "probe now", "one request tries the upstream"),
        [],
        [("any other key leaves it as it is", "dim")],
    ]


def quit_question(flying: int, queued: int, drain_s: float) -> Rows:
    """Rows of the question before quitting with requests under way."""
    waiting = f", {queued} waiting {'is' if queued == 1 else 'are'} refused" if queued else ""
    return [
        [(_in_flight(flying, drain_s) + waiting, "text")],
        [],
        _choice("y", "drain and quit", "a signal or Ctrl-C while it drains quits at once"),
        [],
        [("any other key stays", "dim")],
    ]


def help_rows(ink: Ink) -> Rows:
    """All keys by group, then what the glyphs mean."""
    rows: Rows = []
    for group in dict.fromkeys(key.group for key in KEYS):
        rows.append([(group, "title")])
        rows += [[(f"  {key.shown:<10}", "accent"), (key.help, "text")] for key in KEYS if key.group == group]
    rows.append([("glyphs", "title")])
    for state in LEGEND:
        glyph, role = ink.mark(state)
        rows.append([(f"  {glyph} {sign(state).word:<9} ", role), (sign(state).meaning, "text")])
    return rows


def _choice(key: str, what: str, meaning: str) -> list[Span]:
    return [(f" {key}  ", "accent"), (f"{what:<16}", "strong"), (meaning, "dim")]


def _in_flight(flying: int, drain_s: float | None = None) -> str:
    if flying == 0:
        return "nothing is in flight"
    limit = "" if drain_s is None else f" (at most {drain_s:g} s)"
    noun, verb = ("request", "goes") if flying == 1 else ("requests", "go")
    return f"{flying} {noun} in flight {verb} on to the end{limit}"
