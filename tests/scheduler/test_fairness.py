"""How much each agent gets, over time, when there isn't enough for all."""

from __future__ import annotations

from heapq import heappop, heappush

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.queue import AWAITED_S
from hivemind.scheduler.commands import SetPriority
from hivemind.scheduler.config import QueueConfig
from hivemind.scheduler.ticket import OVERDUE_S, Ticket
from hivemind.scheduler.types import Priority, Usage

TOOK_S = 0.5


class Saturation:
    """Agents that each keep some requests waiting; an answer takes TOOK_S, or as long as its agent's tokens do."""

    def __init__(self, slots: int, queue: QueueConfig | None = None) -> None:
        self.hands = Hands(lane_config(slots=slots), queue=queue)
        self.waits: list[tuple[str, float]] = []
        self.served: list[tuple[float, str, float]] = []
        self.leaves: set[str] = set()
        """Agents that ask for nothing more."""
        self._flying: list[tuple[float, int, Ticket]] = []
        self._scale: dict[str, int] = {}
        self._priority: dict[str, Priority] = {}
        self._parents: dict[str, str | None] = {}

    def join(
        self,
        name: str,
        *,
        waiting: int = 3,
        scale: int = 1,
        priority: Priority = Priority.NORMAL,
        parent: str | None = None,
    ) -> None:
        """The agent's requests and answers are `scale` times as long as usual."""
        self._scale[name], self._priority[name], self._parents[name] = scale, priority, parent
        for _ in range(waiting):
            self.ask(name)

    def ask(self, name: str) -> None:
        scale = self._scale[name]
        ticket = self.hands.arrive(name, size=400 * scale, priority=self._priority[name], parent=self._parents[name])
        if not ticket.waiting:
            self.hands.granted.append(ticket)
        self._launch()

    def run(self, until_s: float) -> None:
        while self._flying and self._flying[0][0] <= until_s:
            at, _, ticket = heappop(self._flying)
            self.hands.until(at)
            name = ticket.agent.name
            usage = Usage(100 * self._scale[name], 0, 0, 50 * self._scale[name])
            self.served.append((at, name, usage.weighted))
            self.hands.succeed(ticket, usage)
            self._launch()
            if name not in self.leaves:
                self.ask(name)

    def _launch(self) -> None:
        for ticket in self.hands.granted:
            name = ticket.agent.name
            self.waits.append((name, ticket.granted_at - ticket.arrived_at))
            heappush(self._flying, (self.hands.now + TOOK_S, ticket.id, ticket))
        self.hands.granted.clear()


def jain(amounts: list[float]) -> float:
    """Jain's fairness index: 1 where all have the same, 1/n where one has all."""
    return sum(amounts) ** 2 / (len(amounts) * sum(amount**2 for amount in amounts))


def worst_minute(world: Saturation, agents: int, lasts_s: float) -> float:
    """The smallest Jain index of the weighted tokens over any minute that begins on a half second."""
    worst = 1.0
    amounts = dict.fromkeys((f"a{n}" for n in range(agents)), 0.0)
    first = last = 0
    for start in range(0, int(2 * (lasts_s - 60)) + 1):
        while last < len(world.served) and world.served[last][0] <= start / 2 + 60:
            _, name, tokens = world.served[last]
            amounts[name] += tokens
            last += 1
        while first < last and world.served[first][0] <= start / 2:
            _, name, tokens = world.served[first]
            amounts[name] -= tokens
            first += 1
        worst = min(worst, jain(list(amounts.values())))
    return worst


@pytest.mark.parametrize(
    ("slots", "waiting", "place"),
    [
        (4, 8, 0),
        (5, 1, 5),
        *(
            pytest.param(slots, waiting, place, marks=pytest.mark.slow)
            for slots, waiting in ((4, 8), (5, 1), (10, 8), (20, 8))
            for place in (0, 5, 9)
        ),
    ],
)
def test_ten_agents_share_by_tokens_though_one_sends_twenty_times_as_many(slots: int, waiting: int, place: int) -> None:
    """Jain's index of the weighted tokens is at least 0.95 over any minute from the first grant on, wherever in the
    line the big one stands and whether agents ask at one place or at several. First at four slots it asks at two places
    only: with four answers of its size it would have half as much again as a fair minute before any other came."""
    alone_before = place == 0 and slots == 4
    world = Saturation(slots)
    for n in range(10):
        world.join(f"a{n}", scale=20 if n == place else 1, waiting=2 if alone_before else waiting)
    world.run(180.0)
    assert worst_minute(world, 10, 180.0) >= 0.95


@pytest.mark.slow
def test_an_agent_that_had_the_lane_for_itself_is_not_kept_waiting_for_it() -> None:
    """Two minutes of all slots without competition, and then nine others: the next ones are shared evenly."""
    world = Saturation(slots=10)
    world.join("a0", scale=20, waiting=10)
    world.run(120.0)
    for n in range(1, 10):
        world.join(f"a{n}", waiting=8)
    world.run(300.0)
    amounts = dict.fromkeys((f"a{n}" for n in range(10)), 0.0)
    for at, name, tokens in world.served:
        if at > 121.0:
            amounts[name] += tokens
    assert jain(list(amounts.values())) >= 0.95
    assert amounts["a0"] > 0.5 * amounts["a1"]


