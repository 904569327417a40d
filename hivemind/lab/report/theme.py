"""Colours by what they mean, for light and for dark; and how every plot looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLOURS: Mapping[str, tuple[str, str]] = {
    "ground": ("#f7f5f0", "#14171b"),
    "card": ("#fffefb", "#1b1f25"),
    "ink": ("#20262d", "#e7e9ec"),
    "dim": ("#59636e", "#a0abb7"),
    "line": ("#e2ded4", "#303741"),
    "good": ("#2c7a50", "#6fcf9a"),
    "bad": ("#b3372f", "#f2857a"),
    "flight": ("#2f6f9f", "#6fb1e0"),
    "level": ("#3f3d63", "#c9c8ea"),
    "streaming": ("#2f8277", "#58bfb2"),
    "first": ("#9cc7c1", "#2f6a63"),
    "queued": ("#e2bb68", "#b38a36"),
    "retry": ("#c96a2b", "#e8935a"),
    "paused": ("#7b5ea7", "#b49be2"),
    "left": ("#8b8f96", "#858d97"),
    "lost": ("#9a9489", "#6d7178"),
    "other": ("#c9c3b6", "#4d545e"),
    "a": ("#2f6f9e", "#6fb1e1"),
    "b": ("#c9752c", "#e89a5c"),
    "c": ("#2f8278", "#58bfb3"),
    "d": ("#7b5ea8", "#b49be3"),
    "e": ("#a8912c", "#d9c25a"),
    "f": ("#b3375f", "#f285a8"),
}
"""By role: in light and in dark. No two roles share one, so that a page can swap one scheme's for the other's."""
SERIES = tuple("abcdef")
"""Roles without a meaning of their own."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
_CLEAR = "rgba(0,0,0,0)"


def ink(role: str) -> str:
    """Return the colour of a role in the light scheme; the page's script changes it in the dark."""
    return COLOURS[role][0]


def layout(height: int, **more: Any) -> dict[str, Any]:
    """Return the layout that all plots share."""
    return {
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 34, "b": 40},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "font": {"family": _FONT, "size": 12, "color": ink("dim")},
        "hoverlabel": {
            "bgcolor": ink("card"),
            "bordercolor": ink("line"),
            "align": "left",
            "font": {"family": _FONT, "size": 12, "color": ink("ink")},
        },
        "legend": {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"},
        "modebar": {"bgcolor": _CLEAR, "color": ink("other"), "activecolor": ink("ink")},
        "hovermode": "closest",
        "dragmode": "zoom",
        "bargap": 0.3,
        **more,
    }


def axis(**more: Any) -> dict[str, Any]:
    """Return an axis."""
    return {
        "gridcolor": ink("line"),
        "linecolor": ink("line"),
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        "fixedrange": False,
        **more,
    }


def times(**more: Any) -> dict[str, Any]:
    """Return an axis of times in milliseconds."""
    return axis(type="date", hoverformat="%H:%M:%S.%L", showgrid=True, **more)
