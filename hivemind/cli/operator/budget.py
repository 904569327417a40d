"""`hivemind budget`: what agents may use, and what they have used."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.cli import changes, client
from hivemind.cli.plugin import Command
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.scheduler.events import BudgetState
from hivemind.text import amounts
from hivemind.text.amounts import WantedBudget, parse_budget, shell_hint
from hivemind.text.humanise import count, dollars, percent
from hivemind.text.table import Cell, TextColumn, lines, styled, width

_COLUMNS = (
    TextColumn("AGENT", cut=True, least=20),
    TextColumn("BUDGET", cut=True, least=20),
    TextColumn("USED"),
    TextColumn("RUN", right=True),
    TextColumn("TODAY", right=True, spare=2),
    TextColumn("IN ALL", right=True, spare=1),
    TextColumn("COST IN ALL", right=True, spare=3),
)
_POOL = "pool"
_EVERYBODY = "(all agents)"
_OTHERS = "(earlier agents)"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [AGENT | --pool] [AMOUNT] [flags]"
    parser.add_argument(
        "words",
        metavar="AGENT",
        nargs="*",
        help="whose (pool: as --pool), and how much: 200k, 5usd, 5usd/day, 200k,5usd, +50k, none",
    )
    parser.add_argument("--pool", action="store_true", help="the budget of all agents together")
    parser.add_argument(
        "--per", choices=("run", "day", "month", "ever"), help="what it counts [as before, else budget.per]"
    )
    parser.add_argument("--covers", choices=("agent", "subtree"), help="the agent alone, or what it starts too")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    words = list(namespace.words)
    if words[:1] == [_POOL] and not namespace.pool:  # as the control room's prompt takes it
        namespace.pool, words = True, words[1:]
    agent = None if namespace.pool or not words else words.pop(0)
    if len(words) > 1:
        raise UsageError("say whose budget and how much, as in hivemind budget alice 200k, or --pool 2M")
    if agent is None and namespace.covers:
        raise UsageError("--covers is for an agent's budget; the pool covers all")
    if words:
        return _set(namespace, agent, words[0])
    if namespace.per or namespace.covers:
        raise UsageError("say how much, as in hivemind budget alice 200k --per day")
    proxy = client.find_proxy(namespace)
    if namespace.pool or agent is not None:
        budget = changes.stands(proxy, agent)
        return client.print_answer(namespace, budget, one(budget))
    budgets = proxy.get("/budgets", BudgetsPart)
    return client.print_answer(namespace, budgets, shown(budgets, width()))


def one(stands: AgentBudget) -> list[str]:
    """One budget in full."""
    if stands.budget is None:
        first = f"{_name(stands)}: no budget"
    else:
        state = stands.budget
        ceiling = amounts.ceiling(state.tokens, state.dollars, state.per, state.covers)
        first = f"{_name(stands)}: {ceiling}; {styled(amounts.how_used(state), _style(state))}"
    rows = [("this run", stands.run), ("today", stands.day), ("this month", stands.month), ("in all", stands.ever)]
    used = [
        f"  {name:10}{spent.tokens:>13,} tokens  {dollars(spent.dollars, spent.unpriced):>10}" for name, spent in rows
    ]
    return [first, *used]


def shown(budgets: BudgetsPart, room: int | None) -> list[str]:
    """Every budget in a table, the pool's first. Agents are followed by their sub-agents, whose usage is theirs too."""
    parts: dict[str | None, list[AgentBudget]] = {}
    for each in budgets.agents:
        parts.setdefault(each.within, []).append(each)
    rows = [_row(budgets.pool), *_rows(parts, None, "")]
    if budgets.others is not None:
        day, ever = budgets.others.day, budgets.others.ever
        cost = dollars(ever.dollars, ever.unpriced)
        rows.append([_OTHERS, "", "", "", count(day.tokens), count(ever.tokens), cost])
    return lines(_COLUMNS, rows, room)


def _rows(parts: Mapping[str | None, Sequence[AgentBudget]], whole: str | None, indent: str) -> list[list[Cell | str]]:
    rows: list[list[Cell | str]] = []
    for each in parts.get(whole, ()):
        rows += [_row(each, indent), *_rows(parts, each.agent, indent + "  ")]
    return rows


def budget_share(state: BudgetState | None) -> Cell:
    """Return `23 % of 200k`, of the ceiling that is nearer; empty where there is none."""
    if state is None or (state.tokens is None and state.dollars is None):
        return Cell("")
    nearer_in_tokens = state.tokens is not None and state.used_tokens / state.tokens >= state.share
    ceiling = count(state.tokens or 0) if nearer_in_tokens or state.dollars is None else dollars(state.dollars)
    return Cell(f"{_percent(state)} of {ceiling}", _style(state))


def _percent(state: BudgetState) -> str:
    return percent(state.share)


def _style(state: BudgetState) -> str:
    return "bad" if state.share >= 1 else "warn" if state.share >= 0.85 else ""


def _row(each: AgentBudget, indent: str = "") -> list[Cell | str]:
    state = each.budget
    ceiling = "none" if state is None else amounts.ceiling(state.tokens, state.dollars, state.per)
    if state is not None and state.covers == "subtree":
        ceiling += ", subtree"
    used = Cell("") if state is None else Cell(_percent(state), _style(state))
    spent = [count(each.run.tokens), count(each.day.tokens), count(each.ever.tokens)]
    return [indent + _name(each), ceiling, used, *spent, dollars(each.ever.dollars, each.ever.unpriced)]


def _name(each: AgentBudget) -> str:
    return _EVERYBODY if each.agent is None else printable(each.agent)


def _set(namespace: argparse.Namespace, agent: str | None, text: str) -> int:
    try:
        wanted = parse_budget(text)
    except ValueError as error:
        raise UsageError(f"{error}{shell_hint(text)}") from None
    if wanted.per is not None and namespace.per not in (None, wanted.per):
        raise UsageError(f"{text.strip()[:40]} says {wanted.per}, and --per says {namespace.per}; say one of them")
    proxy = client.find_proxy(namespace)
    if wanted.more:
        wanted = _raised(wanted, changes.stands(proxy, agent), agent)
    per = wanted.per or namespace.per
    given = {"agent": agent, "tokens": wanted.tokens, "dollars": wanted.dollars, "per": per, "covers": namespace.covers}
    done = proxy.command("SetBudget", **given)
    shown = [] if client.wants_json(namespace) else one(changes.stands(proxy, agent))
    return changes.print_change(namespace, proxy, done, shown)


def _raised(more: WantedBudget, stands: AgentBudget, agent: str | None) -> WantedBudget:
    """Return the present budget with more added; the other ceiling stays. Raises: UsageError."""
    state = stands.budget
    whose = "the pool" if agent is None else agent
    tokens, dollars = (None, None) if state is None else (state.tokens, state.dollars)
    if more.tokens is not None:
        if tokens is None:
            raise UsageError(f"{whose} has no budget in tokens to add to; say how much in all")
        tokens += more.tokens
    if more.dollars is not None:
        if dollars is None:
            raise UsageError(f"{whose} has no budget in dollars to add to; say how much in all")
        dollars += more.dollars
    return WantedBudget(tokens, dollars, more.per)


command = Command(_configure, _run)
