"""Messages to and from the plotting process."""

from __future__ import annotations

import msgspec

ROLE_CODES = ("text", "rule", "info", "ok", "recover", "wait", "bad", "accent")
"""Colour roles that a figure is drawn with. Figures name them by index, so a change of theme needs no new figure."""

Points = list[tuple[float, float]]


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A figure to draw: the concurrency level, and the time to first token under it. x is seconds, 0 is now."""

    width: int
    height: int
    span_s: float
    level: Points
    active: Points
    marks: list[tuple[float, float, str, int]]
    """What bent the level: when, the level then, one character, and its role as an index into :data:`ROLE_CODES`."""
    ttft: Points
    target_s: float
    top: float
    """The highest level that the scale must reach."""
    ceiling: float | None
    """Drawn as a line; None where it is none, or beyond the scale."""


class Figure(msgspec.Struct, frozen=True, array_like=True):
    """A drawn figure: rows of text runs, each with its role as an index into :data:`ROLE_CODES`."""

    width: int
    height: int
    rows: list[list[tuple[str, int]]]
