"""The order in which waiting tickets are sent."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.records import replace
from hivemind.scheduler.admission.fair_share import FEW
from hivemind.scheduler.admission.queue import AWAITED_S
from hivemind.scheduler.commands import PauseAdmissions, PauseAgent, SetPriority
from hivemind.scheduler.config import QueueConfig
from hivemind.scheduler.events import Granted
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Priority, Usage

SMALL, LARGE = 400, 40_000


def busy(queue: QueueConfig | None = None) -> tuple[Hands, Ticket]:
    """A lane with one slot, and the ticket that holds it."""
    hands = Hands(lane_config(slots=1), queue=queue)
    return hands, hands.arrive("holder", priority=Priority.CRITICAL)


def serve(hands: Hands, holder: Ticket, count: int, *, took_s: float = 1.0, usage: Usage | None = None) -> list[Ticket]:
    """End one attempt after another, and say who was sent in turn."""
    order: list[Ticket] = []
    for _ in range(count):
        hands.wait(took_s)
        hands.granted.clear()
        land(hands, holder, usage)
        if not hands.granted:
            break
        (holder,) = hands.granted
        order.append(holder)
    return order


def land(hands: Hands, holder: Ticket, usage: Usage | None = None) -> None:
    """End an attempt, and wait as long as its slot may be kept for its agent."""
    hands.succeed(holder, usage)
    if not hands.granted:
        hands.wait(AWAITED_S)


def agents(tickets: list[Ticket]) -> list[str]:
    return [ticket.agent.name for ticket in tickets]


def test_urgent_classes_are_first() -> None:
    """CRITICAL, HIGH, NORMAL, LOW, whatever the order of arrival."""
    hands, holder = busy()
    for priority in (Priority.LOW, Priority.NORMAL, Priority.CRITICAL, Priority.HIGH):
        hands.arrive(priority.name, priority=priority)
    assert agents(serve(hands, holder, 4, took_s=0.1)) == ["CRITICAL", "HIGH", "NORMAL", "LOW"]


def test_the_agent_that_was_served_least_is_first() -> None:
    """Fair share: an agent with five requests waiting isn't served five times before one with a single request."""
    hands, holder = busy()
    for _ in range(5):
        hands.arrive("many")
    for name in ("one", "two"):
        hands.arrive(name)
    assert agents(serve(hands, holder, 4)) == ["many", "one", "two", "many"]


def test_equals_are_served_shortest_job_first() -> None:
    """Within a class and an equal share, the cheapest request; among those the oldest."""
    hands, holder = busy()
    for name, size in (("large", LARGE), ("middle", 4000), ("small", SMALL), ("small too", SMALL)):
        hands.arrive(name, size=size)
    assert agents(serve(hands, holder, 4)) == ["small", "small too", "middle", "large"]


def test_an_agents_own_requests_are_served_cheapest_first() -> None:
    """The large one waits for the small ones that came after it."""
    hands, holder = busy()
    large, small = hands.arrive("a", size=LARGE), hands.arrive("a", size=SMALL)
    assert serve(hands, holder, 2) == [small, large]


def test_an_agents_own_large_request_ages_against_its_small_ones() -> None:
    """A stream of cheaper requests of the same agent passes it for half a minute, however large it is."""
    hands, holder = busy(QueueConfig(ageing_s=1e9))
    large = hands.arrive("a", size=100 * LARGE)
    flown: list[Ticket] = []
    while large not in flown and hands.now < 300:
        hands.arrive("a", size=SMALL)
        flown += serve(hands, flown[-1] if flown else holder, 1)
    assert large in flown
    assert 25 < hands.now < 40


def test_what_was_tried_before_goes_ahead_of_its_agents_other_requests() -> None:
    """A retried request goes to the front of its agent, also when it is the larger one."""
    hands = Hands(lane_config(slots=1))
    tried = hands.arrive("a", size=LARGE)
    hands.arrive("a", size=SMALL)
    hands.fail(tried)
    hands.wait(5.0)
    (small,) = hands.granted
    hands.arrive("a", size=SMALL)
    hands.succeed(small)
    assert hands.granted[1] is tried


def test_a_newcomer_starts_level_with_the_others() -> None:
    """It neither waits for the past of those before it nor shuts them out until it caught up, also where none had
    to queue until it came."""
    hands = Hands(lane_config(slots=1))
    for _ in range(100):
        hands.succeed(hands.arrive("old"), Usage(0, 0, 0, 10_000))
    holder = hands.arrive("holder")
    for name in ("old", "new") * 10:
        hands.arrive(name)
    order = agents(serve(hands, holder, 10, usage=Usage(0, 0, 0, 10_000)))
    assert order.count("new") in (5, 6)


