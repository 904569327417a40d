"""Containers that cost nothing to paint, and are mounted at once with all that is in them.

Of a container that changed its size, Textual renders and filters every row, also below the widgets that cover it and
also for a band of a few rows: with the nested ones of a page that held the loop for 15 ms when the page was first seen.
What a container holds Textual mounts after it, level by level, each some turns of the loop later.
"""

from __future__ import annotations

from textual import containers
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class _Box(Widget):
    """The second of its subclasses' bases: the style sheet knows a widget by the first one."""

    def __init__(self, *parts: Widget, id: str | None = None) -> None:
        super().__init__(id=id)
        self._add_children(*parts)  # not in Textual's manual; children that the constructor takes come level by level

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return one row in the background's colour, as often as there are rows."""
        strip = Strip.blank(crop.width, self.visual_style.rich_style)
        _, background = self.background_colors
        for each in self.app.get_line_filters():
            strip = strip.apply_filter(each, background)
        return [strip] * crop.height


class Horizontal(containers.Horizontal, _Box):
    """Side by side, without borders or padding."""


class Vertical(containers.Vertical, _Box):
    """The same, one below the other."""
