"""What the screen gathers: requests as they change, lists as they are wanted."""

from __future__ import annotations

from dataclasses import replace

from tui.worlds import FakeSource, busy_source, world

from hivemind_tui.commands import navigation
from hivemind_tui.state.view import View, ViewBuilder


def at_requests(source: FakeSource) -> View:
    return navigation.page(View(source.snapshot()), "requests")


def test_requests_are_asked_for_where_they_are_shown() -> None:
    """The overview doesn't need them, so it doesn't ask; on their page they stand newest first."""
    source, gatherer = busy_source(), ViewBuilder()
    assert gatherer.look(View(source.snapshot()), source).requests == ()
    shown = gatherer.look(at_requests(source), source)
    assert [request.ticket for request in shown.listed] == list(range(60, 0, -1))


def test_only_what_changed_is_taken_in() -> None:
    """A later look brings the new state of one request and keeps the others as they are."""
    source, gatherer = busy_source(), ViewBuilder()
    view = gatherer.look(at_requests(source), source)
    changed = replace(view.requests[0], last_error="503 later")
    source.remembered, source.revision = (changed,), 2
    again = gatherer.look(view, source)
    assert again.requests[0] is changed
    assert again.requests[1] is view.requests[1]
    assert len(again.requests) == 60


def test_an_unchanged_list_isnt_arranged_again() -> None:
    """Sorting two thousand requests several times a second is for nothing while none changed."""
    source, gatherer = busy_source(), ViewBuilder()
    view = gatherer.look(at_requests(source), source)
    assert gatherer.look(view, source).requests_shown is view.requests_shown


def test_a_frozen_view_keeps_the_world_and_still_filters() -> None:
    """The moment stands still; looking around in it doesn't."""
    source, gatherer = busy_source(), ViewBuilder()
    view = replace(gatherer.look(View(source.snapshot()), source), frozen=True)
    source.become(world(agents=3))
    still = gatherer.look(navigation.filtered(view, "bob"), source)
    assert len(still.snapshot.agents) == 11
    assert [agent.name for agent in still.agents] == ["bob"]


def test_marks_of_agents_that_are_gone_fall_away() -> None:
    """A command never goes to somebody who can't be seen any more."""
    source, gatherer = busy_source(), ViewBuilder()
    view = replace(View(source.snapshot()), marked=frozenset({"alice", "gone"}))
    assert gatherer.look(view, source).marked == {"alice"}
