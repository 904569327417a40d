"""The agents that were seen, and the limit on how many may be live."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.agents import KEPT, Agents
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.types import Priority

LIMITED = SchedulerConfig(max_agents=2, agent_idle_s=300.0)


def limited() -> Hands:
    return Hands(lane_config(slots=0), config=LIMITED)


def test_an_agent_too_many_is_turned_away() -> None:
    """The fork-bomb limit: the third agent is refused and not remembered."""
    hands = limited()
    hands.arrive("a")
    hands.arrive("b")
    refused = hands.arrive("c")
    assert refused.refusal is not None
    assert refused.refusal.reason == "too_many_agents"
    assert "c" not in hands.scheduler.agents


def test_the_live_ones_may_ask_as_much_as_they_like() -> None:
    """The limit counts agents, not requests."""
    hands = limited()
    tickets = [hands.arrive(name) for name in "abababab"]
    assert [ticket.refusal for ticket in tickets] == [None] * 8


def test_an_idle_agent_makes_room() -> None:
    """One that asked for nothing for agent_idle_s isn't live."""
    hands = limited()
    for name in "ab":
        hands.succeed(hands.arrive(name))
    hands.wait(300.0)
    assert hands.arrive("c").refusal is None


def test_an_agent_in_flight_is_live_however_long() -> None:
    """It holds a ticket."""
    hands = limited()
    for name in "ab":
        hands.arrive(name)
    hands.wait(10_000.0)
    assert hands.arrive("c").refusal is not None


def test_one_that_comes_back_counts_anew() -> None:
    """An agent that was idle while others took its place is one too many like any other."""
    hands = limited()
    for name in "ab":
        hands.succeed(hands.arrive(name))
    hands.wait(300.0)
    hands.arrive("c")
    hands.arrive("d")
    assert hands.arrive("a").refusal is not None


@pytest.mark.parametrize("limit", [0, KEPT])
def test_without_a_limit_nobody_is_one_too_many(limit: int) -> None:
    """0 means no limit."""
    hands = Hands(lane_config(slots=0), config=SchedulerConfig(max_agents=limit))
    assert all(hands.arrive(f"a{n}").refusal is None for n in range(100))


def test_forgets_long_idle_agents_when_there_are_too_many() -> None:
    """But none that holds a ticket, is young, or was given a priority or a pause."""
    agents = Agents(SchedulerConfig(agent_idle_s=300.0))
    for n in range(KEPT - 1):
        agents.meet(f"a{n}", 0.0)
    agents["a0"].priority = Priority.HIGH
    agents["a1"].paused = True
    agents["a2"].tickets[1] = Hands().arrive()
    agents["a3"].last_seen = 500.0
    assert agents.reap(600.0) == []
    agents.meet("one more", 600.0)
    gone = agents.reap(600.0)
    assert len(gone) == KEPT - 5
    assert sorted(agents) == ["a0", "a1", "a2", "a3", "one more"]
