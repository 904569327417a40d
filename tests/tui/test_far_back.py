"""A queue longer than what is shown of it."""

from __future__ import annotations

from tui.kit import text
from tui.requests import requests_of
from tui.worlds import world

from hivemind.records import replace
from hivemind.world.snapshot import QUEUE_SHOWN
from hivemind_tui.panels import agent_page, agent_table, request_page, request_table
from hivemind_tui.render import wait_reason
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View, ViewBuilder


def test_whoever_is_too_far_back_to_be_listed_waits_nevertheless() -> None:
    """The queue is shown with its first hundred; of the others at least that is said, wherever they stand."""
    full = world()
    ticket = next(ticket for ticket in full.queue if ticket.state == "queued")
    agents = tuple(replace(a, state="queued", queued=1) if a.name == "alice" else a for a in full.agents)
    queue = tuple(replace(ticket, agent="somebody", ticket=n) for n in range(QUEUE_SHOWN))
    long = replace(full, agents=agents, slots=(), queue=queue)
    view = ViewBuilder().arrange(replace(View(long), selected="alice"))
    asked = replace(requests_of(long, 1)[0], agent="alice", state="queued", ticket=999)
    for width, height, pen in ((158, 40, Pen()), (80, 20, Pen(boxed=False))):
        assert "behind 100 " in text(agent_table.render(view, width, height, pen))
        assert "waits behind 100 others" in text(agent_page.render_card(view, width, height, pen))
    one = replace(view, trail=("agents", "agent"), requests=(asked,), requests_shown=(asked,))
    assert "behind 100 others" in text(agent_page.render_card(one, 80, 12, Pen()))
    listed = replace(one, trail=("requests",), ticket=999)
    assert "behind 100 " in text(request_table.render(listed, 158, 12, Pen()))
    assert "waits behind 100 others" in text(request_page.render_card(listed, 158, 12, Pen()))
    assert wait_reason.far_back("streaming", long.queue) == wait_reason.far_back("queued", full.queue) == ""
