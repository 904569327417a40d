"""A key among thousands of agents: what its frame costs, in calls, which a busy machine doesn't change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType

import pytest
from tui.test_panels import PANELS
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind_tui.commands import navigation
from hivemind_tui.keys.keymap import footer
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View, ViewBuilder

pytestmark = pytest.mark.e2e


def calls_of(run: Callable[[], object]) -> int:
    """How many calls it makes, resumed generators included."""
    made = count()

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            next(made)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return next(made)


@pytest.mark.parametrize("page", ["overview", "agents"])
def test_a_key_costs_little_more_among_2000_agents_than_among_50(page: str) -> None:
    """The cursor moves, the lists are arranged, and every panel of the page is drawn."""

    def cost(agents: int) -> int:
        full = world(agents=agents)
        full = replace(full, slots=full.slots[:12], queue=full.queue[:100])
        builder = ViewBuilder()
        view = builder.look(View(full, trail=(page,)), FakeSource(full))

        def press() -> None:
            moved = builder.arrange(navigation.move(view, 1))
            footer(moved)
            for render in PANELS.values():
                render(moved, 160, 14, Pen())

        press()  # what is remembered of a snapshot is known from its first frame on
        return calls_of(press)

    many, few = cost(2000), cost(50)
    assert many <= 1.5 * few
