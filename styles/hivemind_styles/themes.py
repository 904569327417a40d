"""The control room's themes. Every colour of the product is named here and nowhere else.

State colours began as Okabe and Ito's palette (https://jfly.uni-koeln.de/color/) and were moved until each can be read
on every ground it stands on, and until each two of them stay apart for people who see two of the three primaries.
`hivemind-colorblind` keeps them furthest apart; the others spend some of that on calm. What "apart" means is in the
tests.

Variables: `ink-*` and `state-*` are the roles that panels draw with (`hivemind_tui/render/pen.py`); a `-style` beside
one has its attributes, where colour alone can't; `ink-selected` replaces every colour of a selected row.
"""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

_COLOURS = {
    # variable          dark       light      contrast   c.-light   colorblind
    "background": ("#11151c", "#fbfbf8", "#000000", "#ffffff", "#0d1016"),
    "surface": ("#171c25", "#f6f6f2", "#000000", "#ffffff", "#12161d"),
    "panel": ("#1e242e", "#f2f2f0", "#161616", "#f0f0f0", "#181d26"),
    "accent": ("#f0e442", "#703800", "#fff04d", "#5c2a00", "#f7ee3e"),
    "ink-text": ("#d7dae0", "#1c2430", "#ffffff", "#000000", "#dfe2e8"),
    "ink-dim": ("#95a0b3", "#555f6c", "#c4c4c4", "#404040", "#98a2b3"),
    "ink-rule": ("#3a4556", "#c2c7cf", "#8a8a8a", "#767676", "#3d4655"),
    "ink-title": ("#8fd0ff", "#005a8d", "#a5d8ff", "#00285f", "#a3cdfb"),
    "ink-accent": ("#f0e442", "#703800", "#fff04d", "#5c2a00", "#ffffff"),
    "ink-selection": ("#232e4c", "#dae7fa", "#ffffff", "#000000", "#1a2b4f"),
    "ink-selected": ("", "", "#000000", "#ffffff", ""),
    "state-ok": ("#35d0a5", "#04654d", "#2ee6b0", "#03583b", "#4cf0bd"),
    "state-wait": ("#ffb62e", "#725800", "#ffd11e", "#664a00", "#f7ee3e"),
    "state-bad": ("#f2764a", "#800814", "#ff8650", "#6a0010", "#e8803f"),
    "state-recover": ("#eeb8f2", "#6c2a86", "#fcc4ff", "#691964", "#f7bff5"),
    "state-info": ("#5b9fe0", "#0067b8", "#5cb0ff", "#122f9e", "#3a96f7"),
}


