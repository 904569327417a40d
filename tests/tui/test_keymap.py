"""One table of keys: no key twice, every action there, footer and help made from it."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.geometry import Size
from tui.worlds import world

from hivemind_tui.commands.dialogs import help_rows
from hivemind_tui.commands.intents import INTENTS
from hivemind_tui.keys.keymap import BY_ID, FOOTERS, KEYS, REPLAY_FOOTERS, footer
from hivemind_tui.render.pen import Pen, fitting
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.playback import Playback
from hivemind_tui.state.view import PAGES, View

RECORDED = Playback("journal", 0.0, 60.0, 0.0, 0.0)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("page", FOOTERS)
def test_no_key_has_two_meanings(page: str, live: bool) -> None:
    """On each page of a live screen and of a replay a key stands once in the table, and each id does anywhere."""
    keys = Counter(name for key in KEYS if key.applies(page, live) for name in key.keys.split(","))
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
    assert all(any(key.help in text and f"  {key.shown:<12}" in text for text in texts) for key in KEYS)


def test_footer_keeps_the_most_needed_keys() -> None:
    """A narrow footer drops what is needed least, never help and quit."""
    for page in ("start", *PAGES, "agent", "request", "whatif"):
        narrow = "".join(text for text, _ in fitting(18, footer(View(world(), trail=(page,)))))
        assert narrow == "? help  q quit", page


def test_every_action_stands_in_a_footer_where_it_applies() -> None:
    """On a wide terminal no command has to be remembered."""
    paired = {
        "lower",
        "more",
        "up",
        "step_down",
        "vary_down",
        "earlier",
        "event_before",
        "slower",
        "loop_to",
        "find_newer",
    }
    moving = {"page_up", "page_down", "first", "last", "leap_up", "leap_down", "lane_back", "reverse", "mark_all"}
    moving |= {"vary_far_up", "vary_far_down", "far_later", "far_earlier", "notable_before", "begin", "finish"}
    moving |= {"first_row", "last_row"}
    rest = {key for footers in (FOOTERS, REPLAY_FOOTERS) for keys in footers.values() for key in keys}
    hidden = {key.id for key in KEYS} - rest - paired - moving
    assert hidden == {"agents", "requests", "tuning", "log", "tasks", "fleet", "cost", "start", "inside", "repaint"}


def test_help_texts_fit_a_narrow_terminal() -> None:
    """In 80 columns the box and the key take eighteen."""
    assert [key.id for key in KEYS if len(key.help) > 62] == []


def test_no_letter_moves_about_here_and_kills_there() -> None:
    """A key that cuts off, drains or quits means the same on every page or nothing."""
    for name in ("stop", "drain", "quit"):
        keys = set(BY_ID[name].keys.split(","))
        assert not any(keys & set(key.keys.split(",")) for key in KEYS if key.id != name)
