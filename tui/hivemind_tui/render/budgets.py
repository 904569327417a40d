"""Budgets as panels show them: tokens and dollars, the used share, what is left."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.ledger import WARN_SHARE
from hivemind.text.amounts import PERIODS
from hivemind.text.humanise import short_count, short_dollars
from hivemind_tui.render.pen import Pen, Span


class Ceiling(Struct, frozen=True):
    """One of the two limits that a budget may have, tokens or dollars."""

    used: str
    of: str
    left: str
    """`82k left`, or how much it is overdrawn by."""
    share: float
    role: str


def ceilings(state: BudgetState) -> list[Ceiling]:
    """Return the budget's limits, the one closer to being reached first."""
    found = []
    if state.tokens is not None:
        found.append(_ceiling(state.used_tokens, state.tokens, short_count, short_count))
    if state.dollars is not None:
        found.append(_ceiling(state.used_dollars, state.dollars, short_dollars, price))
    return sorted(found, key=lambda each: -each.share)


def _ceiling(used: float, of: float, shown: Callable[[float], str], shown_of: Callable[[float], str]) -> Ceiling:
    share = used / of if of else 1.0
    left = f"{shown(of - used)} left" if used <= of else f"{shown(used - of)} over"
    return Ceiling(shown(used), shown_of(of), left, share, role_of(share))


def role_of(share: float) -> str:
    """Return the colour role for the used share of a budget."""
    return "bad" if share >= 1 else "wait" if share >= WARN_SHARE else "text"


def share_of(state: BudgetState | None) -> float | None:
    """Return the used share of a budget; None where there is none."""
    found = ceilings(state) if state is not None else []
    return found[0].share if found else None


def price(amount: float) -> str:
    """A ceiling in dollars, in at most six cells: `$5`, `$2.50`, `$0.05`, `$1,204`."""
    if amount < 0.0995 and round(amount, 2) != amount:
        return f"${amount:.3f}"
    if amount < 99.995:
        return f"${amount:.2f}".removesuffix(".00")
    return f"${amount:,.0f}" if amount < 9_999.5 else f"${short_count(amount)}"


def period(state: BudgetState) -> str:
    """Return the budget's period: `this run`, `today`, `in all`."""
    return PERIODS.get(state.per, "")


def covered(state: BudgetState) -> str:
    """Return which agents it covers, if not the agent alone."""
    return {"subtree": "with its agents", "all": "all agents"}.get(state.covers, "")


def blind(state: BudgetState) -> str:
    """Return the tokens that a limit in dollars leaves out."""
    blind_to = state.unpriced if state.dollars is not None else 0
    return f"{short_count(blind_to)} tokens without a price" if blind_to else ""


def figures(share: float) -> str:
    """A share in at most four cells: `84%`, and `×12` where it is far beyond the whole."""
    return f"{100 * share:.0f}%" if share < 9.995 else f"×{share:.0f}" if share < 999.5 else "×1k+"


def bar(pen: Pen, width: int, ceiling: Ceiling) -> list[Span]:
    """Return the bar of one limit."""
    return pen.gauge(width, ceiling.share, role="ok" if ceiling.role == "text" else ceiling.role)
