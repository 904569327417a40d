"""The scheduler against models of rate-limited providers, in virtual time."""

from __future__ import annotations

import pytest
from scheduler.model import Bucket, FixedWindow, Play, Traffic

from hivemind.scheduler.config import LaneConfig

pytestmark = pytest.mark.e2e


def lane(slots: int, rpm: int = 50) -> LaneConfig:
    return LaneConfig("up", "generic", max_concurrency=slots, rpm=rpm, tpm=100_000)


@pytest.mark.parametrize(
    ("slots", "jitter_s", "stamped_late"),
    [
        (5, 0.05, True),
        *(
            pytest.param(slots, jitter_s, late, marks=pytest.mark.slow)
            for slots in (5, 10)
            for jitter_s in (0.0, 0.05)
            for late in (False, True)
        ),
    ],
)
def test_a_fixed_window_is_used_whole_and_never_exceeded(slots: int, jitter_s: float, stamped_late: bool) -> None:
    """Fifty agents with six requests each at 50 a minute: six whole windows and not one 429, though requests overtake
    each other, replies come out of order and a window begins when a request reaches the provider."""
    traffic = Traffic(50, 6, jitter_s=jitter_s, stamped_late=stamped_late)
    for seed in range(2):
        result = Play(FixedWindow(50), lane(slots), traffic, seed).run()
        assert (len(result.finished_at), result.dead, result.refused_at) == (300, 0, [])
        assert 300 <= result.wall_s <= 1.02 * 300


@pytest.mark.parametrize("rpm", [20, 60, 1000])
def test_a_wrong_profile_costs_at_most_the_first_window(rpm: int) -> None:
    """The provider's headers replace the guess, whether it was too low or too high."""
    result = Play(FixedWindow(50), lane(10, rpm), Traffic(50, 6), 1).run()
    assert (len(result.finished_at), result.dead, result.refused_at) == (300, 0, [])
    assert result.wall_s <= 1.02 * 300


def test_without_a_ceiling_a_burst_is_no_stampede() -> None:
    """Nothing but the rate window holds fifty agents back."""
    result = Play(FixedWindow(50), lane(0), Traffic(50, 6), 1).run()
    assert (result.dead, result.refused_at) == (0, [])
    assert result.wall_s <= 1.02 * 300


@pytest.mark.parametrize("stamped_late", [False, True])
def test_a_bucket_is_recognised_and_drained_at_its_rate(stamped_late: bool) -> None:
    """At least 97 % of what it drips once it is empty, and at most 1 % of 429s."""
    result = Play(Bucket(50), lane(5), Traffic(20, 40, stamped_late=stamped_late), 1).run(until_s=600.0)
    assert result.between(60, 600) >= 0.97 * 50 * 9
    assert len(result.refused_at) <= 0.01 * len(result.finished_at)


@pytest.mark.parametrize("every_s", [3.0, 6.0])
def test_another_client_on_the_same_fixed_window_gets_its_place(every_s: float) -> None:
    """It counts requests unknown to us: at most 1 % of 429s for us, and no request fails."""
    play = Play(FixedWindow(50), lane(5), Traffic(10, 30, think_s=5.0), 5)
    play.also_ask(every_s, 1000.0)
    result = play.run()
    assert (len(result.finished_at), result.dead) == (300, 0)
    assert len(result.refused_at) <= 0.01 * len(result.finished_at)


def test_another_client_on_the_same_bucket_gets_its_place() -> None:
    """What falls short again and again is another client's: their 20 a minute are left to them, without 429s."""
    play = Play(Bucket(50), lane(5), Traffic(10, 100, think_s=2.0, stamped_late=True), 1)
    play.also_ask(3.0, 600.0)
    result = play.run(until_s=600.0)
    assert result.dead == 0
    assert 0.97 * 30 * 7 <= result.between(180, 600) <= 1.03 * 30 * 7
    assert len(result.refused_at) <= 0.01 * len(result.finished_at)