def test_a_slot_is_kept_a_moment_and_no_longer_for_whose_turn_it_would_be() -> None:
    """An answer of one that was served little has come: one that was served much waits AWAITED_S for its next request,
    and is sent if there is none."""
    hands = Hands(lane_config(slots=1))
    first = hands.arrive("much")
    others = [hands.arrive("much"), hands.arrive("little"), hands.arrive("little")]
    hands.succeed(first, Usage(10_000, 0, 0, 1000))
    hands.succeed(others[1], Usage(100, 0, 0, 10))
    hands.succeed(others[2], Usage(100, 0, 0, 10))
    assert others[0].in_queue
    again = hands.arrive("little")
    assert not again.in_queue
    hands.succeed(again, Usage(100, 0, 0, 10))
    assert others[0].in_queue
    hands.wait(AWAITED_S)
    assert not others[0].in_queue


def test_an_urgent_agent_finds_its_slot_when_it_comes_back_at_once() -> None:
    """Also where all answers end at the same moment, and the others are asked first."""
    world = Saturation(slots=4)
    world.join("urgent", waiting=1, priority=Priority.CRITICAL)
    for n in range(50):
        world.join(f"low-{n}", waiting=1, priority=Priority.LOW)
    world.run(60.0)
    waits = [wait for name, wait in world.waits if name == "urgent"]
    assert len(waits) > 50
    assert max(waits) <= AWAITED_S


def test_an_urgent_agent_among_fifty_unimportant_ones_waits_a_slot_time() -> None:
    """At the 95th percentile of its requests."""
    world = Saturation(slots=4)
    for n in range(50):
        world.join(f"low-{n}", priority=Priority.LOW)
    world.join("urgent", waiting=1, priority=Priority.CRITICAL)
    world.run(120.0)
    waits = sorted(wait for name, wait in world.waits if name == "urgent")
    assert len(waits) > 50
    assert waits[int(0.95 * len(waits))] <= TOOK_S


def test_a_low_priority_agent_under_a_flood_of_urgent_ones_is_served() -> None:
    """Regularly, and no wait of its own is longer than max_passes grants."""
    world = Saturation(slots=2)
    for n in range(30):
        world.join(f"urgent-{n}", priority=Priority.CRITICAL)
    world.join("low", waiting=1, priority=Priority.LOW)
    world.run(120.0)
    waits = [wait for name, wait in world.waits if name == "low"]
    assert len(waits) > 10
    assert max(waits) <= 25 * TOOK_S / 2 + TOOK_S


@pytest.mark.parametrize(("slots", "max_passes"), [(1, 24), (3, 5)])
def test_how_long_the_least_urgent_waits_follows_from_the_settings(max_passes: int, slots: int) -> None:
    """Beside endless requests of every class above it: max_passes grants, one for each other class that was passed by
    as often, and the end of what is in flight."""
    world = Saturation(slots, QueueConfig(max_passes=max_passes))
    for priority in (Priority.CRITICAL, Priority.HIGH, Priority.NORMAL):
        for n in range(10):
            world.join(f"{priority.name}-{n}", priority=priority)
    world.join("low", waiting=1, priority=Priority.LOW)
    world.run(200.0)
    waits = [wait for name, wait in world.waits if name == "low"]
    assert len(waits) > 5
    assert max(waits) <= (max_passes + len(Priority)) * TOOK_S / slots + TOOK_S


def test_no_agent_starves_in_a_mixture_of_all_classes() -> None:
    """Every agent of every class is served again and again."""
    world = Saturation(slots=3)
    names = [f"{priority.name}-{n}" for priority in Priority for n in range(3)]
    for name in names:
        world.join(name, priority=Priority[name.partition("-")[0]])
    world.run(300.0)
    for name in names:
        assert sum(1 for _, served, _ in world.served if served == name) >= 5


def test_a_newcomer_begins_level_with_its_own_class() -> None:
    """However much agents of a more urgent class were served: it doesn't wait until its own have caught up."""
    world = Saturation(slots=2)
    for n in range(3):
        world.join(f"urgent-{n}", scale=50, priority=Priority.CRITICAL)
        world.join(f"low-{n}", priority=Priority.LOW)
    world.run(60.0)
    world.join("late", waiting=1, priority=Priority.LOW)
    world.run(120.0)
    waits = [wait for name, wait in world.waits if name == "late"]
    assert len(waits) >= 2
    assert max(waits) <= 4 * 25 * TOOK_S / 2


