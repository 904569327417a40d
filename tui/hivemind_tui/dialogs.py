"""What the overlay says: menus, questions before something is lost, and the help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from hivemind.settings.write import Draft
from hivemind.snapshot import AgentView, TicketView

from .format import clean, count, plural
from .glyphs import LEGEND, sign
from .ink import Ink, Span
from .keymap import KEYS, here
from .view import View

Rows = list[list[Span]]

CIRCUIT_MODES: Mapping[str, Literal["auto", "open", "closed", "probe"]] = {
    "a": "auto",
    "o": "open",
    "c": "closed",
    "h": "probe",
}
"""Keys of the circuit menu."""
_NAMED = 6
"""Agents that a question names; the others are counted."""


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


def drain_question(view: View) -> Rows:
    """Rows of the question before draining while the proxy stays."""
    queued = view.snapshot.queued
    waiting = (
        f"{plural(queued, 'request')} waiting {'is' if queued == 1 else 'are'} refused" if queued else "nobody waits"
    )
    return [
        [(f"{waiting}; {_in_flight(len(view.snapshot.slots))}", "text")],
        [("Whoever comes is told to try again in a few seconds, until D takes requests again.", "dim")],
        [],
        _choice("y", "drain", ""),
        [],
        [("any other key leaves it as it is", "dim")],
    ]


def stop_question(view: View, agents: Sequence[AgentView]) -> Rows:
    """Rows of the question before agents are cut off: what exactly is lost."""
    names = {agent.name for agent in agents}
    flying = [ticket for ticket in view.snapshot.slots if ticket.agent in names]
    waiting = sum(agent.queued for agent in agents)
    shown = ", ".join(clean(agent.name) for agent in agents[:_NAMED])
    more = f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else ""
    return [
        [(shown + more, "strong")],
        [(_cut(flying), "bad" if flying else "text")],
        [(f"{plural(waiting, 'waiting request')} refused" if waiting else "nothing of it waits", "text")],
        [("What comes later is refused too, until x lets it ask again.", "dim")],
        [],
        _choice("y", "stop", ""),
        [],
        [("any other key leaves it at work", "dim")],
    ]


def _cut(flying: Sequence[TicketView]) -> str:
    if not flying:
        return "nothing of it is in flight"
    tokens = sum(ticket.output_tokens for ticket in flying)
    lost = f", {count(tokens)} tokens already answered are lost" if tokens else ""
    return f"{plural(len(flying), 'request')} in flight {'is' if len(flying) == 1 else 'are'} cut{lost}"


def write_question(draft: Draft) -> Rows:
    """Rows of the look at the difference before it is written."""
    colours = {"+": "ok", "-": "bad", "@": "dim"}
    lines: Rows = [[(line.rstrip("\n"), colours.get(line[:1], "text"))] for line in draft.diff]
    return [
        [(str(draft.path), "strong")],
        [],
        *lines,
        [],
        _choice("y", "write it", "as settings of every upstream, from the next start on"),
        [],
        [("any other key leaves the file as it is", "dim")],
    ]


def help_rows(ink: Ink, page: str = "") -> Rows:
    """The keys that mean something on this page (all where none is named) by group, then what the glyphs mean."""
    rows: Rows = []
    keys = here(page) if page else list(KEYS)
    for group in dict.fromkeys(key.group for key in keys):
        rows.append([(group, "title")])
        rows += [[(f"  {key.shown:<12}", "accent"), (key.help, "text")] for key in keys if key.group == group]
    rows.append([("glyphs", "title")])
    for state in LEGEND:
        glyph, role = ink.mark(state)
        rows.append([(f"  {glyph} {sign(state).word:<11} ", role), (sign(state).meaning, "text")])
    return rows


def _choice(key: str, what: str, meaning: str) -> list[Span]:
    return [(f" {key}  ", "accent"), (f"{what:<16}", "strong"), (meaning, "dim")]


def _in_flight(flying: int, drain_s: float | None = None) -> str:
    if flying == 0:
        return "nothing is in flight"
    limit = "" if drain_s is None else f" (at most {drain_s:g} s)"
    noun, verb = ("request", "goes") if flying == 1 else ("requests", "go")
    return f"{flying} {noun} in flight {verb} on to the end{limit}"
