from __future__ import annotations

import math
from typing import Any

import pytest
from tools.kit import ABOUT
from world.kit import arrived, budget, granted, sampled, state, told

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, LaneState, WindowState
from hivemind.scheduler.types import Usage, WindowKind
from hivemind.tools.outputs import Headroom
from hivemind.tools.proxy_tools import headroom
from hivemind.world.snapshot import AgentView, LaneView, Snapshot, Totals, budgets_of

TYPICAL = 1_000
"""Tokens that a request used so far."""


def window(kind: WindowKind, remaining: float) -> WindowState:
    """A provider's, with so much left."""
    return WindowState("model", kind, 100_000.0, 0.0, 0.0, remaining, 30.0, "headers")


def world(*lanes: LaneState, agents: tuple[AgentView, ...] = (), **about: Any) -> Snapshot:
    """Ten requests were answered so far, each with as many tokens and for a cent."""
    totals = Totals(10, 10, usage=Usage(TYPICAL * 9, 0, 0, TYPICAL), dollars=0.1)
    shown = tuple(LaneView(lane, ()) for lane in lanes)
    values = {"lanes": shown, "agents": agents, "totals": totals, **about}
    return replace(told().snapshot(1.0), **values)


def agent(name: str, parent: str | None = None, **about: Any) -> AgentView:
    """One that was seen."""
    (view,) = told(arrived(agent=name)).snapshot(1.0).agents
    values = {"parent": parent, "in_flight": 0, "queued": 0, **about}
    return replace(view, **values)


def room(snapshot: Snapshot, who: str | None = None, max_agents: int = 0, upstream: str | None = None) -> Headroom:
    """What is told."""
    return headroom(snapshot, replace(ABOUT, max_agents=max_agents), who, upstream)


@pytest.mark.parametrize(
    ("lane", "agents_now"),
    [
        (state(4.0, active=1), 3),
        (state(4.9, active=1), 3),
        (state(4.0, active=4), 0),
        (state(4.0, active=6), 0),
        (state(0.5, active=0), 1),
        (state(4.0, active=1, waiting=2), 1),
        (state(4.0, active=1, waiting=2, retrying=5), 0),
        (state(8.0, active=0, windows=(window(WindowKind.REQUESTS, 2),)), 2),
        (state(8.0, active=0, windows=(window(WindowKind.TOKENS, 3.9 * TYPICAL),)), 3),
        (state(8.0, active=0, windows=(window(WindowKind.INPUT, 90 * TYPICAL), window(WindowKind.OUTPUT, 500))), 0),
        (state(8.0, active=0, windows=(window(WindowKind.TOKENS, math.inf),)), 8),
        (state(math.inf, active=9), None),
        (state(math.inf, active=9, windows=(window(WindowKind.REQUESTS, 5),)), 5),
    ],
)
def test_room_in_a_lane(lane: LaneState, agents_now: int | None) -> None:
    """Whole free slots, less whoever waits for one already, and no more than the provider's minute has left."""
    found = room(world(lane))
    assert (found.agents_now, found.requests_now) == (agents_now, agents_now)
    assert ("room for" in found.advice) is bool(agents_now)


@pytest.mark.parametrize(
    ("mode", "lane", "words"),
    [
        ("paused", state(4.0), "paused"),
        ("draining", state(4.0), "shutting down"),
        ("serving", state(4.0, circuit="open", circuit_reopens_in_s=7.0), "a probe goes in 7 s"),
        ("serving", state(4.0, rate_limited_for_s=12.0), "asked to wait 12 s"),
    ],
)
def test_nothing_starts(mode: str, lane: LaneState, words: str) -> None:
    """What keeps everybody waiting leaves no room at all, and the advice names it."""
    found = room(world(lane, mode=mode))
    assert (found.agents_now, found.requests_now) == (0, 0)
    assert words in found.advice


def test_nothing_known_yet() -> None:
    """Before the first request no limit is known, and none is made up."""
    found = room(world())
    assert (found.agents_now, found.requests_now, found.free_slots) == (None, None, None)
    assert "aren't known" in found.advice


def test_places() -> None:
    """As many agents as may run at once, whatever slots are free: a process that runs takes a place even while it asks
    for nothing, and one that nobody started does while it asks."""
    agents = (agent("a", running=True), agent("b", running=False), agent("c", in_flight=1), agent("d"))
    snapshot = world(state(9.0, active=1), agents=agents)
    assert [room(snapshot, max_agents=most).agents_now for most in (0, 5, 3, 2, 1)] == [8, 3, 1, 0, 0]
    assert "places" in room(snapshot, max_agents=2).advice


def test_own_lane() -> None:
    """An agent's own lane counts where it has one, and an upstream that is named; else the lane with the most room."""
    events = (arrived(1, "ann", lane="up:1"), granted(1), sampled(2.0, state(4.0, active=4)))
    lanes = (state(4.0, active=4), state(9.0, lane="other:2", upstream="other", active=1))
    snapshot = replace(told(*events).snapshot(3.0), lanes=tuple(LaneView(lane, ()) for lane in lanes))
    assert [room(snapshot, who).free_slots for who in ("ann", "bob", None)] == [0, 8, 8]
    assert room(snapshot, "ann", upstream="other").free_slots == 8


def test_budgets_that_hold() -> None:
    """An agent's own, those of its ancestors that cover it, and the pool's; a circle of parents ends."""
    pool, subtree = budget(None), budget("root", covers="subtree")
    agents = (
        agent("root", "kid", budget=subtree),
        agent("mid", "root", budget=budget("mid")),
        agent("kid", "mid", budget=budget("kid")),
    )
    snapshot = world(agents=agents, pool=pool)
    assert [each.owner for each in budgets_of(snapshot, "kid")] == ["kid", "root", None]
    assert [each.owner for each in budgets_of(snapshot, "root")] == ["root", None]
    assert [each.owner for each in budgets_of(snapshot, "stranger")] == [None]


@pytest.mark.parametrize(
    ("own", "agents_now", "words"),
    [
        (budget(tokens=1_000_000), 8, "1,000,000 tokens"),
        (budget(tokens=45_000), 2, "room for 2 more agents"),
        (budget(tokens=45_000, reserved_tokens=20_000), 1, "1 more agent "),
        (budget(tokens=5_000, used_tokens=2_000), 0, "rather than fan out"),
        (budget(tokens=5_000, used_tokens=4_990), 0, "rather than fan out"),
        (budget(tokens=5_000, used_tokens=5_000), 0, "used up"),
        (budget(tokens=None, dollars=0.5), 2, "$0.50"),
        (budget(tokens=None, dollars=0.5, used_dollars=0.45), 0, "rather than fan out"),
    ],
)
def test_budgets_leave_room(own: BudgetState, agents_now: int, words: str) -> None:
    """Each agent should be able to make some requests of the usual size and price with what its budgets leave."""
    found = room(world(state(8.0, active=0), agents=(agent("ann", budget=own),)), "ann")
    assert found.agents_now == agents_now
    assert words in found.advice


def test_stopped() -> None:
    """An agent that an operator stopped is told so, whatever room there is."""
    found = room(world(state(8.0, active=0), agents=(agent("ann", stopped=True),)), "ann")
    assert found.agents_now == 0
    assert "stopped you" in found.advice


def test_queue() -> None:
    """Where others wait already the advice counts them."""
    assert "1 request waits" in room(world(state(2.0, active=2, waiting=1), queued=1)).advice
    assert "9 requests wait" in room(world(state(2.0, active=2, waiting=9), queued=9)).advice
    assert "in a while" in room(world(state(2.0, active=2))).advice
