"""Numbers as people read them, in the command line's tables."""

from __future__ import annotations

from hivemind.scheduler.events import BudgetState
from hivemind.text.humanise import count, dollars
from hivemind.text.table import Cell


def share(state: BudgetState | None) -> Cell:
    """`23 % of 200k` of the ceiling that is nearer; empty where there is none."""
    if state is None or (state.tokens is None and state.dollars is None):
        return Cell("")
    tokens = 0.0 if state.tokens is None else state.used_tokens / state.tokens
    in_tokens = state.tokens is not None and (state.dollars is None or tokens >= state.share)
    ceiling = count(state.tokens) if in_tokens and state.tokens is not None else dollars(state.dollars or 0.0)
    style = "bad" if state.share >= 1 else "warn" if state.share >= 0.85 else ""
    return Cell(f"{state.share:.0%}".replace("%", " %") + f" of {ceiling}", style)
