"""Painting in bands: everything once, nothing much at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.app import ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.widgets import Static
from tui.kit import settle
from waiting import until

from hivemind_tui.loop.base_app import ROWS, BandedScreen, GuestApp, top_band

WIDTH, HEIGHT = 160, 45


def cells(regions: set[Region]) -> set[tuple[int, int]]:
    """Each cell of them."""
    return {(x, y) for region in regions for x in range(region.x, region.right) for y in region.line_range}


regions = st.builds(
    lambda x, y, width, height: Region(x, y, min(width, WIDTH - x), min(height, HEIGHT - y)),
    *(st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1), st.integers(1, WIDTH), st.integers(1, HEIGHT)),
)


@given(st.sets(regions, min_size=1, max_size=5), st.integers(0, HEIGHT))
def test_bands_make_up_the_whole(dirty: set[Region], before: int) -> None:
    """Band by band every cell is painted once, from the row of what lies over the panels on and then from the top, and
    no band is higher than it may be."""
    painted: set[tuple[int, int]] = set()
    wanted = cells(dirty)
    while dirty:
        ahead = any(region.bottom > before for region in dirty)
        now, dirty = top_band(dirty, WIDTH, before)
        part = cells(now)
        rows = {y for _, y in part}
        assert part
        assert min(rows) >= before or not ahead
        assert max(rows) - min(rows) < ROWS
        assert not part & painted
        painted |= part
    assert painted == wanted


class Tall(GuestApp):
    """Something to paint, and a record of how it was painted."""

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[set[Region]] = []

    def compose(self) -> ComposeResult:
        yield Static("\n".join("x" * WIDTH for _ in range(HEIGHT)))

    def get_default_screen(self) -> Screen[None]:
        painted = self.painted

        class Recording(BandedScreen):
            def _paint(self, regions: set[Region]) -> None:
                painted.append(regions)
                super()._paint(regions)

        return Recording(id="_default")

    def owed(self) -> bool:
        """Whether something is still to be painted."""
        screen = self.screen
        assert isinstance(screen, BandedScreen)
        return bool(screen._pending or screen._dirty_widgets or screen._compositor._dirty_regions)


async def test_a_screen_is_painted_in_steps() -> None:
    """All of it in several, between which others have their turn, but a few rows at once; what a batch holds up or
    what changes between two bands is painted too."""
    app = Tall()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        await settle(pilot)
        app.painted.clear()
        app.screen.refresh()
        await settle(pilot)
        assert len(app.painted) == -(-HEIGHT // ROWS)
        assert len(set().union(*map(cells, app.painted))) == WIDTH * HEIGHT

        app.painted.clear()
        static, compositor = app.query_one(Static), app.screen._compositor
        static.refresh(Region(0, 3, WIDTH, 1), Region(0, 30, WIDTH, 2))
        await settle(pilot)
        (once,) = app.painted
        assert {y for _, y in cells(once)} == {3, 30, 31}

        app.painted.clear()
        compositor._dirty_regions.add(app.screen.size.region)
        app.screen._compositor_refresh()
        with app.batch_update():
            await pilot.pause()
            assert not app.painted
        await until(lambda: not app.owed())
        assert len(set().union(*map(cells, app.painted))) == WIDTH * HEIGHT

        app.painted.clear()
        compositor._dirty_regions.add(Region(0, 10, WIDTH, HEIGHT - 10))
        app.screen._compositor_refresh()
        static._repaint_regions.add(Region(0, 3, WIDTH, 1))
        app.screen._dirty_widgets.add(static)
        await until(lambda: not app.owed())
        assert {y for part in app.painted for _, y in cells(part)} == {3, *range(10, HEIGHT)}
