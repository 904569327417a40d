"""What is painted: the same as Textual's own compositor would paint, of only what has to be rendered for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

from textual._compositor import Compositor
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from tui.kit import screen, settle
from tui.worlds import FakeSource, world

from hivemind_tui.loop.compositor import FrugalCompositor
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
