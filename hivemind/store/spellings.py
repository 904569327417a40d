"""Joining what was kept under several spellings of one agent's name, from when `Alice` and `alice` were two agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hivemind.agent_names import fold, tidied
from hivemind.scheduler.accounts import POOL, Budget
from hivemind.scheduler.persistence import Counts, SavedAgent


def key(name: str) -> str:
    """Return what is equal for all that earlier versions may have called one agent."""
    return fold(tidied(name))


def spellings(agents: Iterable[tuple[str, bool]], others: Iterable[str] = ()) -> dict[str, str]:
    """Return the spelling of each agent by its :func:`key`.

    `agents` are names with whether something was decided about the agent, those that were seen longest ago first. A
    spelling about which something was decided goes before others, then the one that was seen last. What is a part of
    another (`alice/sub`) is spelled as that one. `others` are names that are known without a record of their own.
    """
    chosen: dict[str, str] = {}
    ordered = sorted(agents, key=lambda each: (each[0].count("/"), each[1]))
    for name in [name for name, _ in ordered if name != POOL]:
        chosen[key(name)] = _within(tidied(name) or name, chosen)
    for name in sorted(others, key=lambda name: name.count("/")):
        chosen.setdefault(key(name), _within(tidied(name) or name, chosen))
    return chosen


def _within(name: str, chosen: Mapping[str, str]) -> str:
    whole, slash, part = name.rpartition("/")
    return f"{chosen.get(key(whole), whole)}/{part}" if slash else name


def joined(name: str, records: Sequence[SavedAgent], spelled: Mapping[str, str]) -> SavedAgent:
    """Return the one record of an agent, of those that were kept of it.

    What was used is added up. It is paused or stopped if it was under any name, and of each kind of ceiling the lowest
    holds; where budgets can't be compared, because they count other periods or other agents, the first one's does.
    """
    names = {record.name for record in records}
    apart = [record for record in records if record.parent not in names]  # else its parent's count includes its own
    parents = (spelled.get(key(record.parent), record.parent) for record in records if record.parent is not None)
    priorities = [record.priority for record in records if record.priority is not None]
    return replace(
        records[0],
        name=name,
        parent=next((parent for parent in parents if parent != name), None),
        priority=priorities[0] if priorities else None,
        paused=any(record.paused for record in records),
        stopped=any(record.stopped for record in records),
        budget=_lowest([record.budget for record in records if record.budget is not None]),
        own=_sum(record.own for record in records),
        tree=_sum(record.tree for record in apart or records),
    )


def _lowest(budgets: Sequence[Budget]) -> Budget | None:
    limiting = [budget for budget in budgets if budget] or budgets
    if not limiting:
        return None
    first = limiting[0]
    alike = [budget for budget in limiting if (budget.per, budget.covers) == (first.per, first.covers)]
    tokens = [budget.tokens for budget in alike if budget.tokens is not None]
    dollars = [budget.dollars for budget in alike if budget.dollars is not None]
    return replace(first, tokens=min(tokens, default=None), dollars=min(dollars, default=None))


def _sum(counts: Iterable[Counts]) -> Counts:
    total = Counts()
    for each in counts:
        total = Counts(
            total.ever.plus(each.ever),
            total.at_day.plus(each.at_day),
            total.at_run.plus(each.at_run),
            total.flying.plus(each.flying),
        )
    return total
