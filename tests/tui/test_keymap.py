"""One table of keys: no key twice, every action there, footer and help made from it."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.geometry import Size
from textual.widget import Widget
from tui.requests import requests_of
from tui.worlds import world

from hivemind.records import replace
from hivemind_tui.commands.dialogs import help_rows, page_help
from hivemind_tui.commands.intents import INTENTS
from hivemind_tui.keys.keymap import _FIRST, _TIME, BY_ID, FOOTERS, KEYS, bindings, footer
from hivemind_tui.render.pen import Pen, cells_of, fitting
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.playback import Playback
from hivemind_tui.state.view import PAGES, View

RECORDED = Playback("journal", 0.0, 60.0, 0.0, 0.0)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("page", FOOTERS)
def test_no_key_has_two_meanings(page: str, live: bool) -> None:
    """On each page of a live screen and of a replay a key stands once in the table, and each id does anywhere."""
    keys = Counter(name for key in KEYS if key.keys and key.applies(page, live) for name in key.keys.split(","))
    assert [name for name, times in keys.items() if times > 1] == []
    assert len({key.id for key in KEYS}) == len(KEYS)


def test_every_key_does_something() -> None:
    """Each action of the table is one that the screen has."""
    for key in KEYS:
        action, _, arguments = key.action.partition("(")
        assert hasattr(ReplayRoom, f"action_{action}"), key.id
        if action == "send":
            assert arguments.strip(")").split(",")[0].strip("'") in INTENTS


def test_help_lists_every_key() -> None:
    """What can be pressed can be read up."""
    views = [View(world(), trail=(page,), demo=True, playback=each) for page in FOOTERS for each in (None, RECORDED)]
    texts = [[text for row in help_rows(Pen(), view, Size(80, 24)) for text, _ in row] for view in views]
    assert all(any(key.help in text and f"  {key.shown or ':':<12}" in text for text in texts) for key in KEYS)


def test_footer_keeps_the_most_needed_keys() -> None:
    """A narrow footer drops what is needed least, never help and quit."""
    for page in ("start", *PAGES, "agent", "request", "whatif"):
        narrow = "".join(text for text, _ in fitting(18, footer(View(world(), trail=(page,)))))
        assert narrow == "? help  q quit", page


def test_there_are_at_most_sixty_bindings() -> None:
    """Over all pages of a live screen, of a recording and of what-if; no widget has any of its own. What has no key is
    in the palette, unless it only moves the cursor."""
    assert sum(len(binding.key.split(",")) for binding in bindings()) <= 60
    own = [
        kind for kind in every_kind(Widget) if kind.__module__.startswith("hivemind_tui") and "BINDINGS" in vars(kind)
    ]
    assert own == []
    assert [key.id for key in KEYS if not key.keys and not key.listed] == []


def every_kind(kind: type[Widget]) -> set[type[Widget]]:
    """All classes below this one."""
    return {each for below in kind.__subclasses__() for each in (below, *every_kind(below))}


def test_every_key_stands_in_a_footer_where_it_applies() -> None:
    """On a wide terminal no key has to be remembered, but for those of pages and those that a pair stands for."""
    paired = {"lower", "more", "up", "turn_down", "slower", "find_newer"}
    moving = {"page_up", "page_down", "first", "last"}
    listed = {*_FIRST, *_TIME, "palette"} | {key for keys in FOOTERS.values() for key in keys}
    hidden = {key.id for key in KEYS if key.keys} - listed - paired - moving
    assert hidden == {"agents", "requests", "tuning", "log", "tasks", "fleet", "start"}


def test_help_texts_fit_a_narrow_terminal() -> None:
    """In 80 columns the box and the key take eighteen."""
    assert [key.id for key in KEYS if len(key.help) > 62] == []


def test_no_letter_moves_about_here_and_kills_there() -> None:
    """A key that cuts off, drains or quits means the same on every page or nothing."""
    for name in ("stop", "drain", "quit"):
        keys = set(BY_ID[name].keys.split(","))
        assert not any(keys & set(key.keys.split(",")) for key in KEYS if key.id != name)


@pytest.mark.parametrize("page", [page for page in FOOTERS if page != "fleet"])
def test_the_help_of_a_page_is_one_screen(page: str) -> None:
    """At 80x24, with the keys that do something and the signs of what it shows; the rest stands behind it."""
    view = View(world(), trail=(page,), requests=requests_of(world(), 60))
    rows = page_help(Pen(), view, Size(80, 24))
    assert len(rows) <= 22
    assert max(map(cells_of, rows)) <= 76
    words = "".join(text for row in rows for text, _ in row)
    pages = ("overview", "agents", "requests", "tuning", "log", "tasks", "fleet", "cost")
    assert [name for number, name in enumerate(pages, 1) if f"{number} {name}" not in words] == []
    replayed = "".join(
        text for row in page_help(Pen(), replace(view, playback=RECORDED), Size(80, 24)) for text, _ in row
    )
    assert [name for number, name in enumerate(pages, 1) if f"{number} {name}" not in replayed] == ["fleet"]
    assert ("the answer is arriving" in words) == (page in ("overview", "agents", "agent", "requests", "request"))
    assert "the agent got an error" not in words or page in ("requests", "request")
