"""Additive increase, multiplicative decrease."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.aimd import Aimd, Gate
from hivemind.scheduler.commands import PinLevel, Tune
from hivemind.scheduler.config import AimdConfig
from hivemind.scheduler.ticket import TicketState

CONFIG = AimdConfig(alpha=0.5, beta=0.5, window=4, update_interval_s=1.0, floor=1.0, latency_target_s=2.0)


def at_level(level: float, *, ceiling: float = 16.0) -> Aimd:
    """A controller that stands at a level and has changed nothing yet."""
    aimd = Aimd(CONFIG, ceiling)
    aimd.pin(level)
    aimd.pin(None)
    return aimd


def test_grows_by_alpha_on_a_good_latency_while_the_gate_is_full() -> None:
    """Equation 2, first case."""
    aimd = at_level(4)
    aimd.saturated = True
    assert aimd.sample(10.0, 1.0, 9.0)
    assert aimd.level == 4.5


def test_does_not_grow_while_the_gate_has_room() -> None:
    """Good latencies of an idle lane prove nothing."""
    aimd = at_level(4)
    assert not aimd.sample(10.0, 1.0, 9.0)
    assert aimd.level == 4.0


def test_must_be_full_again_for_every_step() -> None:
    """One full moment pays for one step."""
    aimd = at_level(4)
    aimd.saturated = True
    aimd.sample(10.0, 1.0, 9.0)
    assert not aimd.sample(20.0, 1.0, 19.0)
    assert aimd.level == 4.5


def test_never_grows_beyond_the_ceiling() -> None:
    """Equation 2: min(C_max, c + alpha)."""
    aimd = at_level(15.75)
    for now in (10.0, 20.0, 30.0):
        aimd.saturated = True
        aimd.sample(now, 1.0, now - 1)
    assert aimd.level == 16.0


def test_cuts_by_beta_on_a_mean_above_the_target() -> None:
    """Equation 2, second case."""
    aimd = at_level(8)
    assert aimd.sample(10.0, 3.0, 7.0)
    assert aimd.level == 4.0


def test_judges_by_the_mean_over_the_window() -> None:
    """One slow answer among fast ones doesn't cut, and what fell out of the window no longer counts."""
    aimd = at_level(8)
    for now, latency in enumerate((0.5, 0.5, 0.5, 5.0), start=10):
        aimd.sample(float(now), latency, now - 0.1)
    assert aimd.level == 8.0
    assert aimd.mean_latency_s == pytest.approx(6.5 / 4)
    for now in range(20, 23):
        aimd.pin(8)
        aimd.sample(float(now), 0.5, now - 0.1)
        aimd.pin(None)
    assert aimd.mean_latency_s == pytest.approx(6.5 / 4)
    aimd.sample(30.0, 0.5, 29.9)
    assert aimd.mean_latency_s == pytest.approx(0.5)


@pytest.mark.parametrize("after_s", [0.0, 0.5, 0.99])
def test_takes_no_step_before_the_update_interval_is_over(after_s: float) -> None:
    """A change is given the update interval to show its effect."""
    aimd = at_level(4)
    aimd.saturated = True
    aimd.sample(10.0, 0.1, 9.9)
    aimd.saturated = True
    assert not aimd.sample(10.0 + after_s, 0.1, 10.0)
    assert aimd.level == 4.5


def test_takes_no_step_before_a_mean_latency_is_over() -> None:
    """Slow answers show a change later than the update interval."""
    aimd = at_level(4)
    aimd.saturated = True
    aimd.sample(10.0, 1.9, 8.0)
    aimd.saturated = True
    assert not aimd.sample(11.5, 1.9, 10.0)
    assert aimd.sample(11.9, 1.9, 10.0)


def test_an_error_cuts_at_once() -> None:
    """Equation 2, third case: no update interval is waited for."""
    aimd = at_level(8)
    aimd.saturated = True
    aimd.sample(10.0, 1.0, 9.0)
    assert aimd.congested(10.1, 10.0, 8)
    assert aimd.level == 4.25


