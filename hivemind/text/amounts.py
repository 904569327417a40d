"""Budgets as people type them, and as the log, refusals, headers and the screen print them."""

from __future__ import annotations

import re
from typing import get_args
from urllib.parse import quote

from msgspec import Struct

from hivemind.scheduler.accounts import Period
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.ledger import MOST_DOLLARS, MOST_TOKENS
from hivemind.text.humanise import dollars, parse_number, plural
from hivemind.text.shells import command_line

HEADER = b"x-hivemind-budget"

PERIODS = {"run": "this run", "day": "today", "month": "this month", "ever": "in all"}
"""What is counted, of what was used; by period."""
_A_PERIOD = {"run": "a run", "day": "a day", "month": "a month", "ever": "in all"}
_AMOUNT = re.compile(
    r"(?P<money>\$?) *(?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+) *[kmgb]?)"
    r"(?: *(?:(?P<tokens>tok(?:en)?s?)|(?P<dollars>\$|usd|dollars?)))?"
)
_EXAMPLES = "200k, $5, $5/day, 200k,$5 or none"


class WantedBudget(Struct, frozen=True):
    """A budget as the user typed it."""

    tokens: int | None
    dollars: float | None
    per: Period | None
    """None: not given."""
    more: bool = False
    """The amounts are added to the present ones."""

    def __bool__(self) -> bool:
        return self.tokens is not None or self.dollars is not None


def parse_budget(text: str) -> WantedBudget:
    """`200k`, `$5`, `$5/day`, `200k,$5`, `none`; with a `+` before it, so much more. `5$` and `5usd` are `$5`, for
    shells, in which `$5` is a variable.

    Raises: ValueError: it is none of these; the text says what would be right.
    """
    lowered = text.strip().lower()
    if lowered in ("none", "no", "off"):
        return WantedBudget(None, None, None)
    more = lowered.startswith("+")
    amounts: dict[str, float] = {}
    periods = set()
    for part in lowered.removeprefix("+").replace(" and ", ",").split(","):
        amount, slash, period = part.strip().removeprefix("+").partition("/")
        found = _AMOUNT.fullmatch(amount.strip())
        kind = "dollars" if found is not None and (found["money"] or found["dollars"]) else "tokens"
        odd = found is None or (found["money"] and (found["tokens"] or found["dollars"]))
        if kind in amounts:
            raise ValueError(f"{text.strip()[:40]!r}: a budget has one limit in {kind}, in one period")
        if found is None or odd or (slash and period.strip() not in get_args(Period)):
            raise ValueError(f"{text.strip()[:40]!r} is no budget; it is {_EXAMPLES}, per run, day, month or ever")
        amounts[kind] = parse_number(found["number"])
        periods |= {period.strip()} if slash else set()
    return WantedBudget(*_checked(amounts), _period(periods), more)


def shell_hint(text: str) -> str:
    """Return what to add to a message where a shell seems to have expanded `$5` as a variable: `$5/day` comes as
    `/day`, `$20` as `0`."""
    bare = text.strip()
    taken = not bare or bare[0] in "/," or bare[-1] == "," or not bare.partition("/")[0].strip("0")
    return "; in a shell write 5usd, or quote '$5'" if taken else ""


def _checked(amounts: dict[str, float]) -> tuple[int | None, float | None]:
    tokens, money = amounts.get("tokens"), amounts.get("dollars")
    if tokens is not None and not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"a budget is from 1 to {MOST_TOKENS:,} tokens; type none for no budget")
    if money is not None and not 0 < money <= MOST_DOLLARS:
        raise ValueError(f"a budget is above $0 and at most ${MOST_DOLLARS:,.0f}; type none for no budget")
    return None if tokens is None else round(tokens), money


def _period(named: set[str]) -> Period | None:
    if len(named) > 1:
        raise ValueError(f"one budget counts in one period, not {' and '.join(sorted(named))}")
    return next((each for each in get_args(Period) if each in named), None)


def owner(state: BudgetState) -> str:
    """Return whose budget it is: `alice's budget`, `the budget of alice and its agents`, `the budget of all agents`."""
    if state.owner is None:
        return "the budget of all agents"
    return f"the budget of {state.owner} and its agents" if state.covers == "subtree" else f"{state.owner}'s budget"


def raise_command(state: BudgetState) -> str:
    """Return the command line that raises a budget; the reader fills in the amount. It is safe to paste, whatever
    the owner's name is."""
    if state.owner is None:
        return "hivemind budget --pool AMOUNT"
    return command_line("hivemind budget", state.owner, then="AMOUNT")


def ceiling(tokens: int | None, money: float | None, per: str | None = None, covers: str | None = None) -> str:
    """`200,000 tokens and $5.00 a day`; `none` where there is no ceiling of either kind."""
    parts = [plural(tokens, "token")] if tokens is not None else []
    parts += [dollars(money)] if money is not None else []
    if not (text := " and ".join(parts)):
        return "none"
    text += f" {_A_PERIOD[per]}" if per is not None else ""
    return f"{text} with all that it starts" if covers == "subtree" else text


def how_used(state: BudgetState) -> str:
    """`900 of 1,000 tokens used this run`, `$1.20 of $5.00 used today`; both where it has both ceilings. Where proxies
    share it, with how much of that is this one's."""
    parts = []
    if state.tokens is not None:
        parts.append(f"{state.used_tokens:,} of {plural(state.tokens, 'token')}")
    if state.dollars is not None:
        parts.append(f"{dollars(state.used_dollars)} of {dollars(state.dollars)}")
    if not parts:
        parts = [f"{plural(state.used_tokens, 'token')}, {dollars(state.used_dollars)}"]
    blind = (
        f" (and {plural(state.unpriced, 'token')} without a known price)" if state.unpriced and state.dollars else ""
    )
    guessed = f" (with {plural(state.estimated, 'token')} by estimate)" if state.estimated and state.dollars else ""
    return f"{' and '.join(parts)} used {PERIODS[state.per]}{_by_whom(state)}{blind}{guessed}"


def _by_whom(state: BudgetState) -> str:
    """Return ` by the whole fleet, 300 tokens of it here` where several proxies count against the budget."""
    if state.here_tokens is None:
        return ""
    here = plural(state.here_tokens, "token")
    if state.tokens is None:
        here = dollars(state.here_dollars or 0.0)
    return f" by the whole fleet, {here} of it here"


def field(state: BudgetState) -> bytes:
    """Return the value of the header that warns an agent: a dictionary of RFC 8941, as in `used=0.90, tokens=900,
    tokens-limit=1000, per=run, covers=agent, owner="alice"`. `used` is the share that is used; names are
    percent-encoded."""
    parts = [f"used={min(state.share, 999.0):.3f}"]
    if state.tokens is not None:
        parts += [f"tokens={state.used_tokens}", f"tokens-limit={state.tokens}"]
    if state.dollars is not None:
        parts += [f"dollars={state.used_dollars:.3f}", f"dollars-limit={state.dollars:.3f}"]
    if state.unpriced:
        parts.append(f"unpriced={state.unpriced}")
    parts += [f"per={state.per}", f"covers={state.covers}"]
    if state.owner is not None:
        parts.append(f'owner="{quote(state.owner)}"')
    return ", ".join(parts).encode()
