"""One table of keys: no key twice, every action there, footer and help made from it."""

from __future__ import annotations

from collections import Counter

from hivemind_tui import keymap
from hivemind_tui.app import ControlRoom
from hivemind_tui.dialogs import help_rows
from hivemind_tui.ink import Ink, fitting
from hivemind_tui.intents import INTENTS


def test_no_key_has_two_meanings() -> None:
    """Each key and each id stands once in the table."""
    keys = Counter(name for key in keymap.KEYS for name in key.keys.split(","))
    assert [name for name, times in keys.items() if times > 1] == []
    assert len({key.id for key in keymap.KEYS}) == len(keymap.KEYS)


def test_every_key_does_something() -> None:
    """Each action of the table is one that the screen has."""
    for key in keymap.KEYS:
        action, _, arguments = key.action.partition("(")
        assert hasattr(ControlRoom, f"action_{action}"), key.id
        if action == "tell":
            assert arguments.strip(")").split(",")[0].strip("'") in INTENTS


def test_help_lists_every_key() -> None:
    """What can be pressed can be read up."""
    text = "\n".join("".join(text for text, _ in row) for row in help_rows(Ink()))
    assert all(key.help in text and key.shown in text for key in keymap.KEYS)


def test_footer_keeps_the_most_needed_keys() -> None:
    """A narrow footer drops what is needed least, never help and quit."""
    narrow = "".join(text for text, _ in fitting(18, keymap.footer()))
    assert narrow == "? help  q quit"
    wide = "".join(text for text, _ in fitting(200, keymap.footer()))
    assert all(word in wide for word in ("priority", "ceiling", "auto/pin", "circuit", "pause", "hold agent"))