def test_never_cuts_below_the_floor() -> None:
    """Equation 2: max(C_min, c * beta)."""
    aimd = at_level(1.5)
    aimd.congested(10.0, 9.0, 8)
    assert aimd.level == 1.0
    assert not aimd.congested(20.0, 19.0, 8)


def test_one_congestion_event_is_one_cut() -> None:
    """Eight requests in flight all come back 429: the level halves once."""
    aimd = at_level(8)
    assert [aimd.congested(10.0 + n / 100, 9.0 + n / 100, 8) for n in range(8)] == [True] + [False] * 7
    assert aimd.level == 4.0


def test_an_attempt_begun_after_the_cut_may_cut_again() -> None:
    """It was sent at the new level and still met congestion."""
    aimd = at_level(8)
    aimd.congested(10.0, 9.0, 8)
    assert aimd.congested(11.0, 10.5, 8)
    assert aimd.level == 2.0


def test_a_slow_answer_begun_before_the_cut_says_nothing() -> None:
    """Its latency is that of the old level, so it is no sample at all."""
    aimd = at_level(8)
    aimd.congested(10.0, 9.0, 8)
    assert not aimd.sample(20.0, 11.0, 9.0)
    assert aimd.mean_latency_s is None
    assert aimd.level == 4.0


def test_a_cut_forgets_the_samples_before_it() -> None:
    """They were taken at another level."""
    aimd = at_level(8)
    aimd.sample(10.0, 1.0, 9.0)
    aimd.congested(11.0, 10.0, 8)
    assert aimd.mean_latency_s is None


def test_opening_the_circuit_cuts_whatever_was_cut_before() -> None:
    """An open circuit is congestion beyond that of a single failure."""
    aimd = at_level(8)
    aimd.congested(10.0, 9.0, 8)
    assert aimd.open_circuit(10.0, 8)
    assert aimd.level == 2.0


@pytest.mark.parametrize("what", ["sample", "congested", "open_circuit"])
def test_a_pinned_level_stays(what: str) -> None:
    """Neither latency nor errors move it until it is given back."""
    aimd = at_level(8)
    aimd.pin(6)
    match what:
        case "sample":
            changed = aimd.sample(10.0, 30.0, 9.0)
        case "congested":
            changed = aimd.congested(10.0, 9.0, 8)
        case _:
            changed = aimd.open_circuit(10.0, 8)
    assert not changed
    assert aimd.level == 6.0
    aimd.pin(None)
    assert aimd.congested(20.0, 19.0, 8)
    assert aimd.level == 3.0


@pytest.mark.parametrize(("level", "held"), [(0.2, 1.0), (1.0, 1.0), (7.5, 7.5), (99.0, 16.0), (math.inf, 16.0)])
def test_a_pin_keeps_between_floor_and_ceiling(level: float, held: float) -> None:
    """What is asked for is brought into C_min to C_max."""
    aimd = at_level(4)
    aimd.pin(level)
    assert aimd.level == held


@pytest.mark.parametrize(
    ("level", "ceiling", "becomes"),
    [(16.0, 20.0, 20.0), (16.0, math.inf, math.inf), (4.0, 20.0, 4.0), (16.0, 3.0, 3.0), (4.0, 3.0, 3.0)],
)
def test_another_ceiling(level: float, ceiling: float, becomes: float) -> None:
    """A level at the old ceiling follows it up; any level follows it down."""
    aimd = at_level(level)
    aimd.configure(aimd.config, ceiling)
    assert aimd.level == becomes


def test_a_pinned_level_follows_the_ceiling_down_but_not_up() -> None:
    """The pin was asked for; more than the ceiling was not."""
    aimd = at_level(16)
    aimd.pin(16)
    aimd.configure(aimd.config, 32)
    assert aimd.level == 16.0
    aimd.configure(aimd.config, 2)
    assert aimd.level == 2.0


def test_a_ceiling_below_the_floor_wins() -> None:
    """C_max is the user's word; a cut doesn't raise the level to C_min."""
    aimd = Aimd(AimdConfig(floor=4.0), 2.0)
    aimd.congested(10.0, 9.0, 8)
    assert aimd.level == 2.0