def test_an_agent_that_changes_its_class_brings_no_debt_along() -> None:
    """Nor credit: it is level with those it finds there."""
    world = Saturation(slots=1)
    for n in range(3):
        world.join(f"normal-{n}", waiting=2)
    world.join("mover", scale=100, waiting=2, priority=Priority.CRITICAL)
    world.run(100.0)
    world.hands.apply(SetPriority("mover", Priority.NORMAL))
    world.run(110.0)
    afterwards = [name for at, name, _ in world.served if at > 100.0]
    assert afterwards.index("mover") <= 4
    assert afterwards.count("mover") == 1
    assert max(afterwards.index(f"normal-{n}") for n in range(3)) <= 5


@pytest.mark.slow
def test_where_small_agents_come_and_go_one_that_used_much_is_served() -> None:
    """Each newcomer is level with those being served, so it would never be its turn by what it used."""
    world = Saturation(slots=1)
    world.join("big", scale=400, waiting=1)
    world.run(1.0)
    for n in range(2000):
        world.join(f"small-{n}", waiting=1)
        world.leaves.add(f"small-{n}")
        world.run(1.0 + n * TOOK_S)
    waits = [wait for name, wait in world.waits if name == "big"]
    assert len(waits) >= 7
    assert max(waits) <= OVERDUE_S + 2 * TOOK_S


CREWS: dict[str, list[tuple[str, str | None]]] = {
    "no name": [("crew", None)],
    "below the path": [(f"crew/{n}", None) for n in range(5)],
    "sub-agents": [("crew", None), *((f"crew/{n}", "crew") for n in range(4))],
    "children": [(f"c{n}", "crew") for n in range(5)],
    "a tree": [("crew", None), ("crew/a", "crew"), ("crew/a/b", "crew/a"), ("crew/a/c", "crew/a"), ("d", "crew/a")],
}


@pytest.mark.parametrize("members", CREWS.values(), ids=CREWS)
@pytest.mark.parametrize("slots", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_crew_gets_as_much_as_an_agent_however_its_members_are_named(
    members: list[tuple[str, str | None]], slots: int
) -> None:
    """Beside a solo agent its shares are half each; and within it each member's is that of its siblings."""
    world = Saturation(slots)
    for name, parent in members:
        world.join(name, parent=parent or (name.partition("/")[0] if "/" in name else None), waiting=3)
    world.join("solo")
    world.run(120.0)
    got = dict.fromkeys((name for name, _ in members), 0.0)
    solo = 0.0
    for _, name, tokens in world.served:
        if name == "solo":
            solo += tokens
        else:
            got[name] += tokens
    crew = sum(got.values())
    assert solo / (solo + crew) == pytest.approx(0.5, abs=0.025)
    if members is CREWS["a tree"]:
        below = got["crew/a"], got["crew/a/b"], got["crew/a/c"], got["d"]
        assert jain([got["crew"], sum(below)]) >= 0.99
        assert jain(list(below)) >= 0.97
    else:
        assert jain(list(got.values())) >= 0.98


def test_with_fairness_among_agents_each_member_counts() -> None:
    """As a setting says."""
    world = Saturation(2, QueueConfig(fairness="agents"))
    for n in range(5):
        world.join(f"crew/{n}", parent="crew")
    world.join("solo")
    world.run(120.0)
    shares = [sum(tokens for _, each, tokens in world.served if each == name) for name in ("solo", "crew/0", "crew/4")]
    assert jain(shares) >= 0.98


def test_members_that_take_turns_gain_nothing_by_new_names() -> None:
    """A crew whose every request has a name of its own gets no more than half."""
    world = Saturation(1)
    world.join("solo")
    for n in range(200):
        world.join(f"crew/{n}", parent="crew", waiting=1)
        world.leaves.add(f"crew/{n}")
        world.run(n * TOOK_S)
    served = [name for _, name, _ in world.served]
    assert served.count("solo") / len(served) == pytest.approx(0.5, abs=0.03)


def test_who_becomes_a_child_while_it_waits_moves_to_its_parents_share() -> None:
    """Its waiting requests too, and its parent's."""
    hands = Hands(lane_config(slots=1))
    holder = hands.arrive("crew")
    for name in ("crew", "a", "b", *["solo"] * 6):
        hands.arrive(name)
    for name in ("a", "b"):
        hands.arrive(name, parent="crew")
    order = []
    for _ in range(10):
        hands.granted.clear()
        hands.succeed(holder, Usage(100, 0, 0, 50))
        (holder,) = hands.granted
        order.append(holder.agent.name)
    assert order.count("solo") in (5, 6), order
    assert set(order) == {"solo", "crew", "a", "b"}


def test_a_class_that_has_waited_long_is_as_urgent_when_its_agent_starts_another() -> None:
    """What a class waited isn't lost when all of its requests are moved to a share of their own."""
    hands = Hands(lane_config(slots=1), queue=QueueConfig(ageing_s=5.0))
    holder, waits = hands.arrive("crew"), hands.arrive("crew", priority=Priority.NORMAL)
    hands.now = 15.0
    later = hands.arrive("crew/a", parent="crew", priority=Priority.CRITICAL)
    hands.succeed(holder, Usage(100, 0, 0, 50))
    assert hands.granted == [waits]
    assert later.in_queue
