"""Numbers as people read them, in the command line's tables."""

from __future__ import annotations

from hivemind.scheduler.events import BudgetState
from hivemind.text import amounts
from hivemind.text.table import Cell


def count(number: float) -> str:
    """`950`, `12.3k`, `4.5M`: three figures or so."""
    if number < 1000:
        return f"{number:g}" if number < 100 or number == int(number) else f"{number:.0f}"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor * 0.9995:
            return f"{number / factor:.3g}{unit}"
    return "1k"


def money(dollars: float, unpriced: int = 0) -> str:
    """Dollars; a `+` after it: of some tokens the price isn't known."""
    shown = f"${dollars:.4f}" if 0 < dollars < 0.01 else f"${dollars:,.2f}"
    return f"{shown}{'+' if unpriced else ''}"


def span(seconds: float) -> str:
    """`42 s`, `5 min`, `3 h 20 min`, `2 d 4 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86_400
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def share(state: BudgetState | None) -> Cell:
    """`23 % of 200k` of the ceiling that is nearer; empty where there is none."""
    if state is None or (state.tokens is None and state.dollars is None):
        return Cell("")
    tokens = 0.0 if state.tokens is None else state.used_tokens / state.tokens
    in_tokens = state.tokens is not None and (state.dollars is None or tokens >= state.share)
    ceiling = count(state.tokens) if in_tokens and state.tokens is not None else amounts.dollars(state.dollars or 0.0)
    style = "bad" if state.share >= 1 else "warn" if state.share >= 0.85 else ""
    return Cell(f"{state.share:.0%}".replace("%", " %") + f" of {ceiling}", style)