def test_an_agent_that_was_away_brings_no_credit() -> None:
    """Five minutes of silence don't buy five minutes of the lane."""
    hands, holder = busy()
    hands.arrive("away")
    for _ in range(100):
        hands.arrive("here")
    (first,) = serve(hands, holder, 1)
    last = serve(hands, first, 60, took_s=5.0, usage=Usage(0, 0, 0, 10_000))[-1]
    for _ in range(20):
        hands.arrive("away")
    order = agents(serve(hands, last, 10, usage=Usage(0, 0, 0, 10_000)))
    assert 4 <= order.count("here") <= 6


def test_a_waiting_class_rises_with_age() -> None:
    """LOW passes a steady flood of NORMAL after about two ageing periods."""
    hands, holder = busy(QueueConfig(ageing_s=10.0, max_passes=10_000))
    low = hands.arrive("low", priority=Priority.LOW)
    while low not in hands.granted and hands.now < 100:
        hands.arrive("flood", priority=Priority.NORMAL)
        hands.wait(1.0)
        land(hands, holder)
        holder = hands.granted[-1]
    assert 10 <= hands.now <= 21


def test_a_waiting_class_is_passed_by_so_often_and_no_more() -> None:
    """After max_passes grants to others it is sent, however quickly they came."""
    hands, holder = busy(QueueConfig(max_passes=24))
    hands.arrive("low", priority=Priority.LOW)
    for n in range(60):
        hands.arrive(f"critical-{n}", priority=Priority.CRITICAL)
    order = agents(serve(hands, holder, 60, took_s=0.0))
    assert order.index("low") == 24


def test_ageing_is_the_classes_not_the_tickets() -> None:
    """Fifty LOW agents that have all waited long don't overtake HIGH as one block: one of them is sent, and its class
    is young again."""
    hands, holder = busy(QueueConfig(ageing_s=10.0, max_passes=10_000))
    for n in range(50):
        hands.arrive(f"low-{n}", priority=Priority.LOW)
    hands.wait(300.0)
    for n in range(5):
        hands.arrive(f"high-{n}", priority=Priority.HIGH)
    order = agents(serve(hands, holder, 6))
    assert sum(name.startswith("low") for name in order) == 1


@pytest.mark.parametrize(
    ("operator", "asked", "flies"),
    [
        (None, None, Priority.NORMAL),
        (None, Priority.LOW, Priority.LOW),
        (Priority.HIGH, None, Priority.HIGH),
        (Priority.HIGH, Priority.LOW, Priority.HIGH),
        (Priority.NORMAL, Priority.CRITICAL, Priority.NORMAL),
    ],
)
def test_the_operators_word_goes_before_the_requests(
    operator: Priority | None, asked: Priority | None, flies: Priority
) -> None:
    """NORMAL where neither said anything."""
    hands = Hands(lane_config(slots=0))
    hands.arrive("a")
    if operator is not None:
        hands.scheduler.apply(0.0, SetPriority("a", operator), "you")
    assert hands.arrive("a", priority=asked).priority is flies


def test_waiting_tickets_move_with_their_agents_priority() -> None:
    """At once, not only those that come later."""
    hands, holder = busy()
    for name in ("a", "b", "c"):
        hands.arrive(name)
    hands.scheduler.apply(0.0, SetPriority("c", Priority.CRITICAL), "you")
    assert agents(serve(hands, holder, 3)) == ["c", "a", "b"]


def test_a_paused_agent_is_left_out_and_comes_back_to_its_place() -> None:
    """Others are sent meanwhile."""
    hands, holder = busy()
    for name in ("a", "b", "c"):
        hands.arrive(name)
    hands.scheduler.apply(0.0, PauseAgent("a", True), "you")
    (second,) = serve(hands, holder, 1)
    hands.scheduler.apply(hands.now, PauseAgent("a", False), "you")
    assert [second.agent.name, *agents(serve(hands, second, 2))] == ["b", "a", "c"]


def test_who_leaves_the_queue_is_passed_over() -> None:
    """The next one is sent as if it had never been there."""
    hands, holder = busy()
    first, second, third = (hands.arrive(name) for name in ("a", "b", "c"))
    hands.leave(first)
    hands.leave(third)
    assert serve(hands, holder, 3) == [second]
    assert hands.lane.queue.waiting == 0


