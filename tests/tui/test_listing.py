"""Filters as people type them, and orders."""

from __future__ import annotations

import re

import pytest
from tui.kit import press, screen, seen
from tui.worlds import busy_source, world

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


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
@pytest.mark.parametrize(("page", "panel", "needed"), [("2", "agents-all", "WAITS"), ("3", "requests", "WAITED")])
async def test_sorting_goes_over_the_columns_that_are_shown(
    size: tuple[int, int], page: str, panel: str, needed: str
) -> None:
    """From the left, and after the last one to the usual order; the panel says by what."""
    async with screen(busy_source(), size) as pilot:
        await press(pilot, page)
        heads, sorted_by = seen(pilot, panel).splitlines()[1], []
        while True:
            await press(pilot, "s")
            title, head, *_ = seen(pilot, panel).splitlines()
            if "sorted by" not in title:
                break
            column = re.search(r"(\S+)[▴▾]", head)
            assert column is not None, head
            sorted_by.append(column[1])
            assert column[1].lower()[:4] in title or "activity" in title
        assert needed in sorted_by
        assert len(sorted_by) > 5
        places = [heads.index(name[:4]) for name in sorted_by]
        assert places == sorted(places)
