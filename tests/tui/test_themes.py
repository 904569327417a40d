"""Colours: named in one place, readable on their ground, told apart by all eyes, and the same roles in every theme."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color
from textual.theme import Theme
from tui.colours import EYES, difference, nearest, ratio, reduced, seen

import hivemind_styles
import hivemind_tui
from hivemind_styles import THEME_NAMES
from hivemind_styles.themes import COLORBLIND, CONTRAST, CONTRAST_LIGHT, MONO, SIXTEEN, THEMES
from hivemind_tui.render.pen import ROLES

_HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
RICH = [theme for theme in THEMES if not theme.ansi]
BARE = [SIXTEEN, MONO]
STATES = ("ok", "wait", "bad", "recover", "info")
SHADES: dict[str, Callable[[Color], Color]] = {"as named": lambda colour: colour, "of 256 colours": reduced}


def by_name(theme: Theme) -> str:
    return theme.name


def states(theme: Theme) -> dict[str, Color]:
    return {state: Color.parse(theme.variables[f"state-{state}"]) for state in STATES}


def pairs(theme: Theme) -> list[tuple[str, str]]:
    """Each text colour with each ground it stands on."""
    assert theme.background is not None
    assert theme.panel is not None
    texts = [theme.variables[variable] for role, (variable, _) in ROLES.items() if role != "rule"]
    grounds = [theme.background, theme.panel]
    selected, bar = theme.variables.get("ink-selected"), theme.variables["ink-selection"]
    return [*product(texts, grounds), *(product(texts, [bar]) if selected is None else [(selected, bar)])]


@pytest.mark.parametrize("shades", SHADES)
@pytest.mark.parametrize("theme", RICH, ids=by_name)
def test_text_can_be_read(theme: Theme, shades: str) -> None:
    """Every text colour has a contrast of at least 4.5 on the ground, on panels and on a selected row, also where Rich
    reduces all of them to the nearest of 256."""
    shade = SHADES[shades]
    for text, ground in pairs(theme):
        contrast = ratio(shade(Color.parse(text)), shade(Color.parse(ground)))
        assert contrast >= 4.5, f"{text} on {ground}: {contrast:.1f}"


@pytest.mark.parametrize("theme", [CONTRAST, CONTRAST_LIGHT], ids=by_name)
def test_high_contrast_is_high(theme: Theme) -> None:
    """In the high contrast themes it is at least 7, lines can be seen (3), and a selected row is the reverse."""
    for text, ground in pairs(theme):
        assert ratio(Color.parse(text), Color.parse(ground)) >= 7, f"{text} on {ground}"
    screen = Color.parse(theme.background or "")
    assert ratio(Color.parse(theme.variables["ink-rule"]), screen) >= 3
    assert ratio(Color.parse(theme.variables["ink-selection"]), screen) >= 15


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", RICH, ids=by_name)
def test_states_can_be_told_apart(theme: Theme, eyes: str) -> None:
    """Any two states differ for every kind of eyes; in the theme made for it, by about twice as much."""
    apart, which = nearest(states(theme), eyes)
    assert apart >= (15 if theme is COLORBLIND else 8), f"{which}: {apart:.1f}"


@pytest.mark.parametrize("theme", RICH, ids=by_name)
def test_a_selected_row_is_seen(theme: Theme) -> None:
    """The bar differs from the ground for every kind of eyes, also among 256 colours."""
    ground, bar = Color.parse(theme.background or ""), Color.parse(theme.variables["ink-selection"])
    for shade, eyes in product(SHADES.values(), EYES):
        assert difference(seen(shade(ground), eyes), seen(shade(bar), eyes)) >= 7


def test_every_theme_has_every_role() -> None:
    """Themes have the same variables, all that the panels draw with among them; the rest say how text is set."""
    wanted = {variable for variable, _ in ROLES.values()} | {"ink-selection"}
    for theme in THEMES:
        ours = {name: value for name, value in theme.variables.items() if name.startswith(("ink-", "state-"))}
        extra = set(ours) - wanted - {"ink-selected"}
        assert wanted <= set(ours)
        assert {name.removesuffix("-style") for name in extra} <= wanted
        assert all(Style.parse(ours[name]) for name in extra)


@pytest.mark.parametrize("theme", BARE, ids=by_name)
def test_bare_themes_use_the_terminals_own_colours(theme: Theme) -> None:
    """Nothing is painted on a ground, text has the terminal's own colour, and a selected row is reversed."""
    named: list[str | None] = [value for name, value in theme.variables.items() if not name.endswith("-style")]
    named += [theme.primary, theme.secondary, theme.accent, theme.warning, theme.error, theme.success]
    # Yellow, blue, black, white and the bright ones are close to some palette's black or white.
    fit = {"ansi_default"} | ({"ansi_red", "ansi_green", "ansi_magenta", "ansi_cyan"} if theme is SIXTEEN else set())
    assert set(named) <= fit
    assert {theme.background, theme.panel, theme.surface, theme.variables["ink-selection"]} == {"ansi_default"}
    assert Style.parse(theme.variables["ink-selection-style"]).reverse


def test_names() -> None:
    """The list of names that needs no Textual is that of the themes."""
    assert [theme.name for theme in THEMES] == [f"hivemind-{name}" for name in THEME_NAMES]


def test_colours_are_named_in_one_place() -> None:
    """No colour stands outside the themes."""
    roots = [Path(str(hivemind_styles.__file__)).parent, Path(str(hivemind_tui.__file__)).parent]
    files = [path for root in roots for path in root.rglob("*") if path.suffix in (".py", ".tcss")]
    assert len(files) > 20
    assert [path.name for path in files if path.name != "themes.py" and _HEX.search(path.read_text("utf-8"))] == []
