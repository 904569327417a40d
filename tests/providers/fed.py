"""Taps that were fed by hand."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind.providers.base import Tap


def fed(tap: Tap, pieces: Sequence[bytes]) -> Tap:
    """The tap, after it was given these pieces."""
    for piece in pieces:
        tap.feed(piece)
    return tap
