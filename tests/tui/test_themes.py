"""Colours: named in one place, readable on their ground, and the same roles in every theme."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import Theme

import hivemind_styles
import hivemind_tui
from hivemind_styles.themes import THEMES
from hivemind_tui.ink import ROLES

_HEX = re.compile(r"#[0-9a-fA-F]{6}\b")


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_can_be_read(theme: Theme) -> None:
    """Every text colour has a contrast of at least 4.5 on the ground and on a selected row."""
    assert theme.background is not None
    for role, (variable, _) in ROLES.items():
        if role == "rule":
            continue
        colour = Color.parse(theme.variables[variable])
        for ground in (theme.background, theme.variables["ink-selection"]):
            contrast = ratio(colour, Color.parse(ground))
            assert contrast >= 4.5, f"{role} {colour.hex} on {ground}: {contrast:.1f}"


def ratio(one: Color, other: Color) -> float:
    """Contrast as WCAG 2 defines it."""

    def luminance(colour: Color) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_theme_has_every_role() -> None:
    """Themes have the same variables, all that the panels draw with among them."""
    wanted = {variable for variable, _ in ROLES.values()} | {"ink-selection"}
    assert all(set(theme.variables) == wanted for theme in THEMES)


def test_colours_are_named_in_one_place() -> None:
    """No colour stands outside the themes."""
    roots = [Path(str(hivemind_styles.__file__)).parent, Path(str(hivemind_tui.__file__)).parent]
    files = [path for root in roots for path in root.rglob("*") if path.suffix in (".py", ".tcss")]
    assert len(files) > 20
    assert [path.name for path in files if path.name != "themes.py" and _HEX.search(path.read_text("utf-8"))] == []