def _theme(name: str, index: int, *, dark: bool = True) -> Theme:
    """Return the theme of one column of the table."""
    colours = {role: colour for role, row in _COLOURS.items() if (colour := row[index])}
    return Theme(
        name=f"hivemind-{name}",
        primary=colours["state-info"],
        secondary=colours["state-ok"],
        accent=colours["accent"],
        warning=colours["state-wait"],
        error=colours["state-bad"],
        success=colours["state-ok"],
        foreground=colours["ink-text"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        dark=dark,
        variables={role: colour for role, colour in colours.items() if "-" in role},
    )


_KNOWN = {
    # variable         catppuccin-mocha  -latte     gruvbox    nord       tokyo-night
    "background": ("", "", "", "#2f343f", ""),
    "panel": ("#242534", "#eaedf2", "#32302f", "#353b46", "#1f2130"),
    "ink-text": ("", "#353749", "", "", ""),
    "ink-dim": ("#9195ac", "#484b63", "#aaa48a", "#a5abb6", "#8d94b3"),
    "ink-rule": ("#45475a", "#bcc0cc", "#504945", "#4c566a", "#414868"),
    "ink-selection": ("#312b42", "#ded3f4", "#0f0f0f", "#191c22", "#272d43"),
    "state-ok": ("#98d37e", "#056c40", "#b8bb1e", "#a1bd94", "#b6ed67"),
    "state-wait": ("#f9e2af", "#725a00", "#ffcd68", "#eaca8b", "#e0af68"),
    "state-bad": ("#f38ba8", "#bc0042", "#f47356", "#ec8d71", "#f7768e"),
    "state-recover": ("#cea9fb", "#721cf8", "#d3869b", "#be9cb3", "#c09dfe"),
    "state-info": ("#83a7cd", "#225ab9", "#87a37c", "#81a9d2", "#7c9fcc"),
}
"""Themes that many terminals and editors have, as Textual has them, where no colour is given. Their own reds and greens
are too close for some eyes and too faint on some grounds; those here are the nearest that aren't."""


def _known_theme(name: str, index: int) -> Theme:
    own = BUILTIN_THEMES[name]
    colours = {role: row[index] for role, row in _KNOWN.items() if row[index]}
    assert own.background is not None
    assert own.foreground is not None
    text = colours.setdefault("ink-text", own.foreground.lower())
    colours |= {"ink-title": colours["state-info"], "ink-accent": colours["state-wait"]}
    background = colours.get("background", own.background.lower())
    return Theme(
        name=f"hivemind-{name}",
        primary=colours["state-info"],
        secondary=colours["state-ok"],
        accent=colours["ink-accent"],
        warning=colours["state-wait"],
        error=colours["state-bad"],
        success=colours["state-ok"],
        foreground=text,
        background=background,
        surface=background,
        panel=colours["panel"],
        dark=own.dark,
        variables={role: colour for role, colour in colours.items() if "-" in role},
    )


_OWN = "ansi_default"
_OWN_COLOURS = {
    **dict.fromkeys(("ansi-background", "ansi-foreground", "border", "border-blurred"), _OWN),
    **dict.fromkeys((role for role in _COLOURS if "-" in role), _OWN),
    "input-selection-background": _OWN,
    "ink-dim-style": "dim",
    "ink-rule-style": "dim",
    "ink-selection-style": "reverse not bold not dim",
}
"""What the terminal's own two colours draw, and what Textual wants of a theme that uses them."""


def _ansi_theme(name: str, *, ok: str, wait: str, bad: str, recover: str, **styles: str) -> Theme:
    """Return a theme in the terminal's own two colours, but for these states."""
    states = {"state-ok": ok, "state-wait": wait, "state-bad": bad, "state-recover": recover}
    return Theme(
        name=f"hivemind-{name}",
        ansi=True,
        primary=recover,
        secondary=recover,
        accent=_OWN,
        warning=wait,
        error=bad,
        success=ok,
        foreground=_OWN,
        background=_OWN,
        surface=_OWN,
        panel=_OWN,
        variables={**_OWN_COLOURS, **states, **styles},
    )


DARK = _theme("dark", 0)
LIGHT = _theme("light", 1, dark=False)
CONTRAST = _theme("contrast", 2)
CONTRAST_LIGHT = _theme("contrast-light", 3, dark=False)
COLORBLIND = _theme("colorblind", 4)
SIXTEEN = _ansi_theme("16", ok="ansi_green", wait="ansi_magenta", bad="ansi_red", recover="ansi_cyan")
"""For terminals of 16 colours, whose background and palette are unknown: text keeps the terminal's own colour, and
states have the four colours that most palettes keep legible on black and on white. Bright black, the obvious grey, is
invisible in some palettes; faint is at worst not faint."""
MONO = _ansi_theme(
    "mono",
    ok=_OWN,
    wait=_OWN,
    bad=_OWN,
    recover=_OWN,
    **{"state-wait-style": "bold", "state-bad-style": "bold underline"},
)
"""No colour at all: bold, faint and reversed."""

KNOWN = tuple(
    _known_theme(name, index)
    for index, name in enumerate(("catppuccin-mocha", "catppuccin-latte", "gruvbox", "nord", "tokyo-night"))
)

THEMES = (DARK, LIGHT, CONTRAST, CONTRAST_LIGHT, COLORBLIND, *KNOWN, SIXTEEN, MONO)
