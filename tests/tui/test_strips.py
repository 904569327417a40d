"""Strips that don't refer to themselves."""

from __future__ import annotations

import gc
from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from hivemind_tui.loop import base_app as strips


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
