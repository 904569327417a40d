"""What the environment says about the terminal, and that the screen can be read with few colours and with none."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.pilot import Pilot
from tui.kit import press, screen
from tui.worlds import FakeSource, world

from hivemind.errors import UsageError
from hivemind.settings.load import from_environment
from hivemind_styles import THEME_NAMES
from hivemind_tui.program import preferences
from hivemind_tui.render import capabilities, glyphs
from hivemind_tui.render.capabilities import coloured, colours, first_theme, prepare, themes_for

ENVIRONMENTS: dict[str, tuple[dict[str, str], str]] = {
    "nothing known": ({}, "dark"),
    "true colour": ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "dark"),
    "true colour, plain name": ({"TERM": "foot", "COLORTERM": "24bit"}, "dark"),
    "256": ({"TERM": "screen-256color"}, "dark"),
    "kitty": ({"TERM": "xterm-kitty"}, "dark"),
    "light ground": ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "light"),
    "light grey ground": ({"TERM": "rxvt-256color", "COLORFGBG": "0;default;7"}, "light"),
    "dark ground": ({"TERM": "xterm-256color", "COLORFGBG": "15;0"}, "dark"),
    "no word of the ground": ({"TERM": "xterm-256color", "COLORFGBG": "15;default"}, "dark"),
    "sixteen": ({"TERM": "xterm"}, "16"),
    "sixteen by name": ({"TERM": "xterm-16color", "COLORTERM": ""}, "16"),
    "screen": ({"TERM": "screen", "COLORFGBG": "0;15"}, "16"),
    "linux console": ({"TERM": "linux"}, "16"),
    "forced": ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "standard"}, "16"),
    "a terminal without colours": ({"TERM": "vt100"}, "mono"),
    "no colour": ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "mono"),
    "no colour, whatever the theme": ({"HIVEMIND_THEME": "light", "NO_COLOR": "yes"}, "mono"),
    "an empty wish": ({"TERM": "xterm-256color", "NO_COLOR": ""}, "dark"),
    "asked for": ({"TERM": "xterm-256color", "HIVEMIND_THEME": "contrast-light"}, "contrast-light"),
    "asked for in full": ({"TERM": "xterm", "HIVEMIND_THEME": "hivemind-colorblind"}, "colorblind"),
    "asked for nothing": ({"TERM": "xterm", "HIVEMIND_THEME": ""}, "16"),
}


@pytest.mark.parametrize(("environment", "name"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_first_theme(environment: dict[str, str], name: str) -> None:
    """The one asked for where it can be shown; else what fits the terminal's colours and its ground."""
    assert first_theme(environment) == f"hivemind-{name}"
    assert themes_for(environment)[0] == first_theme(environment)


def test_themes_that_can_be_chosen() -> None:
    """All of them where there are colours enough, else those made of the terminal's own; each once."""
    every = {f"hivemind-{name}" for name in THEME_NAMES}
    assert set(themes_for({"TERM": "xterm-256color"})) == every
    assert len(themes_for({"TERM": "xterm-256color", "HIVEMIND_THEME": "contrast"})) == len(every)
    assert themes_for({"TERM": "xterm"}) == ("hivemind-16", "hivemind-mono")
    assert themes_for({"TERM": "xterm", "HIVEMIND_THEME": "dark"}) == ("hivemind-dark", "hivemind-16", "hivemind-mono")
    assert themes_for({"NO_COLOR": "1"}) == ("hivemind-mono",)


