"""Long windows of a plan: what replies state of them, and how each class is paced so that they last."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
from scheduler.driving import LANE, Hands, lane_config, request

from hivemind.scheduler.commands import EndAgent
from hivemind.scheduler.config import Pace, SchedulerConfig
from hivemind.scheduler.events import AgentEnded, LongWindowForeseen
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Priority, Usage, Utilisation

pytestmark = pytest.mark.e2e
HOUR = 3600.0
LENGTH_S = 5 * HOUR
EVEN = Pace(even=True)
LOW, NORMAL, HIGH = Priority.LOW, Priority.NORMAL, Priority.HIGH


@dataclass
class World:
    """A plan of five hours, a batch that wants 1.6 times as much of it, and an operator who asks now and then."""

    pace: Pace
    batch: Priority
    kill_at: float = math.inf
    """When the proxy is killed and started again."""
    used: dict[int, float] = field(default_factory=dict)  # by window
    full_at: float = math.inf  # when the first window was used up
    high_waits: list[float] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)  # requests of each task that aren't answered
    refused: int = 0
    now: float = 0.0

    each = 1 / 1500
    takes_s = 25.0

    def run(self) -> World:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._open: set[Ticket] = set()
        self.left = {f"task{n}": 100 for n in range(24)}
        self._begin()
        for name in self.left:
            self._at(0, partial(self._ask, name, 0.0))
        self._at(30, self._operate)
        self._at(self.kill_at, self._kill)
        while any(self.left.values()):
            wake_at = self._scheduler.wake_at()
            if wake_at is not None and wake_at < self._heap[0][0]:
                self.now = max(self.now, wake_at)
                self._scheduler.advance(self.now)
            else:
                self.now, _, what = heapq.heappop(self._heap)
                what()
            self._look()
        return self

    def _begin(self) -> None:
        self._scheduler = Scheduler(SchedulerConfig(pace=self.pace), lambda: 0.0)
        self._scheduler.open_lane(self.now, LANE, lane_config(slots=0))

    def _at(self, at: float, what: Callable[[], None]) -> None:
        if at < math.inf:
            self._numbers += 1
            heapq.heappush(self._heap, (at, self._numbers, what))

    def _look(self) -> None:
        decisions, self._scheduler.decisions = self._scheduler.decisions[:], []
        self._scheduler.events.clear()
        for ticket in decisions:
            self._decided(ticket)

    def _kill(self) -> None:
        lost, self._open = self._open, set()
        self._begin()
        for ticket in sorted(lost, key=lambda each: each.id):
            self._at(self.now + 3, partial(self._ask, ticket.request.agent, 0.0))

    def _operate(self) -> None:
        self._ask("operator", 0.0)
        self._at(self.now + 60, self._operate)

    def _ask(self, name: str, waited_s: float) -> None:
        priority = HIGH if name == "operator" else self.batch
        ticket = self._scheduler.arrive(self.now, request(name, priority=priority, waited_s=waited_s))
        self._open.add(ticket)
        if ticket.state is not TicketState.QUEUED:
            self._decided(ticket)

    def _decided(self, ticket: Ticket) -> None:
        name = ticket.request.agent
        if name == "operator":
            self.high_waits.append(self.now - ticket.arrived_at)
        if ticket.refusal is not None:
            self._open.discard(ticket)
            waited_s = ticket.request.waited_s + self.now - ticket.arrived_at
            self._at(self.now + (ticket.refusal.retry_after_s or 60), lambda: self._ask(name, waited_s))
            return
        window = int(self.now // LENGTH_S)
        used, reset_in_s = self.used.get(window, 0.0), (window + 1) * LENGTH_S - self.now
        status = "rejected" if used >= 1 else "allowed"
        stated = Utilisation("5h", math.floor(used * 100) / 100, reset_in_s, status, LENGTH_S)
        self._scheduler.headers(self.now, ticket, (), (stated,), ending=used >= 1)
        if used >= 1:
            self.full_at = min(self.full_at, self.now)
            self.refused += 1
            self._open.discard(ticket)
            failure = Failure(FailureKind.QUOTA, False, 429, reset_in_s)
            assert self._scheduler.fail(self.now, ticket, failure) is None
            if name != "operator":  # its runner lets the task begin again after the reset
                self._at(self.now + reset_in_s, lambda: self._ask(name, 0.0))
            return
        self.used[window] = used + self.each
        self._at(self.now + self.takes_s, lambda: self._answered(ticket))

    def _answered(self, ticket: Ticket) -> None:
        if ticket not in self._open:
            return  # the proxy was killed meanwhile
        self._open.discard(ticket)
        self._scheduler.succeed(self.now, ticket, 200, Usage(1000, 0, 0, 100))
        name = ticket.request.agent
        if name in self.left:
            self.left[name] -= 1
            if self.left[name]:
                self._at(self.now + 5, lambda: self._ask(name, 0.0))


@pytest.mark.parametrize(
    ("batch", "kill_at"),
    [
        (LOW, math.inf),
        (NORMAL, 2.2 * HOUR),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((NORMAL, math.inf), (LOW, 2.2 * HOUR))),
    ],
)
def test_an_even_pace_makes_a_window_of_five_hours_last(batch: Priority, kill_at: float) -> None:
    """A batch wants 1.6 of it: HIGH is never held, all but its last five minutes have room, and all gets done."""
    world = World(EVEN, batch, kill_at).run()
    assert max(world.high_waits) == 0
    assert world.full_at >= LENGTH_S - 300
    assert not any(world.left.values())
    assert world.used[0] > 0.95
    assert world.now <= 2 * LENGTH_S


def test_without_a_pace_the_same_batch_uses_it_up_early() -> None:
    """That is what the pace changes: as it comes, the window is gone after two hours, and all wait for its reset."""
    world = World(Pace(), LOW).run()
    assert world.full_at < 0.5 * LENGTH_S
    assert not any(world.left.values())


def told(
    used: float, resets_in_s: float = HOUR, *, name: str = "5h", model: str = "", status: str = "allowed"
) -> Utilisation:
    return Utilisation(name, used, resets_in_s, status, LENGTH_S, model)


def paced(pace: Pace, *plan: Utilisation) -> Hands:
    """A lane with a request in flight, whose reply has stated this."""
    hands = Hands(lane_config(slots=0), config=SchedulerConfig(pace=pace))
    hands.scheduler.headers(0.0, hands.arrive(priority=HIGH), (), plan)
    return hands


KEEPS = Pace(reserve=0.2)


@pytest.mark.parametrize(
    ("pace", "plan", "held"),
    [
        (EVEN, (told(0.7),), (0, 0)),
        (EVEN, (told(0.81),), (180, 0)),
        (EVEN, (told(0.91),), (1980, 1800)),
        (EVEN, (told(0.81, name="7d_opus", model="opus"),), (0, 0)),
        (EVEN, (told(0.81, name="7d_m", model="m"), told(0.85, 2 * HOUR)), (1.25 * HOUR, HOUR * 7 / 6)),
        (EVEN, (told(0.9, 20 * 86_400.0, name="overage", status="rejected"),), (0, 0)),
        (EVEN, (Utilisation("x", 0.9, None, "allowed"),), (0, 0)),
        (EVEN, (Utilisation("x", 0.9, 4 * HOUR, "allowed"),), (3.5 * HOUR, HOUR * (4 - 5 / 9))),
        (KEEPS, (told(0.79),), (0, 0)),
        (KEEPS, (told(0.8),), (HOUR, 0)),
        (KEEPS, (told(0.9),), (HOUR, HOUR)),
        (Pace(), (told(0.99),), (0, 0)),
    ],
)
def test_whom_a_pace_holds_for_how_long(pace: Pace, plan: tuple[Utilisation, ...], held: tuple[float, float]) -> None:
    """LOW first, NORMAL later, HIGH never, whatever waits before it; each is told the reason and how long it lasts."""
    hands = paced(pace, *plan)
    low, normal = hands.arrive("low", priority=LOW), hands.arrive("normal")
    found = {hold.ticket: hold for hold in lane_state(hands.lane, 0.0, paused=False).upcoming}
    for ticket, held_s in zip((low, normal), held, strict=True):
        assert (ticket.id in found) is bool(held_s), ticket.request.agent
        if held_s:
            assert found[ticket.id].gate == "pace"
            assert found[ticket.id].opens_in_s == pytest.approx(held_s)
    hands.until(160.0)  # LOW and NORMAL have aged by far
    assert hands.arrive("high", priority=HIGH).state is TicketState.IN_FLIGHT
    if max(held) < 500:
        hands.until(max(held) + 0.1)
        assert {low.state, normal.state} == {TicketState.IN_FLIGHT}


def test_of_several_rejected_windows_the_latest_reset_counts() -> None:
    """A refusal that states four minutes is final where the week is used up too. What it refuses isn't held as well,
    so that each client gets the provider's own words; after an answer the pace counts again."""
    spent = told(1.0, 500 * HOUR, name="overage", status="rejected")  # it ends no later than the windows
    hands = paced(EVEN, told(1.0, 240, status="rejected"), told(1.0, 9 * HOUR, name="7d", status="rejected"), spent)
    ticket = hands.arrive("a", priority=HIGH)
    stated = Failure(FailureKind.RATE_LIMITED, True, 429, 240.0)
    found = hands.scheduler.of_window(0.0, ticket, stated)
    assert (found.kind, found.retryable, found.delay_s) == (FailureKind.QUOTA, False, 9 * HOUR)
    assert hands.fail(ticket, stated) is None
    assert hands.arrive("low", priority=LOW).state is TicketState.IN_FLIGHT
    hands.content(hands.arrive("b", priority=HIGH))
    assert hands.arrive("low", priority=LOW).state is TicketState.QUEUED
    assert ticket.agent.kept_until == 9 * HOUR
    burst = Failure(FailureKind.RATE_LIMITED, True, 429, 5.0)
    assert hands.scheduler.of_window(0.0, ticket, burst) is burst, "it is no window's"


