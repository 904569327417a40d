"""Bindings made from the table of keys, and which keys and actions apply where."""

from __future__ import annotations

from ast import literal_eval

from textual.binding import Binding

from hivemind_tui.keys.table import KEYS, Key
from hivemind_tui.state.view import View

_TEXTUALS = frozenset({"quit", "lane", "lane_back", "repaint", "palette"})
"""Keys to which Textual would give a meaning of its own."""


def bindings() -> list[Binding]:
    """Return an app's BINDINGS."""
    return [
        Binding(key.keys, key.action, key.help, id=f"hivemind.{key.id}", show=False, priority=key.id in _TEXTUALS)
        for key in KEYS
    ]


def here(view: View) -> list[Key]:
    """Return the keys that mean something on this page."""
    return [key for key in KEYS if key.applies(view.page, view.live) and (key.id != "demo" or view.demo)]


def applies(action: str, arguments: tuple[object, ...], page: str, live: bool = True) -> bool:
    """Return whether an action means anything on this page; one that no key has always does."""
    keys = _BY_ACTION.get((action, arguments), ())
    return not keys or any(key.applies(page, live) for key in keys)


def steers(action: str, arguments: tuple[object, ...]) -> bool:
    """Return whether an action needs a running proxy."""
    keys = _BY_ACTION.get((action, arguments), ())
    return bool(keys) and all(key.live for key in keys)


def parsed(action: str) -> tuple[str, tuple[object, ...]]:
    """Return an action's name and arguments, as the table writes it."""
    name, _, arguments = action.partition("(")
    return name, tuple(literal_eval(f"({arguments.removesuffix(')')},)")) if arguments else ()


_BY_ACTION: dict[tuple[str, tuple[object, ...]], list[Key]] = {}
for _key in KEYS:
    _BY_ACTION.setdefault(parsed(_key.action), []).append(_key)
