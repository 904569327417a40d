"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`; did you mean NAME?` where one of the names is close, else nothing."""
    from difflib import get_close_matches  # on demand: most commands have nothing to suggest

    folded = {name.lower(): name for name in names}
    close = get_close_matches(wrong.lower(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]}?" if close else ""