def test_a_window_whose_reset_moves_on_holds_nobody_for_ever() -> None:
    """With each reply, as of a limit over the last five hours: time counts from the first one that stated it."""
    hands = paced(EVEN, told(0.01, LENGTH_S))
    low = hands.arrive("low", priority=LOW)
    for _ in range(3):
        assert low.state is TicketState.QUEUED
        hands.wait(60.0)
        hands.scheduler.headers(hands.now, hands.arrive("high", priority=HIGH), (), (told(0.01, LENGTH_S),))
        hands.gather()
    assert low.state is TicketState.IN_FLIGHT


def test_a_used_up_quota_without_a_window_keeps_nobody() -> None:
    """A day's quota that states half a minute would be asked for again and again; a plan that states hours is one."""
    hands = Hands(lane_config(slots=0))
    for delay_s, until in [(None, 0.0), (34.0, 0.0), (7200.0, 7200.0)]:
        ticket = hands.arrive("a")
        hands.fail(ticket, Failure(FailureKind.QUOTA, False, 429, delay_s))
        assert ticket.agent.kept_until == until
        hands.apply(EndAgent("a", 1))
        assert hands.seen(AgentEnded)[-1].paused is (until > 0), "one that is paused hasn't died"


def test_it_is_foretold_that_a_window_ends_early() -> None:
    """Once in words, and as long as it holds in the lane's gauges; and again once it lasts."""
    hands = Hands(lane_config(slots=0))
    for minutes, used in [(0, 0.1), (10, 0.3), (20, 0.5), (21, 0.52), (60, 0.53), (100, 0.54), (140, 0.55)]:
        hands.until(minutes * 60.0)
        ticket = hands.arrive(priority=HIGH)
        hands.scheduler.headers(hands.now, ticket, (), (told(used, 4 * HOUR - hands.now),))
        hands.succeed(ticket)
        if minutes == 21:
            (window,) = lane_state(hands.lane, hands.now, paused=False).plan
            assert window.ends_in_s == pytest.approx(24 * 60, rel=0.1)
    assert [(event.window, event.ends_in_s is None) for event in hands.seen(LongWindowForeseen)] == [
        ("5h", False),
        ("5h", True),
    ]
