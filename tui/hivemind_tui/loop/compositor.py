"""A compositor that renders only what it paints.

For a change of one cell Textual's renders every row of every widget on the screen, and of the containers below them,
to cut out the few rows that are painted: that was a third of what a live screen costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import cast

from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip


class FrugalCompositor(Compositor):
    """Leaves out the rows that aren't painted, and widgets that others cover where it is painted."""

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """Return the pieces of each line by their first column; None for those that lie outside of `crop`."""
        cuts = self.cuts
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(line[:-1]) for line in cuts]
        left, right = crop.column_span
        owed = {
            y: {cut for cut, end in pairwise(cuts[y]) if cut < right and end > left}
            for y in crop.line_range
            if is_rendered_line(y)
        }
        for widget, (region, clip) in self.visible_widgets.items():
            if not owed:
                break
            area = region.intersection(clip)
            first, last = area.column_span
            rows = [y for y in area.line_range if y in owed and any(first <= cut < last for cut in owed[y])]
            if not rows:
                continue
            seen = Region(area.x - region.x, rows[0] - region.y, area.width, rows[-1] + 1 - rows[0])
            strips = widget.render_lines(seen)
            for y in rows:
                line = [cut for cut in cuts[y] if first <= cut <= last]
                pieces = strips[y - rows[0]].divide([cut - first for cut in line[1:]])
                for cut, piece in zip(line, pieces, strict=False):
                    if cut in owed[y]:
                        chops[y][cut] = piece
                owed[y].difference_update(line[:-1])
                if not owed[y]:
                    del owed[y]
        return cast("Sequence[Mapping[int, Strip]]", chops)
