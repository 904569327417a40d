"""Containers that cost nothing to paint.

Of a container that changed its size, Textual renders and filters every row, also below the widgets that cover it and
also for a band of a few rows: with the nested ones of a page that held the loop for 15 ms when the page was first seen.
"""

from __future__ import annotations

from textual import containers
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def _rows(widget: Widget, crop: Region) -> list[Strip]:
    """Return one row in the background's colour, as often as there are rows."""
    strip = Strip.blank(crop.width, widget.visual_style.rich_style)
    _, background = widget.background_colors
    for each in widget.app.get_line_filters():
        strip = strip.apply_filter(each, background)
    return [strip] * crop.height


# The style sheet knows a widget by the first of its bases, so that a common one would take their layouts from these.


class Horizontal(containers.Horizontal):
    """Side by side, without borders or padding."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return _rows(self, crop)


class Vertical(containers.Vertical):
    """One below the other, likewise."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return _rows(self, crop)
