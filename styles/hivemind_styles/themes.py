"""The control room's themes. Every colour of the product is named here and nowhere else.

State colours follow Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), which people with any kind of colour
vision can tell apart, lightened or darkened until each has a contrast of at least 4.5 on its background.
"""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="hivemind-dark",
    primary="#56b4e9",
    secondary="#009e73",
    accent="#f0e442",
    warning="#e69f00",
    error="#ff7a45",
    success="#2fc79a",
    foreground="#d7dae0",
    background="#11151c",
    surface="#171c25",
    panel="#1e2530",
    dark=True,
    variables={
        "ink-text": "#d7dae0",
        "ink-dim": "#95a0b3",
        "ink-rule": "#3a4556",
        "ink-title": "#8fd0ff",
        "ink-accent": "#f0e442",
        "ink-selection": "#243246",
        "state-ok": "#2fc79a",
        "state-wait": "#e69f00",
        "state-bad": "#ff7a45",
        "state-recover": "#cc9ae0",
        "state-info": "#56b4e9",
    },
)

LIGHT = Theme(
    name="hivemind-light",
    primary="#0072b2",
    secondary="#00694d",
    accent="#8a4b00",
    warning="#8f5902",
    error="#b03a00",
    success="#00694d",
    foreground="#1c2430",
    background="#fbfbf8",
    surface="#f3f3ee",
    panel="#e9e9e2",
    dark=False,
    variables={
        "ink-text": "#1c2430",
        "ink-dim": "#5c6675",
        "ink-rule": "#c2c7cf",
        "ink-title": "#005a8d",
        "ink-accent": "#8a4b00",
        "ink-selection": "#dbe7f3",
        "state-ok": "#00694d",
        "state-wait": "#8f5902",
        "state-bad": "#b03a00",
        "state-recover": "#8a3d74",
        "state-info": "#0068a3",
    },
)

THEMES = (DARK, LIGHT)
