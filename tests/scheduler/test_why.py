"""Why a ticket waits, and for how long about."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from random import Random
from statistics import mean, median

import pytest
from scheduler.driving import LANE, Hands, circuit_lane, failure, lane_config

from hivemind.scheduler.commands import Command, PauseAdmissions, PauseAgent, PinLevel, SetCircuit, Tune
from hivemind.scheduler.config import LaneConfig, QueueConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import UPCOMING_SHOWN, Hold
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading


def apply(hands: Hands, command: Command) -> None:
    hands.scheduler.apply(hands.now, command, "you")
    hands.gather()


def shown(hands: Hands) -> dict[int, Hold]:
    """By ticket, in order."""
    (state,) = hands.scheduler.sample(hands.now).lanes
    return {hold.ticket: hold for hold in state.upcoming}


def hold(hands: Hands, ticket: Ticket) -> tuple[str, float | None]:
    found = shown(hands)[ticket.id]
    return found.gate, found.opens_in_s


def busy(lane: LaneConfig | None = None, hold_s: float | None = 2.0, **about: object) -> tuple[Hands, Ticket]:
    """A lane whose only slot is taken, and on which a slot is held for so long."""
    hands = Hands(lane, **about)  # type: ignore[arg-type]
    if hold_s is not None:
        first = hands.arrive("first")
        hands.wait(hold_s)
        hands.succeed(first)
    return hands, hands.arrive("holder")


# --- Which gate -------------------------------------------------------------------------------------------------------


def test_slot() -> None:
    """No slot is free, and it is unknown when one will be."""
    hands, _ = busy()
    assert hold(hands, hands.arrive()) == ("slot", None)


def test_paused() -> None:
    """While admissions are paused that is the reason, whatever else is shut; for how long is unknown."""
    hands, holder = busy()
    hands.fail(holder, failure(FailureKind.RATE_LIMITED, delay_s=20.0))
    apply(hands, PauseAdmissions(True))
    waiting = hands.arrive()
    assert hold(hands, waiting) == ("paused", None)
    assert shown(hands)[waiting.id].estimate_s is None


def test_paused_by_the_provider() -> None:
    """The provider asked for a pause, of which some is over."""
    hands, holder = busy()
    hands.fail(holder, failure(FailureKind.RATE_LIMITED, delay_s=20.0))
    hands.wait(5.0)
    assert hold(hands, hands.arrive()) == ("rate_limited", 15.0)
    assert hold(hands, holder) == ("rate_limited", 15.0)


def test_circuit() -> None:
    """It is open, until its cooldown is over; then a probe is out, and what it comes to is not known."""
    hands = Hands(circuit_lane(window=1))
    hands.fail(hands.arrive(), failure(retryable=False))
    hands.wait(4.0)
    waiting = [hands.arrive(name) for name in "bc"]
    assert hold(hands, waiting[0]) == ("circuit", 6.0)
    hands.wait(6.0)
    assert [*shown(hands).values()] == [Hold(waiting[1].id, "circuit", None, 0.0)]


def test_circuit_that_is_not_looked_at() -> None:
    """Where backpressure is switched off, a circuit that would be open holds no ticket."""
    config = SchedulerConfig(backpressure=False)
    hands = Hands(lane_config(), config=config)
    hands.arrive()
    waiting = hands.arrive()
    hands.lane.circuit.force("open")
    assert hold(hands, waiting) == ("slot", None)


def test_requests() -> None:
    """The window of requests is used up, and will be for what is left of its minute."""
    hands = Hands(lane_config(slots=9, rpm=2, tpm=100_000))
    for _ in range(2):
        hands.arrive()
    hands.wait(10.0)
    assert hold(hands, hands.arrive()) == ("requests", 50.0)


@pytest.mark.parametrize("kind", [WindowKind.INPUT, WindowKind.OUTPUT, WindowKind.TOKENS])
def test_tokens(kind: WindowKind) -> None:
    """A window of tokens, of whichever, is used up."""
    hands = Hands(lane_config(slots=9))
    first = hands.arrive()
    hands.scheduler.headers(0.0, first, (WindowReading(kind, 1000, 0, 30.0),))
    hands.succeed(first)
    gate, opens_in_s = hold(hands, hands.arrive())
    assert gate == "tokens"
    assert opens_in_s == pytest.approx(30.0)


def test_requests_before_tokens() -> None:
    """Where both are used up, the requests are named, and the estimate knows of the tokens as well."""
    hands = Hands(lane_config(slots=9))
    first = hands.arrive()
    readings = (WindowReading(WindowKind.TOKENS, 1000, 0, 40.0), WindowReading(WindowKind.REQUESTS, 10, 0, 20.0))
    hands.scheduler.headers(0.0, first, readings)
    hands.succeed(first)
    waiting = hands.arrive()
    assert shown(hands)[waiting.id] == Hold(waiting.id, "requests", 20.0, 40.0)


def test_behind_one_that_is_kept() -> None:
    """A family whose next ticket is kept by a window waits as a whole, with the same reason; another one doesn't."""
    hands = Hands(lane_config(slots=9, tpm=2000))
    hands.arrive(size=4000)
    large, small = hands.arrive("b", size=6000, priority=Priority.HIGH), hands.arrive("c", size=4)
    assert hold(hands, large) == hold(hands, small) == ("tokens", 60.0)
    assert hands.arrive("d", family="other").id not in shown(hands)


