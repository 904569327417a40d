"""Dynamic priority: which agents sink, rise or are nearly done, and that none starves by it."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.queue import AWAITED_S
from hivemind.scheduler.commands import (
    BeginAgent,
    BoostAgent,
    ClaimTask,
    EndAgent,
    FinishTask,
    PauseAdmissions,
    SetPriority,
    SubmitTasks,
)
from hivemind.scheduler.config import FeedbackConfig, QueueConfig, SchedulerConfig
from hivemind.scheduler.events import Nudged
from hivemind.scheduler.ticket import OVERDUE_S, Ticket
from hivemind.scheduler.types import Priority, TaskSpec, Usage

ON = SchedulerConfig(feedback=FeedbackConfig(enabled=True))


def hands_with(*names: str, config: SchedulerConfig = ON) -> Hands:
    """Agents that are at work and have used nothing yet."""
    hands = Hands(lane_config(slots=50), config=config)
    for name in names:
        hands.leave(hands.arrive(name))
    return hands


def use(hands: Hands, name: str, tokens: int) -> None:
    """Send a request that uses so much; a second later another reply has every agent reviewed."""
    hands.succeed(hands.arrive(name), Usage(tokens, 0, 0, 0))
    hands.wait(1.0)
    hands.scheduler.sample(hands.now)
    hands.gather()


def nudges(hands: Hands) -> dict[str, int]:
    return {name: agent.nudge for name, agent in hands.scheduler.agents.items()}


def test_who_uses_much_sinks_and_who_uses_little_rises() -> None:
    """Measured by the mean of those at work: more than twice as much, less than half."""
    hands = hands_with("a", "b", "c", "d")
    for name, tokens in (("b", 3_000), ("c", 2_500), ("d", 500), ("a", 9_000)):
        hands.succeed(hands.arrive(name), Usage(tokens, 0, 0, 0))
    use(hands, "b", 1)
    assert nudges(hands) == {"a": 1, "b": 0, "c": 0, "d": -1}
    assert [hands.arrive(name).priority.name for name in "abcd"] == ["LOW", "NORMAL", "NORMAL", "HIGH"]


def test_all_parts_of_a_usage_count_by_their_price() -> None:
    """A cache that is read again is hardly work."""
    hands = hands_with("a", "b", "c", "d")
    for name, usage in (
        ("a", Usage(0, 90_000, 0, 0)),
        ("b", Usage(0, 0, 0, 1_800)),
        ("c", Usage(9_000)),
        ("d", Usage(8_000)),
    ):
        hands.succeed(hands.arrive(name), usage)
    use(hands, "d", 1_000)
    assert nudges(hands) == dict.fromkeys("abcd", 0)


def test_where_all_use_the_same_no_agent_moves() -> None:
    """And none that is alone does."""
    hands = hands_with("a", "b", "c")
    for _ in range(5):
        for name in "abc":
            use(hands, name, 1_000)
    assert nudges(hands) == dict.fromkeys("abc", 0)
    alone = hands_with("a")
    use(alone, "a", 50_000)
    assert nudges(alone) == {"a": 0}


def test_what_waits_moves_at_once_and_goes_in_its_new_order() -> None:
    """The one that used little goes before those that came earlier."""
    hands = hands_with("big", "small", "x", "y")
    for name, tokens in (("big", 20_000), ("x", 5_000), ("y", 5_000)):
        hands.succeed(hands.arrive(name), Usage(tokens, 0, 0, 0))
    hands.apply(PauseAdmissions(True))
    waiting = [hands.arrive(name) for name in ("big", "x", "small")]
    hands.wait(1.0)
    hands.scheduler.sample(hands.now)
    assert [ticket.priority.name for ticket in waiting] == ["LOW", "NORMAL", "HIGH"]
    assert [ticket.agent.name for ticket in hands.lane.queue.upcoming(hands.now, 9)] == ["small", "x", "big"]


def test_after_a_while_what_was_used_is_forgotten() -> None:
    """An agent that sank counts as usual again when it was idle for some half-lives and the others went on."""
    hands = hands_with("a", "b", "c", "d")
    use(hands, "a", 20_000)
    assert nudges(hands)["a"] == 1
    for _ in range(60):
        for name in "bcd":
            use(hands, name, 300)
    assert nudges(hands) == dict.fromkeys("abcd", 0)
    hands.arrive("a")  # it is at work, and waits for an answer
    for _ in range(60):
        for name in "bcd":
            use(hands, name, 300)
    assert nudges(hands) == {"a": -1, "b": 0, "c": 0, "d": 0}
    hands.leave(next(iter(hands.scheduler.agents["a"].tickets.values())))
    hands.wait(61.0)
    hands.scheduler.sample(hands.now)
    assert set(nudges(hands).values()) == {0}


def test_it_does_not_flap_around_a_threshold() -> None:
    """An agent that sank stays so until it is half way back to the mean, one that rose likewise."""
    hands = hands_with("a", "b", "c", "d")
    for name in "bcd":
        hands.succeed(hands.arrive(name), Usage(1_000, 0, 0, 0))
    use(hands, "a", 3_100)
    told = []
    for amount in (100, 150, 50, 150, 1_000):
        for name in "bcd":
            hands.succeed(hands.arrive(name), Usage(amount, 0, 0, 0))
        use(hands, "a", 150)
        told.append(nudges(hands)["a"])
    assert told == [1, 1, 1, 1, 0]
    assert [event.classes for event in hands.seen(Nudged) if event.agent == "a"] == [1, 0]


@pytest.mark.parametrize("resumed", [False, True])
def test_an_agent_near_the_end_of_its_task_counts_a_class_higher(resumed: bool) -> None:
    """Though it used much; from four fifths of the estimate on, counted since the task was started, until it ends."""
    hands = hands_with("a", "b", "c", "d")
    use(hands, "a", 5_000)
    hands.apply(SubmitTasks((TaskSpec("t", estimated_tokens=10_000, agent="a"),)))
    hands.apply(ClaimTask("t", "r"))
    if resumed:
        hands = restarted(hands)
    use(hands, "a", 7_900)
    assert nudges(hands)["a"] == (1 if not resumed else nudges(hands)["a"])
    use(hands, "a", 200)
    assert nudges(hands)["a"] == -1
    assert hands.arrive("a").priority is Priority.HIGH
    hands.apply(FinishTask("t", True))
    use(hands, "a", 1)
    assert nudges(hands)["a"] != -1


def restarted(hands: Hands) -> Hands:
    """The proxy begins anew with what was saved."""
    kept = hands.scheduler.take_unsaved()
    after = Hands(lane_config(slots=50), config=ON)
    after.scheduler.restore(kept.agents.values(), filter(None, kept.tasks.values()), 0.0, new_run=False)
    for name in "abcd":
        after.leave(after.arrive(name))
    after.wait(1.0)
    after.scheduler.sample(after.now)
    after.gather()
    return after


def test_it_never_makes_anybody_critical_nor_touches_what_is() -> None:
    """HIGH stays HIGH where it would rise, CRITICAL stays CRITICAL where it would sink, LOW can't sink."""
    hands = hands_with("big", "low", "b", "c", "d", "e", "f", "small")
    hands.succeed(hands.arrive("big"), Usage(40_000, 0, 0, 0))
    use(hands, "low", 40_000)
    assert (nudges(hands)["big"], nudges(hands)["low"], nudges(hands)["small"]) == (1, 1, -1)
    asked = [("big", Priority.CRITICAL), ("low", Priority.LOW), ("small", Priority.HIGH), ("small", Priority.CRITICAL)]
    assert [hands.arrive(name, priority=priority).priority for name, priority in asked] == [
        Priority.CRITICAL, Priority.LOW, Priority.HIGH, Priority.CRITICAL
    ]  # fmt: skip


