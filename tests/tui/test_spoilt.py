"""A screen of a proxy elsewhere, which says whatever it likes: it is drawn as text, in its place."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from tui.graph import processes
from tui.kit import press, screen, whole_screen
from tui.worlds import FakeSource, busy_source

EVIL = "\x1b]0;x\x07\x1b[2J\r\x9b31m\u202e\u200b\x00\n\t界[/]"
KEPT = frozenset({"state", "mode", "gate", "kind", "per", "covers", "level", "circuit", "cause", "outcome", "phase"})
"""Fields with values of a few kinds."""
KEYS = ("2 enter j", "escape 3 j enter", "escape 4", "5", "6 j", "0", "1 x", "escape : a g", "escape 2 y")
"""To pages, a question, the palette and a note."""


def spoilt(value: Any, key: str = "") -> Any:
    """The same with worse texts."""
    if isinstance(value, str):
        return value if key in KEPT else value + EVIL
    if isinstance(value, Struct):
        made = {name: spoilt(getattr(value, name), name) for name in value.__struct_fields__}
        return replace(value, **made)
    if isinstance(value, tuple):
        return tuple(spoilt(each, key) for each in value)
    return value


async def test_nothing_a_terminal_obeys() -> None:
    """No page, question or note holds a control or direction character, and every row is as wide as the screen."""
    busy = busy_source()
    snapshot = replace(busy.snapshot(), tasks=processes().tasks)
    source = FakeSource(spoilt(snapshot), requests=spoilt(busy.remembered), reject=f"no {EVIL}")
    async with screen(source, size=(100, 30)) as pilot:
        for keys in KEYS:
            await press(pilot, keys)
            strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
            assert {strip.cell_length for strip in strips} == {100}, keys
            text = whole_screen(pilot)
            assert "".join(letter for letter in text if letter != "\n" and not letter.isprintable()) == "", keys