def test_windows_that_are_not_looked_at() -> None:
    """Where rate windows are switched off, they hold no ticket."""
    hands = Hands(lane_config(rpm=1), config=SchedulerConfig(rate_windows=False))
    hands.arrive()
    assert hold(hands, hands.arrive()) == ("slot", None)


def test_held() -> None:
    """The operator holds its agent: it is shown after those in line; for how long is unknown."""
    hands, _ = busy()
    apply(hands, PauseAgent("first", True))
    held = hands.arrive("first")
    in_line = hands.arrive("z")
    assert [*shown(hands)] == [in_line.id, held.id]
    assert shown(hands)[held.id] == Hold(held.id, "held", None, None)
    apply(hands, PauseAgent("first", False))
    assert hold(hands, held) == ("slot", None)


def test_held_before_its_first_ticket_here() -> None:
    """An agent that is held from elsewhere is held on a lane on which it never asked."""
    hands, _ = busy()
    apply(hands, PauseAgent("holder", True))
    other = hands.scheduler.open_lane(0.0, "other", lane_config())
    held = hands.arrive("holder", lane="other")
    assert [each.gate for each in lane_state(other, hands.now, paused=False).upcoming] == ["held"]
    hands.leave(held)
    assert lane_state(other, hands.now, paused=False).upcoming == ()


def test_backoff() -> None:
    """Between two attempts: shown last, those that come back sooner first, until the next attempt may begin."""
    hands = Hands(lane_config(slots=3), retry=RetryConfig(base_s=8.0, max_s=30.0))
    hands.lane.retries.failure_share = 1.0
    later = hands.arrive("b")
    sooner = hands.arrive("a")
    hands.fail(later, failure(FailureKind.CONNECT))
    hands.apply(Tune("retry.base_s", 1.0))
    hands.fail(sooner, failure(FailureKind.CONNECT))
    assert [(each.ticket, each.gate, each.opens_in_s) for each in shown(hands).values()] == [
        (sooner.id, "backoff", 1.0),
        (later.id, "backoff", 8.0),
    ]


def test_next() -> None:
    """Nothing keeps it but the short distance between two grants when a paused lane starts again."""
    hands, holder = busy(lane_config(slots=8), retry=RetryConfig(stagger_s=0.05))
    hands.fail(holder, failure(FailureKind.RATE_LIMITED, delay_s=1.0))
    waiting = [hands.arrive(name) for name in "bc"]
    hands.wait(1.0)
    assert [(each.gate, each.opens_in_s) for each in shown(hands).values()] == [("next", None)] * 2
    assert {*shown(hands)} < {holder.id, *(ticket.id for ticket in waiting)}


