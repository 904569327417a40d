"""Budgets in words, the same in the log, in refusals, in headers and on the screen."""

from __future__ import annotations

from .scheduler.events import BudgetState

_PERIODS = {"run": "this run", "day": "today", "ever": "in all"}


def owner(state: BudgetState) -> str:
    """Whose budget it is: `alice's budget`, `the budget of alice and its agents`, `the budget of all agents`."""
    if state.owner is None:
        return "the budget of all agents"
    return f"the budget of {state.owner} and its agents" if state.covers == "subtree" else f"{state.owner}'s budget"


def how_used(state: BudgetState) -> str:
    """`900 of 1,000 tokens used this run`, `$1.20 of $5.00 used today`; both where it has both ceilings."""
    parts = []
    if state.tokens is not None:
        parts.append(f"{state.used_tokens:,} of {state.tokens:,} tokens")
    if state.dollars is not None:
        parts.append(f"{dollars(state.used_dollars)} of {dollars(state.dollars)}")
    if not parts:
        parts = [f"{state.used_tokens:,} tokens, {dollars(state.used_dollars)}"]
    blind = f" (and {state.unpriced:,} tokens without a known price)" if state.unpriced and state.dollars else ""
    return f"{' and '.join(parts)} used {_PERIODS[state.per]}{blind}"


def dollars(amount: float) -> str:
    """Money, with as many digits as tell small amounts apart."""
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"
