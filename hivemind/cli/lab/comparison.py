"""Figures as text."""

from __future__ import annotations

from hivemind.lab.comparison import Unit
from hivemind.text.humanise import count, dollars, duration


def amount_of(unit: Unit, value: float, unpriced: int = 0) -> str:
    """Return a figure as text. `unpriced` counts tokens of unknown price, which dollars mark by a `+`."""
    if unit == "seconds":
        return duration(value)
    if unit == "dollars":
        return dollars(value, unpriced)
    if unit == "share":
        return f"{value:.3f}"
    if unit == "tokens":
        return count(round(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