@pytest.mark.parametrize("term", ["xterm", "xterm-256color", "screen", "xterm-kitty", "xterm-16color", "linux", "foot"])
@pytest.mark.parametrize("colorterm", ["", "truecolor", "24bit", "yes"])
def test_rich_counts_the_same_colours(term: str, colorterm: str) -> None:
    """The theme is chosen by the number of colours that Rich will really write."""
    environment = {"TERM": term, "COLORTERM": colorterm}
    system = Console(force_terminal=True, _environ=environment).color_system
    assert {"standard": 16, "256": 256, "truecolor": 1 << 24}[str(system)] == colours(environment)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"HIVEMIND_THEME": "drak"},
            f"HIVEMIND_THEME (environment): must be one of {', '.join(THEME_NAMES)}, not 'drak'",
        ),
        ({"HIVEMIND_GLYPHS": "emoji"}, "HIVEMIND_GLYPHS (environment): must be unicode or ascii, not 'emoji'"),
    ],
)
def test_what_there_isnt(environment: dict[str, str], message: str) -> None:
    """A wrong word is one line that says what would be right, before the screen is built."""
    with pytest.raises(UsageError) as told:
        prepare(environment)
    assert str(told.value) == message


def test_an_empty_wish_for_no_colour_is_none() -> None:
    """An empty NO_COLOR is taken out of Textual's sight; one with a value stays."""
    empty, full = {"NO_COLOR": "", "TERM": "xterm"}, {"NO_COLOR": "0"}
    prepare(empty)
    prepare(full)
    assert (empty, full) == ({"TERM": "xterm"}, {"NO_COLOR": "0"})
    assert coloured(empty)
    assert not coloured(full)


def test_how_it_looks_is_no_setting() -> None:
    """A shell that sets the theme or the file of preferences for good doesn't keep the proxy from starting."""
    named = (capabilities.VARIABLE, glyphs.VARIABLE, preferences.VARIABLE)
    assert not list(from_environment(dict.fromkeys(named, "light")))


def shown(pilot: Pilot[Any], panel: str) -> list[list[tuple[str, Style]]]:
    """The rows of a panel as they go to the terminal, filters and all."""
    app = pilot.app
    region = app.query_one(f"#{panel}").region
    rows = [strip.crop(region.x, region.right) for strip in app.screen._compositor.render_strips(app.size)]
    return [[(text, style or Style.null()) for text, style, _ in row] for row in rows[region.y : region.bottom]]


def with_text(rows: list[list[tuple[str, Style]]], text: str) -> list[Style]:
    """Styles of the row in which that text stands, its frame and scroll bar apart."""
    row = next(row for row in rows if text in "".join(part for part, _ in row))
    return [style for part, style in row if part.strip("│┃┊ ")]


def is_colour(segment: Segment) -> bool:
    style = segment.style or Style.null()
    return any(colour is not None and not colour.is_default for colour in (style.color, style.bgcolor))


async def test_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR nothing that is drawn has a colour; the selected row is reversed, troubles are bold, and nothing
    stands on another ground than it is written in."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with screen(FakeSource(world()), (160, 50), environment={"NO_COLOR": "1", "TERM": "xterm-256color"}) as pilot:
        await press(pilot, "j @theme")
        app = pilot.app
        assert app.theme == "hivemind-mono"
        for strip in app.screen._compositor.render_strips(app.size):
            assert [segment for segment in strip if is_colour(segment)] == []
        agents = shown(pilot, "agents")
        assert all(style.reverse for style in with_text(agents, "bob"))
        assert not any(style.reverse for style in with_text(agents, "alice"))
        assert any(style.bold for style in with_text(agents, "held"))
        gauges = "".join(part for row in shown(pilot, "windows") for part, _ in row)
        assert all(glyph in gauges for glyph in "━╍─")


async def test_sixteen_colours() -> None:
    """With sixteen colours nothing but the terminal's own is used, and text stands on the terminal's own ground."""
    async with screen(FakeSource(world()), (160, 45), environment={"TERM": "screen"}) as pilot:
        app = pilot.app
        assert app.theme == "hivemind-16"
        styles = [style for strip in app.screen._compositor.render_strips(app.size) for _, style, _ in strip if style]
        colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
        assert {colour.number for colour in colours if not colour.is_default} == {1, 2, 5, 6}
        assert {style.bgcolor.name for style in styles if style.bgcolor is not None} == {"default"}
