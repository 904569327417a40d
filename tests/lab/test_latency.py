"""What is concluded about how long answers take, and what isn't."""

from __future__ import annotations

import math
import random

import pytest

from hivemind.lab.fit.latency import LatencyModel, Sample, fit_latency


def samples(
    count: int,
    *,
    by_size: float = 0.0,
    by_in_flight: float = 0.0,
    slow: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
) -> list[Sample]:
    """Answers whose times depend on these, and on luck; between the moments of `slow` they take three times as long."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        at, in_flight, size = number * 1.0, rng.randint(1, 20), rng.randint(10, 5000)
        duration_s = 0.5 * (size + 1) ** by_size * in_flight**by_in_flight * math.exp(rng.gauss(0, 0.3))
        made.append(Sample(at, in_flight, float(size), duration_s * (3.0 if slow[0] <= at < slow[1] else 1.0)))
    return made


def test_luck_alone_is_taken_for_luck() -> None:
    """Where nothing matters, nothing is concluded, whatever the seed: what was recorded is repeated as it was."""
    for seed in range(30):
        found = fit_latency(samples(300, seed=seed))
        assert (found.by_size, found.by_in_flight) == (0.0, 0.0)
        assert found.factor(5.0, 20, 250.0, 1) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(("by_size", "by_in_flight"), [(0.5, 0.0), (0.0, 0.6), (0.4, 0.8)])
def test_what_matters_is_found(by_size: float, by_in_flight: float) -> None:
    """How much the size and what else is in flight matter."""
    found = fit_latency(samples(600, by_size=by_size, by_in_flight=by_in_flight))
    assert found.by_size == pytest.approx(by_size, abs=0.08)
    assert found.by_in_flight == pytest.approx(by_in_flight, abs=0.08)
    assert found.factor(0.0, 16, 0.0, 4) == pytest.approx(4**by_in_flight, rel=0.2)


def test_a_slow_spell_is_found() -> None:
    """An answer that is moved out of it is as fast as others, and one that is moved into it as slow."""
    found = fit_latency(samples(600, slow=(200.0, 300.0)))
    assert found.factor(250.0, 5, 400.0, 5) == pytest.approx(3.0, rel=0.35)
    assert found.factor(400.0, 5, 250.0, 5) == pytest.approx(1 / 3, rel=0.35)
    assert found.factor(10_000.0, 5, 400.0, 5) == pytest.approx(1.0, abs=0.3)


def test_few_answers_prove_nothing() -> None:
    """Then times are taken as they are."""
    found = fit_latency(samples(10, by_in_flight=1.0))
    assert found == LatencyModel()
    assert found.factor(3.0, 20, 3.0, 1) == 1.0


def test_load_never_makes_answers_faster() -> None:
    """A recording in which it seems so is a coincidence."""
    assert fit_latency(samples(600, by_in_flight=-0.8)).by_in_flight == 0.0