def test_no_more_than_people_look_at() -> None:
    """In all: those in line, those that are held, and those between two attempts."""
    hands = Hands(lane_config(slots=50), config=SchedulerConfig(queue=QueueConfig(max_depth=1000)))
    in_flight = [hands.arrive(f"f{n}") for n in range(50)]
    for ticket in in_flight[:15]:
        hands.fail(ticket, failure(FailureKind.CONNECT))
    apply(hands, PinLevel(1))
    for n in range(UPCOMING_SHOWN - 30):
        hands.arrive(f"a{n}")
    for _ in range(20):
        hands.arrive("f40")
    apply(hands, PauseAgent("f40", True))
    gates = [each.gate for each in shown(hands).values()]
    assert gates == ["slot"] * (UPCOMING_SHOWN - 30) + ["held"] * 20 + ["backoff"] * 10
    for n in range(100):
        hands.arrive(f"b{n}")
    assert [each.gate for each in shown(hands).values()] == ["slot"] * UPCOMING_SHOWN


# --- How long about ---------------------------------------------------------------------------------------------------


def estimates(hands: Hands) -> list[float | None]:
    return [each.estimate_s for each in shown(hands).values()]


def test_nothing_is_estimated_before_anything_is_known() -> None:
    """Until the first slot was released, it is unknown how long one is held."""
    hands, _ = busy(hold_s=None)
    hands.arrive()
    assert estimates(hands) == [None]


@pytest.mark.parametrize(("slots", "expected"), [(1, [2.0, 4.0, 6.0]), (2, [1.0, 2.0, 3.0])])
def test_slots_come_free_one_after_another(slots: int, expected: list[float]) -> None:
    """A slot is held for two seconds; with two of them one comes free every second."""
    hands, _ = busy(lane_config(slots=slots))
    if slots == 2:
        hands.arrive("second")
    for name in "abc":
        hands.arrive(name)
    assert estimates(hands) == expected


def test_how_long_a_slot_is_held_is_learnt() -> None:
    """From every attempt that ends, however it ends; the newest weigh most."""
    hands = Hands(lane_config(slots=1))
    learnt = []
    for held_s, end in ((1.0, hands.succeed), (3.0, hands.leave), (3.0, hands.fail)):
        ticket = hands.arrive()
        hands.wait(held_s)
        end(ticket)
        learnt.append(hands.lane.hold_s)
    assert learnt == pytest.approx([1.0, 1.2, 1.38])


def test_more_in_flight_than_there_are_slots() -> None:
    """Those too many have to end first."""
    hands, _ = busy(lane_config(slots=3))
    for name in "xy":
        hands.arrive(name)
    apply(hands, PinLevel(1))
    hands.arrive()
    assert estimates(hands) == [6.0]


def test_never_less_than_what_is_known() -> None:
    """A pause is added to; a longer window goes before a short queue."""
    hands, holder = busy()
    hands.fail(holder, failure(FailureKind.RATE_LIMITED, delay_s=20.0))
    hands.arrive()
    assert estimates(hands) == pytest.approx([20.0, 21.8])
    full = Hands(lane_config(slots=9, rpm=1))
    full.arrive()
    full.arrive()
    assert estimates(full) == [60.0]


def test_windows_let_through_so_many_at_a_time() -> None:
    """Two a minute: the third and fourth of those that wait are sent a minute after the first two."""
    hands = Hands(lane_config(slots=9, rpm=2))
    for name in "abcdef":
        hands.arrive(name)
    assert estimates(hands) == [60.0, 60.0, 120.0, 120.0]


def test_those_that_a_window_keeps_hold_up_no_other() -> None:
    """A family that flows isn't counted behind one that is kept, whatever the order."""
    hands, holder = busy(lane_config(slots=1, tpm=2000))
    for name in "ab":
        hands.arrive(name, size=4000, priority=Priority.HIGH)
    other = hands.arrive("c", family="other")
    assert shown(hands)[other.id].estimate_s == pytest.approx(2 * 2.0)
    assert holder.request.family != "other"


