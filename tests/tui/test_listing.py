"""Filters as people type them, and orders."""

from __future__ import annotations

import pytest
from tui.worlds import world

from hivemind_tui.state.lists import AGENT_KEYS, SortOrder, agent_fields, arranged, matching

AGENTS_HERE = world().agents


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("bob", {"bob"}),
        ("BOB", {"bob"}),
        ("agent:ar", {"carol", "mallory-refactors"} & {agent.name for agent in AGENTS_HERE if "ar" in agent.name}),
        ("state:retry", {"erin"}),
        ("st:retry", {"erin"}),
        ("state:stream !agent:a", {a.name for a in AGENTS_HERE if a.state == "streaming" and "a" not in a.name}),
        ("nobody", set()),
        ("unknown:x", set()),
        ("!", set()),
    ],
)
def test_words_narrow_the_list(text: str, names: set[str]) -> None:
    """All words must fit; a field may be named, by its beginning too; ! turns a word round."""
    assert {agent.name for agent in matching(AGENTS_HERE, text, agent_fields)} == names


def test_an_empty_filter_keeps_all() -> None:
    """Blanks are no words."""
    assert matching(AGENTS_HERE, "   ", agent_fields) == list(AGENTS_HERE)


def test_what_is_unknown_comes_last_whichever_way() -> None:
    """An agent without a budget stands below all that have one, up and down."""
    for reverse in (False, True):
        order = SortOrder(sort="budget", reverse=reverse)
        shown = arranged(AGENTS_HERE, order, agent_fields, AGENT_KEYS)
        known = [agent.budget is not None for agent in shown]
        assert known == sorted(known, reverse=True)
        assert len(shown) == len(AGENTS_HERE)


@pytest.mark.parametrize("column", sorted(AGENT_KEYS))
def test_every_column_sorts(column: str) -> None:
    """Each column that says it sorts does, and back."""
    up = arranged(AGENTS_HERE, SortOrder(sort=column), agent_fields, AGENT_KEYS)
    key = AGENT_KEYS[column]
    values = [key(agent) for agent in up if key(agent) is not None]
    assert values == sorted(values)
