"""The agents that were seen, and the limit on how many may be live."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.agents import KEPT, PAST_KEPT, Agents
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
def test_without_a_limit_no_agent_is_one_too_many(limit: int) -> None:
    """0 means no limit."""
    hands = Hands(lane_config(slots=0), config=SchedulerConfig(max_agents=limit))
    assert all(hands.arrive(f"a{n}").refusal is None for n in range(100))


def reaped(agents: Agents, now: float) -> list[str]:
    """All that are put aside then, step by step."""
    gone: list[str] = []
    while some := agents.reap(now):
        assert len(some) < KEPT / 10
        gone += [agent.name for agent in some]
    return gone


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
    gone = reaped(agents, 600.0)
    assert len(gone) == len(set(gone)) == KEPT - 5
    assert sorted(agents) == ["a0", "a1", "a2", "a3", "one more"]


def test_who_got_a_child_meanwhile_stays() -> None:
    """It was idle at the last look, and is a parent by now."""
    agents = Agents(SchedulerConfig(agent_idle_s=300.0))
    for n in range(KEPT):
        agents.meet(f"a{n}", 0.0)
    agents.reap(600.0)
    last = next(reversed(agents.values()))
    child, _ = agents.meet("child", 600.0)
    child.parent, last.has_children = last, True
    reaped(agents, 600.0)
    assert set(agents) == {last.name, "child"}


@pytest.mark.slow
def test_a_flood_of_names_is_bounded() -> None:
    """Beyond twice as many as are kept at hand no agent needs to have been idle for long; beyond those that are
    remembered, those that used least are forgotten, and their names are kept for the store."""
    agents = Agents(SchedulerConfig(agent_idle_s=300.0))
    worker, _ = agents.meet("worker", 0.0)
    worker.own.ever.tokens = worker.tree.ever.tokens = 10**6
    parent, _ = agents.meet("parent", 0.0)
    parent.tree.ever.tokens = 1
    now = 1.0
    for n in range(30_000):
        now += 0.002
        agent, _ = agents.meet(f"made-up-{n}", now)
        agent.last_seen = now
        agent.own.ever.tokens = agent.tree.ever.tokens = 1
        if n == 0:
            agent.parent, parent.has_children = parent, True
        agents.reap(now)
    assert len(agents) <= 4 * KEPT
    assert len(agents.past) <= PAST_KEPT
    assert "worker" in agents.past
    known = agents.keys() | agents.past.keys()
    assert known | agents.forgotten == {"worker", "parent", *(f"made-up-{n}" for n in range(30_000))}
    assert not known & agents.forgotten
    assert "made-up-0" not in known or "parent" in known, "a parent is forgotten after its children"
