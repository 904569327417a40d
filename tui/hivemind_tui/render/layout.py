"""The layouts of the screen by the terminal's size."""

from __future__ import annotations

from textual.geometry import Size

FULL = Size(140, 36)
"""Boxes, and all panels side by side."""
COMPACT = Size(80, 24)
"""One column under rules; smaller than this there is one panel and a hint."""


def layout_for(size: Size) -> str:
    """`full`, `compact` or `tiny`."""
    if size.width >= FULL.width and size.height >= FULL.height:
        return "full"
    return "compact" if size.width >= COMPACT.width and size.height >= COMPACT.height else "tiny"