@pytest.mark.parametrize(("active", "level"), [(40, 20.0), (3, 1.5), (1, 1.0)])
def test_without_a_ceiling_congestion_cuts_from_what_is_in_flight(active: int, level: float) -> None:
    """Half of infinity is no answer to a 429."""
    aimd = Aimd(CONFIG, math.inf)
    assert aimd.congested(10.0, 9.0, active)
    assert aimd.level == level


def test_without_a_ceiling_slowness_cuts_nothing() -> None:
    """Who asked for no limit gets one only where the upstream fails; the latency is still shown."""
    aimd = Aimd(CONFIG, math.inf)
    assert not aimd.sample(10.0, 30.0, 9.0)
    assert aimd.level == math.inf
    assert aimd.mean_latency_s == 30.0


def test_a_late_failure_leaves_an_unlimited_level_alone() -> None:
    """Begun before the last cut it says nothing, also after the ceiling was lifted."""
    aimd = Aimd(CONFIG, 8.0)
    aimd.congested(10.0, 9.0, 8)
    aimd.configure(aimd.config, 4.0)
    aimd.configure(aimd.config, math.inf)
    assert not aimd.congested(11.0, 9.5, 40)
    assert aimd.level == math.inf


@pytest.mark.parametrize(
    ("limit", "slots"), [(1.0, 1), (1.5, 1), (2.0, 2), (2.99, 2), (0.3, 1), (0.0, 1), (math.inf, math.inf)]
)
def test_slots_are_whole_and_never_none(limit: float, slots: float) -> None:
    """A level between two whole numbers admits the lower one, and one request may always be sent."""
    assert Gate(limit).slots == slots


def test_admits_while_fewer_are_active_than_the_limit() -> None:
    """The paper's equation 1: admit while A < C_max."""
    gate = Gate(2)
    assert gate.free
    gate.active += 1
    assert gate.free
    gate.active += 1
    assert not gate.free
    gate.active -= 1
    assert gate.free


def test_lowering_takes_effect_as_requests_complete() -> None:
    """More may be active than the limit for a while; there is room again only below it."""
    gate = Gate(3)
    for _ in range(3):
        gate.active += 1
    gate.limit = 1
    assert gate.active == 3
    gate.active -= 1
    gate.active -= 1
    assert not gate.free
    gate.active -= 1
    assert gate.free


@pytest.mark.parametrize(("ceiling", "in_flight"), [(1, 1), (3, 3), (4, 4), (9, 9), (0, 10)])
def test_raising_the_limit_wakes_exactly_as_many_as_fit(ceiling: int, in_flight: int) -> None:
    """Of ten that ask, as many are sent at once as the new ceiling has slots, no more and no fewer."""
    hands = Hands(lane_config(slots=1))
    tickets = [hands.arrive(f"a{n}") for n in range(10)]
    hands.scheduler.apply(0.0, Tune("max_concurrency", ceiling), "you")
    hands.gather()
    assert [ticket.state for ticket in tickets].count(TicketState.IN_FLIGHT) == in_flight == hands.lane.gate.active


def test_lowering_the_level_grants_nothing_until_it_fits() -> None:
    """Four in flight and a level of two: the first two that end wake none, the third one wakes one."""
    hands = Hands(lane_config(slots=4))
    in_flight = [hands.arrive(f"a{n}") for n in range(4)]
    for n in range(4):
        hands.arrive(f"b{n}")
    hands.scheduler.apply(0.0, PinLevel(2), "you")
    hands.gather()
    woken = []
    for ticket in in_flight:
        hands.succeed(ticket)
        woken.append(len(hands.granted))
    assert woken == [0, 0, 1, 2]


def test_a_request_is_never_refused_because_slots_are_busy() -> None:
    """A hundred beyond the only slot wait; none is refused."""
    hands = Hands(lane_config(slots=1))
    tickets = [hands.arrive(f"a{n}") for n in range(101)]
    assert [ticket.refusal for ticket in tickets] == [None] * 101
    assert hands.lane.queue.waiting == 100


def test_without_a_ceiling_everything_is_granted() -> None:
    """A ceiling of 0 means no limit of ours."""
    hands = Hands(lane_config(slots=0))
    assert all(hands.arrive(f"a{n}").state is TicketState.IN_FLIGHT for n in range(50))
