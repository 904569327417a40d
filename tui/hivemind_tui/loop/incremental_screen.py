"""A screen that is painted a band of rows at a time.

Textual paints all changes in one step: another page at 160x45 holds the event loop for 10 to 15 ms. Painted in bands,
with a turn of the loop for the traffic between them, it takes no longer and delays nothing.

It uses private names of Textual's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from textual.geometry import Region
from textual.screen import Screen
from textual.timer import Timer

ROWS = 6
"""Rows of a band."""
_AT_ONCE_CELLS = 1_600
"""Changes of this size are painted in one step; those of a live page are smaller."""
_BATCH_S = 0.02
_PAINT_EVERY_S = 0.008


def top_band(regions: Collection[Region], width: int) -> tuple[set[Region], set[Region]]:
    """Split regions, of which there is at least one, into the parts in their topmost band and the rest."""
    top, bottom = min(region.y for region in regions), max(region.bottom for region in regions)
    band, below = Region(0, top, width, ROWS), Region(0, top + ROWS, width, max(0, bottom - top - ROWS))
    return (
        {part for region in regions if (part := region.intersection(band))},
        {part for region in regions if (part := region.intersection(below))},
    )


class BandedScreen(Screen[None]):
    """A screen that keeps the regions to be painted, and paints them band by band."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pending: set[Region] = set()
        self._painting = False
        self._timer: Timer | None = None

    @property
    def _update_timer(self) -> Timer:
        """The timer that paints changes, every 8 ms rather than Textual's 17: panels are drawn one after the other, and
        each would add that to the latency of a key."""
        if self._timer is None:
            self._timer = self.set_interval(_PAINT_EVERY_S, self._on_timer_update, name="screen_update", pause=True)
        return self._timer

    def _compositor_refresh(self) -> None:
        if self.app.is_inline or self is not self.app.screen:
            super()._compositor_refresh()
            return
        self._take_over()
        if self._painting:
            return
        # What is painted inside a batch is lost.
        if sum(region.area for region in self._pending) <= _AT_ONCE_CELLS and not self.app._batch_count:
            self._paint(self._pending)
            self._pending = set()
        else:
            self._painting = self.call_later(self._paint_pending)

    def _take_over(self) -> None:
        """Take over the regions that changed from Textual, which would forget them with the next step."""
        self._compositor.update_widgets(self._dirty_widgets)
        self._dirty_widgets.clear()
        dirty, whole = self._compositor._dirty_regions, self._compositor.size.region
        self._pending = {part for region in self._pending | dirty if (part := region.intersection(whole))}
        dirty.clear()

    def _paint(self, regions: set[Region]) -> None:
        self._compositor._dirty_regions.update(regions)
        super()._compositor_refresh()

    async def _paint_pending(self) -> None:
        """Paint the pending regions, each band in a turn of the loop of its own."""
        try:
            while self._pending and self.is_current:
                await asyncio.sleep(0)
                if self.app._batch_count:
                    break
                self._take_over()
                now, self._pending = top_band(self._pending, self._compositor.size.width)
                self._paint(now)
        finally:
            self._painting = False
        if self._pending and self.is_current:
            self._painting = True
            self.set_timer(_BATCH_S, self._paint_pending)
