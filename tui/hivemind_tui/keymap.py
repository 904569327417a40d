"""Every key, once: bindings, footer and help are made from this table."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding

from .ink import Span


@dataclass(frozen=True, slots=True)
class Key:
    """One thing the operator can do."""

    id: str
    keys: str
    """Textual's names, separated by commas."""
    shown: str
    """As people write it."""
    action: str
    short: str
    """In the footer; empty: only in the help."""
    help: str
    group: str


KEYS = (
    Key("help", "question_mark", "?", "help", "help", "keys and glyphs", "screen"),
    Key("raise", "plus,equals_sign", "+", "tell('priority', -1)", "", "raise the selected agent's priority", "agent"),
    Key("lower", "minus", "-", "tell('priority', 1)", "", "lower it", "agent"),
    Key("hold", "K", "K", "tell('hold')", "hold agent", "hold its requests, or let them go", "agent"),
    Key("down", "j,down", "j", "move(1)", "", "next agent (or down arrow)", "agent"),
    Key("up", "k,up", "k", "move(-1)", "", "previous agent (or up arrow)", "agent"),
    Key("first", "g,home", "g", "edge(0)", "", "first agent", "agent"),
    Key("last", "G,end", "G", "edge(-1)", "", "last agent", "agent"),
    Key("less", "left_square_bracket", "[", "tell('ceiling', -1)", "", "lower the concurrency ceiling", "lane"),
    Key("more", "right_square_bracket", "]", "tell('ceiling', 1)", "", "raise it", "lane"),
    Key("pin", "a", "a", "tell('pin')", "auto/pin", "pin the level where it is, or give it back to AIMD", "lane"),
    Key("circuit", "c", "c", "circuit", "circuit", "steer the circuit: automatic, open, closed, probe now", "lane"),
    Key("release", "r", "r", "tell('release')", "", "end a pause that the provider asked for", "lane"),
    Key("lane", "tab", "tab", "lane(1)", "", "next lane", "lane"),
    Key("lane_back", "shift+tab", "shift+tab", "lane(-1)", "", "previous lane", "lane"),
    Key("pause", "p", "p", "tell('pause')", "pause", "pause or resume admissions; streams go on", "traffic"),
    Key("quit", "q,ctrl+q,ctrl+c", "q", "leave", "quit", "drain and quit", "traffic"),
    Key("freeze", "space", "space", "freeze", "freeze view", "freeze the view; the traffic goes on", "screen"),
    Key("theme", "t", "t", "theme", "theme", "next theme", "screen"),
    Key("repaint", "ctrl+l", "ctrl+l", "repaint", "", "repaint everything", "screen"),
)

_FOOTER_PAIRS = {
    "raise": ("+ -", "priority"),
    "less": ("[ ]", "ceiling"),
    "down": ("j k", "select"),
}
"""Keys that stand together in the footer, under one word."""

_FOOTER_ORDER = ("help", "quit", "raise", "less", "pin", "circuit", "pause", "hold", "freeze", "down", "theme")
"""The most needed first: a narrow footer drops the last."""


def bindings() -> list[Binding]:
    """For an app's BINDINGS."""
    return [
        Binding(key.keys, key.action, key.help, id=f"hivemind.{key.id}", show=False, priority=key.id in _ALWAYS)
        for key in KEYS
    ]


_ALWAYS = frozenset({"quit", "lane", "lane_back", "repaint"})
"""Keys to which Textual would give a meaning of its own."""


def footer() -> list[tuple[int, list[Span]]]:
    """Chunks for :func:`hivemind_tui.ink.fitting`."""
    table = {key.id: key for key in KEYS}
    chunks: list[tuple[int, list[Span]]] = []
    for rank, name in enumerate(_FOOTER_ORDER):
        shown, short = _FOOTER_PAIRS.get(name, (table[name].shown, table[name].short))
        chunks.append((rank, [(shown, "accent"), (f" {short}", "dim")]))
    return chunks