@pytest.mark.parametrize("shut", [PauseAgent("a", True), PauseAdmissions(True)], ids=["agent", "all"])
def test_who_comes_and_leaves_in_vain_is_not_remembered(shut: PauseAgent | PauseAdmissions) -> None:
    """However long nothing is granted, the queue holds about as many as wait; afterwards they go in order."""
    hands = Hands(lane_config(slots=1))
    holder = hands.arrive("a")
    hands.apply(shut)
    patient = [hands.arrive("a", size=size) for size in (4000, 400)]
    for _ in range(500):
        hands.leave(hands.arrive("a"))
        hands.leave(hands.arrive("b"))
    queue = hands.lane.queue
    backlogs = [backlog for share in queue._shares.values() for backlog in share.backlogs.values()]
    assert sum(len(backlog.heap) for backlog in backlogs) <= 2 * len(patient) + FEW + 1
    assert sum(len(band.heap) for band in queue._bands.values()) <= 2 * len(patient) + FEW + 3
    assert sum(backlog.waiting for backlog in backlogs) == queue.waiting == 2
    hands.apply(replace(shut, paused=False))
    assert serve(hands, holder, 2) == patient[::-1]


def test_a_held_family_is_not_passed_by() -> None:
    """A large request that waits for its rate window isn't overtaken for ever by small ones of the same window, of
    whatever class; another family goes on."""
    hands = Hands(lane_config(slots=0, tpm=20_000))
    hands.arrive("small", size=40_000)
    large = hands.arrive("large", size=40_000)
    hands.wait(0.1)
    small = hands.arrive("small", size=400)
    low = hands.arrive("small", size=400, priority=Priority.LOW)
    other = hands.arrive("small", size=400, family="other")
    assert [ticket.in_queue for ticket in (large, small, low, other)] == [True, True, True, False]
    hands.wait(60.1)
    assert [ticket.in_queue for ticket in (large, small, low)] == [False, False, False]
    assert hands.granted[-3] is large


def test_the_upcoming_are_listed_in_the_order_of_their_grants() -> None:
    """As long as nothing else happens, the screen's queue is what comes true."""
    hands, holder = busy()
    for n, priority in enumerate((Priority.NORMAL, Priority.LOW, Priority.HIGH, Priority.NORMAL)):
        hands.arrive(f"a{n}", priority=priority, size=400 * (9 - n))
    told = [hold.ticket for hold in lane_state(hands.lane, hands.now, paused=False).upcoming]
    flown = serve(hands, holder, 4, took_s=0.1)
    assert told == [ticket.id for ticket in flown]


@pytest.mark.parametrize(("agents", "each"), [(1, 150), (3, 40), (150, 1), (40, 3)])
def test_the_upcoming_of_long_queues_come_true(agents: int, each: int) -> None:
    """Of two families, and of agents that share by what they are charged: as many as are shown, in order."""
    hands, holder = busy()
    for n in range(agents * each):
        hands.arrive(f"a{n % agents}", size=400 * (1 + n * 7 % 11), family="mn"[n % 3 == 0])
    leaving = hands.arrive("a0", size=4)
    hands.arrive("a0", size=8)
    hands.leave(leaving)
    told = [hold.ticket for hold in lane_state(hands.lane, hands.now, paused=False).upcoming]
    assert told == [ticket.id for ticket in serve(hands, holder, 100, took_s=0.1)]


def test_waiting_is_counted_from_joining_the_queue() -> None:
    """Granted says how long it took."""
    hands = Hands(lane_config(slots=1))
    holder = hands.arrive("holder")
    hands.arrive("a")
    hands.wait(3.0)
    hands.succeed(holder)
    assert [event.waited_s for event in hands.seen(Granted)] == [0.0, 3.0]


def test_nothing_is_kept_of_what_waited() -> None:
    """An agent that has used many models, in several classes, keeps no list of waiting tickets for each of them."""
    hands, holder = busy()
    for number in range(20):
        hands.arrive("agent", family=f"model-{number}", priority=Priority(number % 4))
    (lane,) = hands.scheduler.lanes.values()
    assert len(lane.queue._shares["agent"].backlogs) == 20
    assert len(serve(hands, holder, 20)) == 20
    assert not lane.queue._shares["agent"].backlogs
