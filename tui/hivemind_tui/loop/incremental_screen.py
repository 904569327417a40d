"""A screen that is painted a band of rows at a time.

Textual paints all that changed in one step: another page at 160x45 holds the event loop for 10 to 15 ms. Painted in
bands, with a turn for the traffic between two of them, it takes no longer and holds nobody up.

It leans on private names of Textual's: :func:`screen_class` checks them, and falls back to the ordinary screen.
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
"""So much is painted in one step; a live page changes less than that at a time."""
_BATCH_S = 0.02
_PAINT_EVERY_S = 0.008


def screen_class() -> type[Screen[None]]:
    """The screen that is painted in bands, where Textual is built as it expects."""
    dirty = getattr(getattr(Screen(), "_compositor", None), "_dirty_regions", None)
    known = isinstance(dirty, set) and callable(getattr(Screen, "_compositor_refresh", None))
    return BandedScreen if known else Screen


def top_band(regions: Collection[Region], width: int) -> tuple[set[Region], set[Region]]:
    """What of the regions, of which there is one at least, lies in their topmost band, and the rest."""
    top, bottom = min(region.y for region in regions), max(region.bottom for region in regions)
    band, below = Region(0, top, width, ROWS), Region(0, top + ROWS, width, max(0, bottom - top - ROWS))
    return (
        {part for region in regions if (part := region.intersection(band))},
        {part for region in regions if (part := region.intersection(below))},
    )


class BandedScreen(Screen[None]):
    """Owes the terminal what it didn't paint yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._owed: set[Region] = set()
        self._paying = False
        self._timer: Timer | None = None

    @property
    def _update_timer(self) -> Timer:
        """Paints what changed since it last did. Textual's waits up to 17 ms for that: too much of what a key's answer
        may take, because the panels are drawn one after the other, and painted as they come."""
        if self._timer is None:
            self._timer = self.set_interval(_PAINT_EVERY_S, self._on_timer_update, name="screen_update", pause=True)
        return self._timer

    def _compositor_refresh(self) -> None:
        if self.app.is_inline or self is not self.app.screen:
            super()._compositor_refresh()
            return
        self._take_over()
        if self._paying:
            return
        # What is painted inside a batch is lost.
        if sum(region.area for region in self._owed) <= _AT_ONCE_CELLS and not self.app._batch_count:
            self._paint(self._owed)
            self._owed = set()
        else:
            self._paying = self.call_later(self._pay)

    def _take_over(self) -> None:
        """Owe whatever changed. Textual takes it for painted with the next step, whichever that is."""
        self._compositor.update_widgets(self._dirty_widgets)
        self._dirty_widgets.clear()
        dirty, whole = self._compositor._dirty_regions, self._compositor.size.region
        self._owed = {part for region in self._owed | dirty if (part := region.intersection(whole))}
        dirty.clear()

    def _paint(self, regions: set[Region]) -> None:
        self._compositor._dirty_regions.update(regions)
        super()._compositor_refresh()

    async def _pay(self) -> None:
        """Paint what is owed, each band in a turn of the loop of its own."""
        try:
            while self._owed and self.is_current:
                await asyncio.sleep(0)
                if self.app._batch_count:
                    break
                self._take_over()
                now, self._owed = top_band(self._owed, self._compositor.size.width)
                self._paint(now)
        finally:
            self._paying = False
        if self._owed and self.is_current:
            self._paying = True
            self.set_timer(_BATCH_S, self._pay)
