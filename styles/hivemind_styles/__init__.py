"""Textual style sheets and themes, nothing else."""

from __future__ import annotations

from importlib.resources import files

STYLE_SHEETS = [str(files(__name__).joinpath(name)) for name in ("base.tcss", "pages.tcss")]
"""Paths for an app's CSS_PATH."""

THEME_NAMES = (
    *("dark", "light", "contrast", "contrast-light", "colorblind"),
    *("catppuccin-mocha", "catppuccin-latte", "gruvbox", "nord", "tokyo-night"),
    *("16", "mono"),
)
"""The themes of :mod:`.themes`, without the `hivemind-` that they have in Textual. Here, because those load Textual."""
