"""A widget that paints rows of text and repaints only the rows that changed.

Textual repaints whatever region it is told to, changed or not, and its DataTable forgets all its caches with each cell.
Comparing rows ourselves is what makes a live screen cheap: 30 to 50 ms a frame become one or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class LineTable(Widget):
    """Rows handed in whole; those equal to the last ones are kept, with everything Textual cached on them.

    A click on a linked span (:func:`hivemind_tui.render.pen.linked`) runs its action.
    """

    ALLOW_SELECT: ClassVar[bool] = False
    """Textual selects text where it knows its offsets, which rows don't have; a double click would mark everything."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        # Textual's links change their look under the mouse, and the whole widget is painted again for that.
        self.set_reactive(LineTable.auto_links, False)
        self._rows: list[Strip] = []

    @property
    def rows(self) -> Sequence[Strip]:
        """The rows as they are painted now."""
        return self._rows

    def set_rows(self, rows: Sequence[Strip]) -> int:
        """Show these rows instead; answers how many differ from before."""
        old = self._rows
        merged: list[Strip] = []
        changed: list[Region] = []
        for y, row in enumerate(rows):
            if y < len(old) and old[y] == row:
                merged.append(old[y])
            else:
                merged.append(row)
                changed.append(Region(0, y, self.size.width, 1))
        changed += [Region(0, y, self.size.width, 1) for y in range(len(rows), len(old))]
        self._rows = merged
        if changed and self.size:
            self.refresh(*changed)
        return len(changed)

    def render_line(self, y: int) -> Strip:
        """One row, as Textual's Line API asks for it."""
        if y < len(self._rows):
            return self._rows[y]
        return Strip.blank(self.size.width, self.rich_style)
