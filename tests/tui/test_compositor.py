"""What is painted looks as Textual paints it, and only what has changed is painted, in bands."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual import containers
from textual._compositor import Compositor
from textual.app import App, ComposeResult
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static
from tui.kit import screen, settle
from tui.worlds import FakeSource, world
from waiting import until

from hivemind_tui.loop import base_app as strips
from hivemind_tui.loop.base_app import ROWS, BandedScreen, GuestApp, top_band
from hivemind_tui.loop.compositor import FrugalCompositor
from hivemind_tui.widgets.box import Horizontal, Vertical
from hivemind_tui.widgets.line_table import Panel


def crops(size: Size, count: int) -> Iterator[Region]:
    """Regions of all sizes within the screen, the whole of it first."""
    chance = random.Random(5)
    yield size.region
    for _ in range(count):
        x, y = chance.randrange(size.width), chance.randrange(size.height)
        yield Region(x, y, chance.randint(1, size.width - x), chance.randint(1, min(8, size.height - y)))


def compare(shown: Screen[object]) -> int:
    """Compare it with Textual's; return how many pieces of lines were compared."""
    compositor, compared = shown._compositor, 0
    assert isinstance(compositor, FrugalCompositor)
    for crop in crops(shown.size, 30):
        rows = set(crop.line_range) - {crop.y + 2}
        ours = compositor._render_chops(crop, rows.__contains__)
        theirs = Compositor._render_chops(compositor, crop, rows.__contains__)
        for y in rows:
            line = compositor.cuts[y]
            painted = [cut for cut, end in pairwise(line) if cut < crop.right and end > crop.x]
            compared += len(painted)
            assert [ours[y][cut] for cut in painted] == [theirs[y][cut] for cut in painted]
    return compared


async def test_it_paints_what_textual_would_and_renders_no_more() -> None:
    """Also where a box lies over the panels, and a notification over both. Of the header one row is rendered; of the
    panels, and the containers that those cover, none."""
    asked: list[tuple[str | None, Region]] = []

    class Watched(Panel):
        def render_lines(self, crop: Region) -> list[Strip]:
            asked.append((self.id, crop))
            return super().render_lines(crop)

    async with screen(FakeSource(world()), (160, 45)) as pilot:
        shown = pilot.app.screen
        alone = compare(shown)
        assert alone > 100
        for panel in shown.query(Panel):
            panel.__class__ = Watched
        assert shown._compositor._render_chops(Region(10, 0, 4, 1), {0}.__contains__)[0][0] is not None
        assert asked == [("header", Region(0, 0, 160, 1))]
        await pilot.press("x")
        pilot.app.notify("hello")
        await settle(pilot)
        assert compare(shown) > alone


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


class _Both(App[None]):
    CSS = "#own, #textual { background: #224466; height: 1fr; }"

    def __init__(self, own: type[containers.Container]) -> None:
        super().__init__()
        self._own = own

    def compose(self) -> ComposeResult:
        yield self._own(id="own")
        yield containers.Container(id="textual")


@pytest.mark.parametrize(("own", "no_color"), [(Horizontal, True), (Vertical, False)])
async def test_rows_are_one_row(
    own: type[containers.Container], no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rendered once for all of them, also where the terminal has no colours."""
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    async with _Both(own).run_test(size=(40, 20)) as pilot:
        mine, textuals = (pilot.app.query_one(name) for name in ("#own", "#textual"))
        rows = mine.render_lines(mine.size.region)
        assert len(rows) == 10
        assert len({id(row) for row in rows}) == 1
        (theirs,) = textuals.render_lines(textuals.size.region)[0]
        (segment,) = rows[0]
        assert segment.text == theirs.text
        assert segment.style is not None
        assert theirs.style is not None
        assert segment.style.bgcolor == theirs.style.bgcolor


def strip() -> Strip:
    """Ten cells."""
    return Strip([Segment("three", Style(bold=True)), Segment("blind", Style(dim=True))])


def left_to_the_collector(use: Callable[[Strip], object]) -> int:
    """How many objects are rubbish after a strip was used so, and forgotten."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # what earlier tests left isn't counted, and takes no time
    try:
        use(strip())
        return gc.collect()
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def test_a_whole_strip_is_freed_when_it_is_forgotten() -> None:
    """Nothing is left to the collector; with Textual's own methods it is, or else this module isn't needed any more."""
    assert left_to_the_collector(lambda one: strips._textuals_divide(one, [10])) > 5
    assert left_to_the_collector(lambda one: strips._textuals_crop_extend(one, 0, 10, None)) > 5
    strips.without_cycles()
    assert left_to_the_collector(lambda one: one.divide([10])) == 0
    assert left_to_the_collector(lambda one: one.crop_extend(0, 10, None)) == 0


def test_pieces_and_crops_are_the_same() -> None:
    """Whatever is cut, cropped or filled up, the pieces are those of Textual's own methods."""
    strips.without_cycles()
    style = Style(reverse=True)
    for cuts in ([10], [3, 10], [3], [3, 7, 10, 12], [12], []):
        assert list(strip().divide(iter(cuts))) == list(strips._textuals_divide(strip(), cuts))
    for start, end in ((0, 10), (0, 14), (2, 10), (2, 5), (0, 4)):
        assert strip().crop_extend(start, end, style) == strips._textuals_crop_extend(strip(), start, end, style)
