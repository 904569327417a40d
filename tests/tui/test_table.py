"""Heads of lists: whole words, an arrow where the list is sorted, and what hides said in the title."""

from __future__ import annotations

import pytest
from tui.worlds import world

from hivemind_tui.commands import navigation
from hivemind_tui.panels import agent_table
from hivemind_tui.render.pen import Pen
from hivemind_tui.render.table import hidden_order
from hivemind_tui.sources.base import Link
from hivemind_tui.state.view import View, ViewBuilder


def rendered(sort: str, width: int) -> list[str]:
    """The agents' table, sorted so."""
    view = navigation.sort_by(View(world(), Link()), sort)
    return [row.text for row in agent_table.render(ViewBuilder().arrange(view), width, 20, Pen())]


@pytest.mark.parametrize(("sort", "head"), [("fail", " FAIL▾"), ("cost", " COST▾"), ("name", "AGENT▴")])
def test_the_head_keeps_its_word_beside_the_arrow(sort: str, head: str) -> None:
    """The arrow takes a cell of the gap, and the columns stay where they are."""
    plain, rows = rendered("", 158)[1], rendered(sort, 158)[1]
    assert head in rows
    assert len(rows) == len(plain)
    assert rows.index("WAIT / ERROR") == plain.index("WAIT / ERROR")


def test_an_order_by_a_column_that_isnt_shown_is_told() -> None:
    """In 80 columns there is no room for when an agent was seen, but the list can be sorted by it."""
    assert "by seen" in rendered("seen", 80)[0]
    assert "by seen" not in rendered("seen", 250)[0]
    assert "by " not in rendered("name", 80)[0]
    table = agent_table.AGENTS
    assert hidden_order(table, "seen", table.placed(80)) == "by seen"
    assert hidden_order(table, "", []) == ""
