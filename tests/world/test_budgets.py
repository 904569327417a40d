"""Budgets as the samples have them, and who is out of one."""

from __future__ import annotations

from typing import Any

import pytest
from world.kit import arrived, budget, commanded, granted, only_agent, sampled, told

from hivemind.scheduler import events as ev
from hivemind.world.snapshot import Snapshot


def states(snapshot: Snapshot) -> dict[str, str]:
    """Of each agent."""
    return {agent.name: agent.state for agent in snapshot.agents}


def test_a_budget_is_shown_until_it_is_lifted() -> None:
    """As the last sample had it."""
    world = told(arrived(), sampled(1.0, budgets=(budget(used_tokens=900),)))
    assert only_agent(world.snapshot(2.0)).budget == budget(used_tokens=900)
    world.apply(sampled(2.0, budgets=(budget(used_tokens=950),)))
    assert only_agent(world.snapshot(2.0)).budget == budget(used_tokens=950)
    world.apply(sampled(3.0))
    assert only_agent(world.snapshot(3.0)).budget is None


def test_the_pool_is_shown_apart() -> None:
    """It is nobody's in particular."""
    world = told(arrived(), sampled(1.0, budgets=(budget(None),)))
    assert world.snapshot(2.0).pool == budget(None)
    assert only_agent(world.snapshot(2.0)).budget is None
    world.apply(sampled(2.0))
    assert world.snapshot(2.0).pool is None


@pytest.mark.parametrize(
    ("spent", "out"),
    [
        (budget(None, used_tokens=5_000), {"ann", "bob", "cy"}),
        (budget("ann", used_tokens=5_000), {"ann"}),
        (budget("ann", used_tokens=5_000, covers="subtree"), {"ann", "bob", "cy"}),
        (budget("bob", dollars=1.0, used_dollars=1.0, covers="subtree"), {"bob", "cy"}),
        (budget("ann", used_tokens=4_999, covers="subtree"), set()),
    ],
    ids=["pool", "own", "subtree", "dollars", "not yet"],
)
def test_who_is_out_of_budget(spent: ev.BudgetState, out: set[str]) -> None:
    """Whoever is charged to one of which nothing is left."""
    world = told(arrived(1, "ann"), arrived(2, "bob", parent="ann"), arrived(3, "cy", parent="bob"))
    world.apply(sampled(1.0, budgets=(spent,)))
    assert {name for name, state in states(world.snapshot(2.0)).items() if state == "spent"} == out


def test_whoever_flies_is_shown_flying() -> None:
    """Though nothing more will follow; and one that is stopped is shown stopped."""
    world = told(arrived(1), granted(1), arrived(2, "bob"), commanded("StopAgent", agent="bob", stopped=True))
    world.apply(sampled(1.0, budgets=(budget(used_tokens=5_000), budget("bob", used_tokens=9_000))))
    assert states(world.snapshot(2.0)) == {"ann": "waiting", "bob": "stopped"}


def test_agents_that_name_each_other_as_parents_end_the_search() -> None:
    """Whatever a recording says."""
    world = told(arrived(1, "ann", parent="bob"), arrived(2, "bob", parent="ann"), arrived(3, "cy"))
    world.apply(sampled(1.0, budgets=(budget("cy", used_tokens=5_000, covers="subtree"),)))
    assert states(world.snapshot(2.0)) == {"ann": "queued", "bob": "queued", "cy": "spent"}


@pytest.mark.parametrize(
    ("agent", "about", "text"),
    [
        ("ann", {"tokens": 6_000}, "budget 5,000 tokens -> 6,000 tokens"),
        ("ann", {"tokens": None, "dollars": 5.0, "per": "day"}, "budget 5,000 tokens a run -> $5.00 a day"),
        ("ann", {"tokens": None}, "has no budget any more"),
        ("ann", {"tokens": 9, "covers": "subtree"}, "budget 5,000 tokens -> 9 tokens with all that it starts"),
        ("bob", {"tokens": 7_000, "dollars": 2.0}, "budget is 7,000 tokens and $2.00 now"),
        (None, {"tokens": 8_000}, "budget 5,000 tokens -> 8,000 tokens"),
    ],
)
def test_what_is_told_of_a_new_budget(agent: str | None, about: dict[str, Any], text: str) -> None:
    """What it was, as far as the two can be compared."""
    world = told(arrived(), sampled(1.0, budgets=(budget(None), budget())))
    world.apply(commanded("SetBudget", agent=agent, **about))
    line = world.snapshot(2.0).lines[-1]
    assert (line.who, line.text) == (agent or "all", text)
