"""What the screen gathers: requests as they change, lists as they are wanted."""

from __future__ import annotations

from dataclasses import replace

from tui.worlds import busy_source

from hivemind_tui.state.view import View, ViewBuilder


def test_marks_of_agents_that_are_gone_fall_away() -> None:
    """A command never goes to somebody who can't be seen any more."""
    source, gatherer = busy_source(), ViewBuilder()
    view = replace(View(source.snapshot()), marked=frozenset({"alice", "gone"}))
    assert gatherer.look(view, source).marked == {"alice"}
