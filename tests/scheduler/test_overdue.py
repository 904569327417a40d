"""How long a request waits for smaller ones of its own agent."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.queue import AWAITED_S
from hivemind.scheduler.commands import BoostAgent, Command, PauseAgent, SetPriority
from hivemind.scheduler.config import LaneConfig, QueueConfig
from hivemind.scheduler.events import Refused
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import OVERDUE_S, Ticket
from hivemind.scheduler.types import Priority, Usage

BIG = 400_000
"""Characters of a prompt of 100,000 tokens."""
SMALL = 2_000


@dataclass(eq=False)
class Loop:
    """A client that sends its next request when it has its answer, `left` times."""

    agent: str
    size: int
    took_s: float
    family: str = "m"
    patience_s: float | None = None
    left: float = float("inf")
    waits: list[float] = field(default_factory=list)


class Loops:
    """Loops in virtual time."""

    def __init__(self, lane: LaneConfig, loops: list[Loop], queue: QueueConfig | None = None) -> None:
        self.hands = Hands(lane, queue=queue)
        self._of: dict[int, Loop] = {}
        self._ends: list[tuple[float, int, Ticket]] = []
        self._seen = 0
        for loop in loops:
            self.ask(loop)

    def ask(self, loop: Loop) -> None:
        about = {"size": loop.size, "family": loop.family, "patience_s": loop.patience_s}
        ticket = self.hands.arrive(loop.agent, **about)
        self._of[ticket.id] = loop
        if not ticket.waiting:
            self.hands.granted.append(ticket)
        self._launch()

    def run(self, until_s: float) -> None:
        hands = self.hands
        while True:
            wakes_at = hands.scheduler.wake_at()
            at = min(self._ends[0][0] if self._ends else until_s, until_s if wakes_at is None else wakes_at, until_s)
            hands.until(at)
            self._launch()
            if hands.now >= until_s:
                return
            while self._ends and self._ends[0][0] <= hands.now:
                ticket = heappop(self._ends)[2]
                hands.content(ticket)
                hands.succeed(ticket, Usage(ticket.request.size_chars // 4, 0, 0, 20))
                self._launch()
                loop = self._of[ticket.id]
                loop.left -= 1
                if loop.left > 0:
                    self.ask(loop)

    def _launch(self) -> None:
        for ticket in self.hands.granted[self._seen :]:
            loop = self._of[ticket.id]
            loop.waits.append(ticket.granted_at - ticket.arrived_at)
            heappush(self._ends, (ticket.granted_at + loop.took_s, ticket.id, ticket))
        self._seen = len(self.hands.granted)


@pytest.mark.parametrize("big_first", [True, False])
def test_the_large_request_of_six_loops_of_one_name_is_answered_again_and_again(big_first: bool) -> None:
    """Nobody waits for a minute, and nobody is refused."""
    big = Loop("crew", BIG, took_s=4.0)
    small = [Loop("crew", SMALL, took_s=1.0 + n / 10) for n in range(5)]
    loops = Loops(lane_config(slots=2), [big, *small] if big_first else [*small, big])
    loops.run(240.0)
    assert len(big.waits) >= 5
    assert max(wait for each in (big, *small) for wait in each.waits) < OVERDUE_S
    assert loops.hands.seen(Refused) == []


@pytest.mark.parametrize("patience_s", [24.0, *(pytest.param(at, marks=pytest.mark.slow) for at in (10.0, 90.0))])
def test_half_of_a_clients_patience_is_the_bound(patience_s: float) -> None:
    """Or half of the longest wait that is allowed, if that is shorter."""
    big = Loop("crew", BIG, took_s=2.0, patience_s=patience_s)
    loops = Loops(lane_config(slots=2), [big, *(Loop("crew", SMALL, took_s=0.5) for _ in range(8))])
    loops.run(240.0)
    assert len(big.waits) > 3
    assert max(big.waits) <= patience_s / 2 + 2.0
    assert loops.hands.seen(Refused) == []
    short = Loop("crew", BIG, took_s=2.0)
    small = [Loop("crew", SMALL, took_s=0.5) for _ in range(8)]
    loops = Loops(lane_config(slots=2), [short, *small], QueueConfig(max_wait_s=patience_s))
    loops.run(240.0)
    assert loops.hands.seen(Refused) == []


def test_nothing_passes_what_is_overdue_however_many_wait() -> None:
    """A crew that is so large that everybody waits for three quarters of a minute: the large one waits for a minute."""
    big = Loop("crew", BIG, took_s=1.0)
    small = [Loop("crew", SMALL, took_s=1.0) for _ in range(90)]
    Loops(lane_config(slots=2), [*small, big]).run(400.0)
    assert len(big.waits) >= 5
    assert max(big.waits) <= OVERDUE_S + 1.5


def test_the_first_requests_of_a_name_are_not_passed_when_its_answers_turn_out_short() -> None:
    """Their estimates are of before anything was learned; those of the next ones, which are as long, are smaller."""
    hands = Hands(lane_config(slots=1))
    holder = hands.arrive("a")
    first = [hands.arrive("a", size=SMALL) for _ in range(5)]
    order: list[Ticket] = []
    for _ in range(10):
        hands.wait(1.0)
        hands.succeed(holder, Usage(500, 0, 0, 1))
        hands.arrive("a", size=SMALL)
        holder = hands.granted[-1]
        order.append(holder)
    assert order[:5] == first


def test_a_try_after_our_own_refusal_keeps_its_age() -> None:
    """It goes before those that came since its client first sent it."""
    hands = Hands(lane_config(slots=1))
    holder = hands.arrive("a")
    hands.wait(100.0)
    small, big = hands.arrive("a", size=4), hands.arrive("a", size=BIG, waited_s=31.0)
    overdue = hands.arrive("a", size=BIG, patience_s=20.0, waited_s=40.0)
    assert told(hands) == [overdue.id, big.id, small.id]
    hands.succeed(holder)
    assert hands.granted == [overdue]


def told(hands: Hands) -> list[int]:
    return [hold.ticket for hold in lane_state(hands.lane, hands.now, paused=False).upcoming]


@pytest.mark.parametrize(
    "commands",
    [
        [SetPriority("a", Priority.LOW)],
        [BoostAgent("a", 5.0)],
        [PauseAgent("a", True), PauseAgent("a", False)],
        [SetPriority("a", Priority.HIGH), SetPriority("a", Priority.NORMAL)],
    ],
    ids=lambda commands: type(commands[0]).__name__,
)
def test_what_an_operator_decides_makes_nobody_younger(commands: list[Command]) -> None:
    """The overdue is next in whatever class, and is shown as such."""
    hands = Hands(lane_config(slots=1))
    holder = hands.arrive("a")
    big = hands.arrive("a", size=BIG)
    hands.wait(50.0)
    small = hands.arrive("a", size=4, waited_s=25.0)
    for command in commands:
        hands.apply(command)
    assert told(hands) == [small.id, big.id]
    hands.wait(15.0)
    assert told(hands) == [big.id, small.id]
    hands.succeed(holder)
    assert hands.granted == [big]


def test_no_other_of_its_class_uses_up_the_window_of_one_that_is_overdue() -> None:
    """It needs most of its family's window, and its agent is served in another family meanwhile, so that by what was
    served the other agent's small ones would always come first."""
    big = Loop("crew", 72_000, took_s=1.0, family="large")
    aside = [Loop("crew", SMALL, took_s=1.0, family="small") for _ in range(3)]
    other = [Loop("other", SMALL, took_s=1.0, family="large") for _ in range(3)]
    loops = Loops(lane_config(slots=4, tpm=20_000), [*aside, *other, big])
    loops.run(900.0)
    assert len(big.waits) >= 4
    assert max(big.waits) <= 3 * OVERDUE_S
    assert len(aside[0].waits) > 10
    assert len(other[0].waits) > 10


