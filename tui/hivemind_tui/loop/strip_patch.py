"""Textual's strips without the reference cycles that it makes of nearly all of them.

A strip that is asked for a piece of itself remembers the answer, also where the piece is the whole: then it refers to
itself, and it, its segments and its seven caches are left to the garbage collector. A live screen makes 40,000 such
objects in a quarter of a minute, and collecting them holds the loop for 10 ms and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import wraps

from rich.style import Style
from textual.strip import Strip


def without_cycles() -> None:
    """From now on a strip doesn't remember that all of it is itself. Once for a process; more does no harm."""
    if not hasattr(Strip.divide, "__wrapped__"):
        Strip.divide, Strip.crop_extend = _divide, _crop_extend  # type: ignore[method-assign]


_textuals_divide, _textuals_crop_extend = Strip.divide, Strip.crop_extend


@wraps(_textuals_divide)
def _divide(self: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    cuts, length = list(cuts), self.cell_length
    if [cut for cut in cuts if cut <= length] == [length]:
        return [self]
    return _textuals_divide(self, cuts)


@wraps(_textuals_crop_extend)
def _crop_extend(self: Strip, start: int, end: int, style: Style | None) -> Strip:
    if start == 0 and end == self.cell_length:
        return self
    return _textuals_crop_extend(self, start, end, style)