def test_an_operators_decision_goes_before_it() -> None:
    """A priority and a boost alike."""
    hands = hands_with("big", "b", "c", "d")
    use(hands, "big", 40_000)
    hands.apply(SetPriority("b", Priority.LOW))
    hands.apply(SetPriority("big", Priority.HIGH))
    assert [hands.arrive(name).priority for name in ("big", "b")] == [Priority.HIGH, Priority.LOW]
    hands.apply(BoostAgent("big", 5.0))
    assert hands.arrive("big").priority is Priority.CRITICAL


def test_an_agent_that_has_ended_is_not_at_work() -> None:
    """So it isn't part of the mean, and begins level when it comes again."""
    hands = hands_with("a", "b", "c", "d")
    use(hands, "a", 9_000)
    hands.apply(EndAgent("a"))
    use(hands, "b", 100)
    assert nudges(hands)["a"] == 0
    hands.apply(BeginAgent("a"))
    use(hands, "b", 100)
    assert nudges(hands)["a"] == 1


def test_switched_off_no_agent_moves() -> None:
    """As it is by default."""
    hands = hands_with("a", "b", "c", "d", config=SchedulerConfig())
    use(hands, "a", 90_000)
    assert set(nudges(hands).values()) == {0}
    assert not hands.seen(Nudged)