def test_a_circuit_forced_open() -> None:
    """The operator may end that at any time; here it was forced in the middle of a grant's round."""
    hands, _ = busy()
    hands.arrive()
    hands.lane.circuit.force("open")
    assert estimates(hands) == [None]
    apply(hands, SetCircuit("open", LANE))
    assert estimates(hands) == []


class Steady:
    """Agents that ask again as soon as they are answered, each answer taking its time."""

    def __init__(self, lane: LaneConfig, agents: int, took_s: float, seed: int) -> None:
        self.hands = Hands(lane)
        self._rng = Random(seed)
        self._took_s = took_s
        self._ends: list[tuple[float, int, Ticket]] = []
        self._seen = 0
        self.granted_at: dict[int, float] = {}
        for n in range(agents):
            self._ask(f"agent-{n}")

    def run(self, until: float) -> None:
        """Let it go on."""
        hands = self.hands
        while True:
            ends_at = self._ends[0][0] if self._ends else math.inf
            wakes_at = hands.scheduler.wake_at()
            at = min(ends_at, math.inf if wakes_at is None else wakes_at)
            if at > until:
                hands.until(until)
                return
            hands.until(at)
            self._launch()
            if ends_at <= hands.now:
                ticket = heappop(self._ends)[2]
                hands.succeed(ticket, Usage(100, 0, 0, 200))
                self._launch()
                self._ask(ticket.agent.name)

    def _ask(self, agent: str) -> None:
        ticket = self.hands.arrive(agent, size=self._rng.randrange(200, 2000))
        if not ticket.waiting:
            self.hands.granted.append(ticket)
            self._launch()

    def _launch(self) -> None:
        for ticket in self.hands.granted[self._seen :]:
            self.granted_at[ticket.id] = ticket.granted_at
            took_s = self._rng.uniform(0.2, 1.8) * self._took_s
            heappush(self._ends, (ticket.granted_at + took_s, ticket.id, ticket))
        self._seen = len(self.hands.granted)


LOADS = {
    "slots": (lane_config(slots=4), 24, 1.0),
    "one slot": (lane_config(slots=1), 8, 1.0),
    "requests": (lane_config(slots=20, rpm=60, rpm_binding=True), 90, 1.0),
    "tokens": (lane_config(slots=20, tpm=20_000), 90, 1.0),
}


@pytest.mark.parametrize(
    ("lane", "agents", "took_s"),
    [pytest.param(*load, id=name, marks=pytest.mark.slow if name != "tokens" else ()) for name, load in LOADS.items()],
)
def test_what_is_predicted_comes_true(lane: LaneConfig, agents: int, took_s: float) -> None:
    """Under a steady load those shown are sent in about the order shown, and the median estimate is within a factor of
    two, whatever limits them."""
    steady = Steady(lane, agents, took_s, seed=3)
    steady.run(150.0)
    told: list[tuple[float, list[Hold]]] = []
    for second in range(150, 270, 5):
        steady.run(float(second))
        told.append((steady.hands.now, [*shown(steady.hands).values()]))
    steady.run(600.0)
    ratios, orders = [], []
    for at, upcoming in told:
        waits = [steady.granted_at[each.ticket] - at for each in upcoming]
        assert all(each.estimate_s is not None for each in upcoming)
        ratios += [each.estimate_s / wait for each, wait in zip(upcoming, waits, strict=True) if wait > 0]  # type: ignore[operator]
        orders.append(concordance(waits))
    assert len(ratios) > 100
    assert 0.5 <= median(ratios) <= 2.0
    assert mean(orders) > 0.8


def concordance(values: list[float]) -> float:
    """Share of the pairs that stand in ascending order."""
    pairs = [(a, b) for place, a in enumerate(values) for b in values[place + 1 :] if not math.isclose(a, b)]
    return sum(a < b for a, b in pairs) / len(pairs)
