"""The look and the words of a report: colours, layouts of plots, names and short texts."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from hivemind.console import printable
from hivemind.lab.report.run import RecordedRun
from hivemind.world.lines import words

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
    "queued": ("#e2bb68", "#b38a36"),
    "retry": ("#c96a2b", "#e8935a"),
    "paused": ("#7b5ea7", "#b49be2"),
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

_FONT = {
    "family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif",
    "size": 12,
}
_CLEAR = "rgba(0,0,0,0)"


def ink(role: str) -> str:
    """Return the colour of a role in the light scheme; the page's script changes it in the dark."""
    return COLOURS[role][0]


def layout(height: int, xaxis: dict[str, Any], yaxis: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the layout that all plots share."""
    return {
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 34, "b": 40},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "font": {**_FONT, "color": ink("dim")},
        "hoverlabel": {
            "bgcolor": ink("card"),
            "bordercolor": ink("line"),
            "align": "left",
            "font": {**_FONT, "color": ink("ink")},
        },
        "legend": {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"},
        "modebar": {"bgcolor": _CLEAR, "color": ink("other"), "activecolor": ink("ink")},
        "hovermode": "closest",
        "dragmode": "zoom",
        "bargap": 0.3,
        "xaxis": xaxis,
        "yaxis": yaxis,
        **more,
    }


def axis(**more: Any) -> dict[str, Any]:
    """Return an axis."""
    colours = {"gridcolor": ink("line"), "linecolor": ink("line")}
    return {**colours, "zeroline": False, "ticks": "", "automargin": True, "fixedrange": False, **more}


def times(run: RecordedRun, stretch: float = 1.0) -> dict[str, Any]:
    """Return an axis of the times of a run, and `stretch` times as long."""
    ends_at = max(run.fold.ended_at * stretch, 0.001)
    return axis(type="date", hoverformat="%H:%M:%S.%L", showgrid=True, range=[run.stamp_ms(0), run.stamp_ms(ends_at)])


def hover(text: str, name: str = "") -> str:
    """Return the template of what a plot shows at the pointer: a text, and a name beside it."""
    return f"{text}<extra>{name}</extra>"


OUTCOMES: Mapping[str, str] = {
    "answered": "answered in the end",
    "failed": "passed on",
    "refused": "refused",
    "left": "client left",
    "open": "not known",
}
"""Ends of requests with a failed attempt."""
_LANE_STATES: Mapping[str, str] = {"open": "circuit open", "half_open": "circuit half open", "paused": "rate-limited"}


def lane_state(state: str) -> str:
    """Return the name of a state of a lane in which it isn't free to send."""
    return _LANE_STATES.get(state) or f"circuit {shortened(words(state))}"


def clean(text: str) -> str:
    """Replace control characters and the like, which browsers and terminals might interpret."""
    return printable(text, "\N{REPLACEMENT CHARACTER}")


def shortened(text: str, most: int = 60) -> str:
    """Return the text without control characters and at most so long."""
    shown = clean(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def label(text: str, most: int = 28) -> str:
    """Return the text for a plot: plotly interprets some tags and placeholders, so none is left."""
    return html.escape(shortened(text, most)).replace("%{", "% {")
