"""The control room's themes. Every colour of the product is named here and nowhere else.

State colours began as Okabe and Ito's palette (https://jfly.uni-koeln.de/color/) and were moved until each can be read
on every ground it stands on, and until each two of them stay apart for people who see two of the three primaries.
`hivemind-colorblind` keeps them furthest apart; the others spend some of that on calm. What "apart" means is in the
tests.

Variables: `ink-*` and `state-*` are the roles that panels draw with (`hivemind_tui/render/pen.py`); a `-style` beside
one has its attributes, where colour alone can't; `ink-selected` replaces every colour of a selected row.
"""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="hivemind-dark",
    primary="#5b9fe0",
    secondary="#35d0a5",
    accent="#f0e442",
    warning="#ffb62e",
    error="#f2764a",
    success="#35d0a5",
    foreground="#d7dae0",
    background="#11151c",
    surface="#171c25",
    panel="#1e242e",
    dark=True,
    variables={
        "ink-text": "#d7dae0",
        "ink-dim": "#95a0b3",
        "ink-rule": "#3a4556",
        "ink-title": "#8fd0ff",
        "ink-accent": "#f0e442",
        "ink-selection": "#232e4c",
        "state-ok": "#35d0a5",
        "state-wait": "#ffb62e",
        "state-bad": "#f2764a",
        "state-recover": "#eeb8f2",
        "state-info": "#5b9fe0",
    },
)

LIGHT = Theme(
    name="hivemind-light",
    primary="#0067b8",
    secondary="#04654d",
    accent="#703800",
    warning="#725800",
    error="#800814",
    success="#04654d",
    foreground="#1c2430",
    background="#fbfbf8",
    surface="#f6f6f2",
    panel="#f2f2f0",
    dark=False,
    variables={
        "ink-text": "#1c2430",
        "ink-dim": "#555f6c",
        "ink-rule": "#c2c7cf",
        "ink-title": "#005a8d",
        "ink-accent": "#703800",
        "ink-selection": "#dae7fa",
        "state-ok": "#04654d",
        "state-wait": "#725800",
        "state-bad": "#800814",
        "state-recover": "#6c2a86",
        "state-info": "#0067b8",
    },
)

CONTRAST = Theme(
    name="hivemind-contrast",
    primary="#5cb0ff",
    secondary="#2ee6b0",
    accent="#fff04d",
    warning="#ffd11e",
    error="#ff8650",
    success="#2ee6b0",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#161616",
    dark=True,
    variables={
        "ink-text": "#ffffff",
        "ink-dim": "#c4c4c4",
        "ink-rule": "#8a8a8a",
        "ink-title": "#a5d8ff",
        "ink-accent": "#fff04d",
        "ink-selection": "#ffffff",
        "ink-selected": "#000000",
        "state-ok": "#2ee6b0",
        "state-wait": "#ffd11e",
        "state-bad": "#ff8650",
        "state-recover": "#fcc4ff",
        "state-info": "#5cb0ff",
    },
)

CONTRAST_LIGHT = Theme(
    name="hivemind-contrast-light",
    primary="#122f9e",
    secondary="#03583b",
    accent="#5c2a00",
    warning="#664a00",
    error="#6a0010",
    success="#03583b",
    foreground="#000000",
    background="#ffffff",
    surface="#ffffff",
    panel="#f0f0f0",
    dark=False,
    variables={
        "ink-text": "#000000",
        "ink-dim": "#404040",
        "ink-rule": "#767676",
        "ink-title": "#00285f",
        "ink-accent": "#5c2a00",
        "ink-selection": "#000000",
        "ink-selected": "#ffffff",
        "state-ok": "#03583b",
        "state-wait": "#664a00",
        "state-bad": "#6a0010",
        "state-recover": "#691964",
        "state-info": "#122f9e",
    },
)

COLORBLIND = Theme(
    name="hivemind-colorblind",
    primary="#3a96f7",
    secondary="#4cf0bd",
    accent="#f7ee3e",
    warning="#f7ee3e",
    error="#e8803f",
    success="#4cf0bd",
    foreground="#dfe2e8",
    background="#0d1016",
    surface="#12161d",
    panel="#181d26",
    dark=True,
    variables={
        "ink-text": "#dfe2e8",
        "ink-dim": "#98a2b3",
        "ink-rule": "#3d4655",
        "ink-title": "#a3cdfb",
        "ink-accent": "#ffffff",
        "ink-selection": "#1a2b4f",
        "state-ok": "#4cf0bd",
        "state-wait": "#f7ee3e",
        "state-bad": "#e8803f",
        "state-recover": "#f7bff5",
        "state-info": "#3a96f7",
    },
)

_OWN_COLOURS = {
    "ansi-background": "ansi_default",
    "ansi-foreground": "ansi_default",
    "border": "ansi_default",
    "border-blurred": "ansi_default",
    "input-selection-background": "ansi_default",
    "ink-text": "ansi_default",
    "ink-dim": "ansi_default",
    "ink-dim-style": "dim",
    "ink-rule": "ansi_default",
    "ink-rule-style": "dim",
    "ink-title": "ansi_default",
    "ink-accent": "ansi_default",
    "ink-selection": "ansi_default",
    "ink-selection-style": "reverse not bold not dim",
    "ink-selected": "ansi_default",
    "state-info": "ansi_default",
}
"""What the terminal's own two colours draw, and what Textual wants of a theme that uses them."""

SIXTEEN = Theme(
    name="hivemind-16",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_cyan",
    accent="ansi_default",
    warning="ansi_magenta",
    error="ansi_red",
    success="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    variables={
        **_OWN_COLOURS,
        "state-ok": "ansi_green",
        "state-wait": "ansi_magenta",
        "state-bad": "ansi_red",
        "state-recover": "ansi_cyan",
    },
)
"""For terminals of 16 colours, whose ground and palette nobody tells us: text keeps the terminal's own colour, and
states have the four colours that most palettes keep legible on black and on white. Bright black, which would be the
obvious grey, is invisible in some; faint is at worst not faint."""

MONO = Theme(
    name="hivemind-mono",
    ansi=True,
    primary="ansi_default",
    secondary="ansi_default",
    accent="ansi_default",
    warning="ansi_default",
    error="ansi_default",
    success="ansi_default",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    variables={
        **_OWN_COLOURS,
        "state-ok": "ansi_default",
        "state-wait": "ansi_default",
        "state-wait-style": "bold",
        "state-bad": "ansi_default",
        "state-bad-style": "bold underline",
        "state-recover": "ansi_default",
    },
)
"""No colour at all: bold, faint and reversed."""

THEMES = (DARK, LIGHT, CONTRAST, CONTRAST_LIGHT, COLORBLIND, SIXTEEN, MONO)
