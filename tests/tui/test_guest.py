"""What a guest does differently from an app that is alone in its process."""

from __future__ import annotations

import asyncio

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.css.stylesheet import Stylesheet
from textual.theme import Theme
from textual.widgets import Static

from hivemind_tui.loop.base_app import GuestApp, parse_in_turns

CSS = "Static { color: $paint; } .box { background: $ground; }"


def sheet(paint: str) -> Stylesheet:
    """Two rules with variables."""
    made = Stylesheet(variables={"paint": paint, "ground": "black"})
    made.add_source(CSS, ("", "first"))
    made.add_source("Vertical { height: 3; color: $paint; }", ("", "second"))
    made.parse()
    made.set_variables({"paint": "blue", "ground": "white"})
    return made


async def test_parsing_in_turns_comes_to_the_same() -> None:
    """The rules are those of Textual's own method, and others have their turn in between."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    at_once, in_turns = sheet("red"), sheet("red")
    at_once.reparse()
    task = asyncio.create_task(other())
    await parse_in_turns(in_turns)
    task.cancel()
    assert turns >= 2
    assert [rule.css for rule in in_turns.rules] == [rule.css for rule in at_once.rules]
    assert "color: #0000FF" in in_turns.rules[0].css


class Room(GuestApp):
    """A widget whose colours come from the theme."""

    CSS = "Static { background: $primary; }"

    def compose(self) -> ComposeResult:
        yield Vertical(Static("one"), Static("two"))


async def test_a_change_of_theme_reaches_every_widget() -> None:
    """Though they are restyled a few at a time, and also when the next theme comes before the last is through."""
    app = Room()
    for name, colour in (("red", "#ff0000"), ("green", "#00ff00"), ("blue", "#0000ff")):
        app.register_theme(Theme(name, primary=colour))
    async with app.run_test() as pilot:
        await pilot.pause()
        app.theme = "red"
        await pilot.pause()
        app.theme = "green"
        app.theme = "blue"
        await pilot.pause()
        await pilot.pause(0.05)
        assert {node.styles.background.hex for node in app.query(Static)} == {"#0000FF"}
