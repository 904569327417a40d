"""What this terminal can show, by its environment: how many colours, on what background. Needs no Textual."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping

from hivemind.errors import UsageError
from hivemind_styles import THEME_NAMES
from hivemind_tui.render.glyphs import glyphs_for

VARIABLE = "HIVEMIND_THEME"
"""Names a theme, with or without its `hivemind-`."""

_DEPTHS = {"kitty": 256, "256color": 256}
_TRUE = 1 << 24
_FORCED = {"standard": 16, "256": 256, "truecolor": _TRUE}
_NONE = re.compile(r"vt\d+.*|dumb|unknown")
_LIGHT_GROUNDS = ("7", "15")


def prepare(environ: MutableMapping[str, str]) -> None:
    """Check what the environment says about the screen, before anything slow is imported.

    An empty NO_COLOR is removed: it counts as not set (https://no-color.org), but Textual heeds it.

    Raises: UsageError: it names an unknown theme or unknown glyphs.
    """
    first_theme(environ)
    glyphs_for(environ)
    if environ.get("NO_COLOR") == "":
        del environ["NO_COLOR"]


def coloured(environment: Mapping[str, str]) -> bool:
    """Return whether colours are allowed."""
    return not environment.get("NO_COLOR")


def colours(environment: Mapping[str, str]) -> int:
    """Return the number of colours: 0, 16, 256 or 16,777,216, by the rules of Rich, which reduces ours to that many.

    Without a TERM nothing is known about the terminal, and nothing is held back.
    """
    term = environment.get("TERM", "").strip().lower()
    if not coloured(environment) or _NONE.fullmatch(term):
        return 0
    forced = _FORCED.get(environment.get("TEXTUAL_COLOR_SYSTEM", ""))
    if forced is not None:
        return forced
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") or not term:
        return _TRUE
    return _DEPTHS.get(term.rpartition("-")[2], 16)


def first_theme(environment: Mapping[str, str]) -> str:
    """Return the first theme: the configured one, else by colours and known background. Raises: UsageError."""
    configured = environment.get(VARIABLE, "")
    name = configured.removeprefix("hivemind-")
    if configured and name not in THEME_NAMES:
        raise UsageError(f"{VARIABLE} (environment): must be one of {', '.join(THEME_NAMES)}, not {configured[:40]!r}")
    depth = colours(environment)
    if depth == 0:
        name = "mono"
    elif not configured:
        # COLORFGBG is foreground;background as numbers of the palette, sometimes with a third in between.
        light = environment.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_GROUNDS
        name = "16" if depth == 16 else "light" if light else "dark"
    return f"hivemind-{name}"


def themes_for(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the themes that can be chosen here, beginning with the first one. Raises: UsageError."""
    depth = colours(environment)
    names = THEME_NAMES if depth > 16 else ("16", "mono") if depth else ("mono",)
    return tuple(dict.fromkeys((first_theme(environment), *(f"hivemind-{name}" for name in names))))
