"""Experiments on live traffic: when they end, what they find, and that they end with the settings they began with."""

from __future__ import annotations

from random import Random

import pytest

from hivemind.lab.explore.engine import ALPHA, Bounds, Experiment, Slice


def measured(side: str, answered: int, failed: int = 0, waits: float = 0.1) -> Slice:
    """A slice of half a minute."""
    return Slice("B" if side == "B" else "A", 30, answered, failed, 100 * answered, (waits,) * (answered + failed))


def ran(rng: Random, effect: float, pairs: int = 10, seed: int | None = None) -> Experiment:
    """An experiment whose slices differ by chance, and B's by an effect."""
    experiment = Experiment(pairs, seed=seed)
    while experiment.verdict is None:
        side = experiment.side
        level = 60 * (effect if side == "B" else 1)
        experiment.add(measured(side, max(1, round(rng.gauss(level, 6)))))
    return experiment


def test_false_alarms_are_rare() -> None:
    """Without an effect no more than the promised share sees one, although each looks after each pair."""
    rng, runs = Random(4), 400
    found = [ran(rng, 1.0, seed=run).verdict for run in range(runs)]
    assert sum(each in ("better", "worse") for each in found) <= ALPHA * runs
    assert found.count("none") > 0


@pytest.mark.parametrize(("effect", "verdict"), [(1.4, "better"), (0.6, "worse")])
def test_effects_are_found(effect: float, verdict: str) -> None:
    """A large one, mostly before the planned end; its interval holds the truth."""
    found = [ran(Random(seed), effect) for seed in range(40)]
    assert sum(each.verdict == verdict for each in found) >= 38
    assert any(each.done < 10 for each in found)
    rates = [rate for each in found if (rate := each.rate())]
    assert sum(rate.low <= effect - 1 <= rate.high for rate in rates) >= 36


def test_orders() -> None:
    """A B, B A, A B in turn; or drawn, the same for the same seed; and never B at the end."""
    for seed in (None, 1, 1, 2):
        experiment, sides = Experiment(6, seed=seed), []
        for number in range(12):
            sides.append(experiment.side)
            experiment.add(measured(experiment.side, 60 + number % 3))
        assert sides.count("B") == 6
        assert seed is not None or "".join(sides) == "ABBAABBAABBA"
        assert (experiment.verdict, experiment.side) == ("none", "A")


def test_bounds() -> None:
    """Errors or waits beyond them end it at once, even within a slice; quiet pairs don't count."""
    experiment = Experiment(4, Bounds(errors=0.1, wait_p95_s=2, answered=5))
    experiment.add(measured("A", 40))
    assert experiment.check(measured("B", 10))
    assert not experiment.check(measured("B", 10, failed=5))
    assert (experiment.verdict, experiment.side) == ("worse", "A")
    assert experiment.reason == "with B 33 % of the requests failed (bound: 10 %)"

    slow = Experiment(4, Bounds(wait_p95_s=2))
    slow.add(measured("A", 40, waits=3))
    assert (slow.verdict, slow.side) == ("stopped", "A")

    quiet = Experiment(4)
    while quiet.verdict is None:
        quiet.add(measured(quiet.side, 2))
    assert (quiet.verdict, quiet.skipped, quiet.table()) == ("stopped", 4, [])
