"""Numbers and names in a report, as people read them."""

from __future__ import annotations

import html

_LONGEST = 60


def number(value: int) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,}"


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
