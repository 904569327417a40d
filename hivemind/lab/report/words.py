"""Numbers and names in a report, as people read them."""

from __future__ import annotations

import html

from hivemind.text.words import count, money, span
from hivemind.world.lines import words

__all__ = ["clean", "count", "label", "money", "number", "plural", "seconds", "shortened", "words"]

_LONGEST = 60


def seconds(value: float) -> str:
    """`30 ms`, `1.4 s`, `42 s`, `5 min 10 s`, `3 h 20 min`."""
    if value < 0.0005:
        return "0 s"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if 60 <= whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return span(whole)


def number(value: int) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,}"


def plural(value: int, one: str, many: str = "") -> str:
    """`1 agent`, `2 agents`."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def clean(text: str) -> str:
    """A text from elsewhere without control characters and the like, which pages and terminals might obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def shortened(text: str, most: int = _LONGEST) -> str:
    """The same, no longer than that."""
    shown = clean(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def label(text: str, most: int = 28) -> str:
    """A name from elsewhere as a plot may show it: plots take some tags for orders, so none is left."""
    return html.escape(shortened(text, most)).replace("%{", "% {")
