"""Predictions on all cores, their intervals, and work beside them in forked processes."""

from __future__ import annotations

import math
import os
import random
import time
from functools import partial
from pathlib import Path

import pytest
from lab.kit import recorded, served

from hivemind import processes
from hivemind.errors import HiveMindError, UsageError
from hivemind.lab.foresight.answer import foretell
from hivemind.lab.foresight.ranges import Evidence, changed, difference, t_quantile
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.processes import Beside, on_cores


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a single core, too."""
    if not hasattr(os, "fork"):
        pytest.skip("processes can't be forked here")
    monkeypatch.setattr(processes, "can_fork", lambda: True)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A hundred requests of four agents."""
    return recorded(tmp_path, (event for n in range(100) for event in served(1.0 + n, n + 1, f"agent-{n % 4}")))


def test_an_unknown_agent_is_refused(recording: Recording) -> None:
    """With the name that is near."""
    with pytest.raises(UsageError, match=r"agent-9: no agent of that name is in by-hand; did you mean agent-"):
        foretell(recording, parse_changes(["agent.agent-9.priority=high"]))


@pytest.mark.usefixtures("forks")
def test_work_beside() -> None:
    """Its result is there as often as it is asked for; a mistake of the user's is raised here."""
    assert Beside(lambda: os.getpid()).result() != os.getpid()
    found = Beside(time.monotonic)
    assert found.result() == found.result()

    def refused() -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        Beside(refused).result()


@pytest.mark.usefixtures("forks")
def test_a_process_that_ends_by_itself() -> None:
    """As if there was no memory left."""

    def too_large() -> None:
        raise MemoryError

    for work in (partial(os._exit, 9), too_large):
        with pytest.raises(HiveMindError, match="ended by itself; is there enough memory"):
            Beside(work).result()


@pytest.mark.usefixtures("forks")
def test_cancelled() -> None:
    """It isn't waited for."""
    work = Beside(partial(time.sleep, 600))
    work.cancel()


@pytest.mark.usefixtures("forks")
def test_each_job_on_some_core() -> None:
    """Results come in the order of the jobs; the first error ends them all."""
    told: list[tuple[int, int]] = []
    assert on_cores(lambda job: -job, range(9), lambda *done: told.append(done)) == [-job for job in range(9)]
    assert told == [(done, 9) for done in range(1, 10)]
    for work, error in ((partial(os._exit), "ended by itself"), (_refused, "no 0")):
        with pytest.raises(HiveMindError, match=error):
            on_cores(work, range(9))


def _refused(job: int) -> None:
    if job == 1:
        time.sleep(600)
    raise UsageError(f"no {job}")


def test_where_nothing_can_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done when its result is asked for."""
    monkeypatch.setattr(processes, "can_fork", lambda: False)
    assert Beside(os.getpid).result() == os.getpid()


def test_what_changes_nothing_has_only_the_luck_of_two_runs() -> None:
    """The value is what was recorded, and the interval as wide as draws differ."""
    draws = [90.0, 100.0, 110.0, 95.0, 105.0]
    found = changed(Evidence(100.0, 100.0, draws, draws, 1.0, [0] * 5, 0.0))
    assert found.value == pytest.approx(100.0)
    assert found.low < 90
    assert found.high > 110
    unchanged = difference(Evidence(100.0, 100.0, draws, draws, 1.0, [0] * 5, 0.04))
    assert unchanged is not None
    assert (unchanged.low, unchanged.value, unchanged.high) == pytest.approx((0.0, 0.0, 0.0))


def test_intervals_hold_nine_of_ten() -> None:
    """Where a run is luck alone, so many of the runs that really come are within the interval."""
    rng = random.Random(1)
    held = 0
    for _ in range(2000):
        one = [math.exp(rng.gauss(4, 0.1)) for _ in range(22)]
        found = changed(Evidence(one[0], one[0], one[1:11], one[11:21], 1.0, [0] * 10, 0.0))
        held += found.low <= one[21] <= found.high
    assert 0.86 < held / 2000 < 0.94


def test_a_bias_of_the_model_cancels() -> None:
    """Draws that are all twice as long as the recording say by what share a change alters it."""
    found = changed(Evidence(100.0, 80.0, [200.0] * 4, [160.0] * 4, 1.0, [0] * 4, 0.0))
    assert found.value == pytest.approx(80.0)


def test_luck_matters_less_where_a_part_was_drawn_from() -> None:
    """Of ten times as much the spread is a tenth of the variance, and the sum is scaled up."""
    whole = changed(Evidence(100.0, 100.0, [9.0, 10.0, 11.0], [9.0, 10.0, 11.0], 1.0, [0] * 3, 0.0, least=0.1))
    part = changed(Evidence(100.0, 100.0, [9.0, 10.0, 11.0], [9.0, 10.0, 11.0], 0.1, [0] * 3, 0.0, least=0.1))
    assert part.high - part.low < (whole.high - whole.low) / 2.5


def test_what_differs_between_parts_is_no_luck() -> None:
    """Draws from a slow and a quick part of a recording, each twice with the same figure, are without luck."""
    found = changed(Evidence(100.0, 100.0, [10, 10, 30, 30], [10, 10, 30, 30], 0.2, [0, 0, 3, 3], 0.0, least=0.1))
    assert (found.low, found.high) == pytest.approx((100.0, 100.0))


def test_small_counts_are_compared_by_difference() -> None:
    """None at all stays none, and the interval isn't empty where draws have some."""
    found = changed(Evidence(0.0, 0.0, [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], 1.0, [0] * 3, 0.04))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high > 1
    assert difference(Evidence(0.0, 0.0, [0.0, 1.0], [0.0, 1.0], 1.0, [0] * 2, 0.04)) is None


@pytest.mark.parametrize(
    ("degrees", "alpha", "expected"),
    [
        (1, 0.05, 12.706),
        (1, 0.1, 6.314),
        (2, 0.01, 9.925),
        (9, 0.05, 2.262),
        (30, 0.001, 3.646),
        (120, 0.05, 1.980),
        (200, 0.05, 1.972),
    ],
)
def test_quantiles(degrees: int, alpha: float, expected: float) -> None:
    """They are those of the usual tables."""
    assert t_quantile(degrees, alpha) == pytest.approx(expected, abs=0.001)


def test_more_freedom_is_narrower() -> None:
    """Quantiles fall with the degrees of freedom, and stay above the normal distribution's."""
    values = [t_quantile(degrees, 0.05) for degrees in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 1.96