# --- No agent starves -------------------------------------------------------------------------------------------------

TOOK_S = 0.5


def longest_waits(seed: int, agents: int, slots: int, newcomers: float) -> tuple[float, int]:
    """Agents of all classes and sizes that always have a request or two waiting; in addition, with this probability at
    every answer, a new agent with one request. Returns the longest wait, and how many at most waited at once."""
    random = Random(seed)
    config = SchedulerConfig(queue=QueueConfig(max_wait_s=1e9), feedback=FeedbackConfig(enabled=True, half_life_s=20.0))
    hands = Hands(lane_config(slots=slots), config=config)
    scale = {f"a{n}": random.choice([1, 1, 3, 20, 80]) for n in range(agents)}
    urgency = {name: random.choice([None, *Priority]) for name in scale}
    flying: list[tuple[float, int, Ticket]] = []
    longest, most = 0.0, 0

    def ask(name: str) -> None:
        ticket = hands.arrive(name, size=400 * scale.get(name, 1), priority=urgency.get(name))
        if not ticket.waiting:
            hands.granted.append(ticket)
        launch()

    def launch() -> None:
        nonlocal longest, most
        for granted in hands.granted:
            longest = max(longest, granted.granted_at - granted.arrived_at)
            most = max(most, hands.lane.queue.waiting)
            heappush(flying, (hands.now + TOOK_S * random.uniform(0.5, 1.5), granted.id, granted))
        hands.granted.clear()

    for name in scale:
        ask(name)
    for name in random.sample(list(scale), agents // 2):
        ask(name)
    number = 0
    while hands.now < 600.0:
        while not flying:
            hands.wait(AWAITED_S)  # a slot is kept for a more urgent agent
            launch()
        at, _, ticket = heappop(flying)
        hands.until(at)
        name = ticket.agent.name
        size = scale.get(name, 1)
        hands.succeed(ticket, Usage(100 * size, 0, 0, 50 * size))
        launch()
        if random.random() < newcomers:
            number += 1
            ask(f"new{number}")
        if name in scale:
            ask(name)
    waiting = [each for agent in hands.scheduler.agents.values() for each in agent.tickets.values() if each.waiting]
    return max([longest, *(hands.now - ticket.arrived_at for ticket in waiting)]), most


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**9),
    agents=st.integers(2, 12),
    slots=st.integers(1, 4),
    newcomers=st.sampled_from([0.0, 0.03]),
)
def test_with_it_on_every_ticket_is_granted_within_a_bound(
    seed: int, agents: int, slots: int, newcomers: float
) -> None:
    """An agent that has waited OVERDUE_S is next in its class, after those that have waited longer, and every class has
    its turn: so each of an agent's two tickets waits so long at most, whatever others use, and however many come."""
    longest, most = longest_waits(seed, agents, slots, newcomers)
    in_turn_s = (QueueConfig().max_passes + len(Priority)) * 1.5 * TOOK_S / slots
    assert longest <= 2 * (OVERDUE_S + (most + 1) * in_turn_s)