def test_a_turn_that_is_kept_ends_with_its_request() -> None:
    """When the client of the overdue one leaves, or its agent is paused, the others of the family go on."""
    for end in ("leave", "pause"):
        hands = Hands(lane_config(slots=0, tpm=20_000))
        hands.arrive("a", size=40_000)
        big = hands.arrive("a", size=60_000, patience_s=50.0)
        hands.wait(30.0)
        small = hands.arrive("b", size=400)
        assert (big.in_queue, small.in_queue) == (True, True)
        if end == "leave":
            hands.leave(big)
        else:
            hands.apply(PauseAgent("a", True))
            hands.arrive("c", size=400)
        assert not small.in_queue


def test_others_of_another_family_go_on_while_a_window_holds_the_overdue_one() -> None:
    """Its own agent's too."""
    hands = Hands(lane_config(slots=0, tpm=20_000))
    hands.arrive("a", size=40_000)
    big = hands.arrive("a", size=60_000, patience_s=50.0)
    hands.wait(30.0)
    assert big.in_queue
    assert not hands.arrive("a", family="other").in_queue
    assert not hands.arrive("b", family="other").in_queue


def test_one_that_becomes_overdue_and_fits_is_sent_at_that_moment() -> None:
    """Though the agent's request that was before it has to wait for the window for longer."""
    hands = Hands(lane_config(slots=0, tpm=20_000))
    hands.arrive("a", size=30_000)
    held = hands.arrive("a", size=60_000)
    hands.wait(12.0)
    late = hands.arrive("a", size=20_000, patience_s=20.0)
    assert late.in_queue
    hands.wait(30.0)
    assert held.in_queue
    assert late.granted_at == pytest.approx(22.0, abs=0.01)


def test_agents_share_as_before_though_one_has_an_overdue_request() -> None:
    """Overdue changes an agent's own order, and nothing between agents."""
    order: list[list[str]] = []
    for size in (SMALL, BIG):
        hands = Hands(lane_config(slots=1))
        holder = hands.arrive("holder")
        for _ in range(6):
            hands.arrive("a", size=SMALL)
            hands.arrive("b", size=SMALL)
        hands.arrive("a", size=size)
        hands.wait(50.0)
        names = []
        for _ in itertools.repeat(None, 6):
            hands.succeed(holder, Usage(500, 0, 0, 100))
            hands.wait(AWAITED_S)
            holder = hands.granted[-1]
            names.append(holder.agent.name)
        order.append(names)
    assert order[0] == order[1]
    assert sorted(order[0]) == ["a", "a", "a", "b", "b", "b"]
