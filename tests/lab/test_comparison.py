"""What runs are compared by, and how sure a difference is."""

from __future__ import annotations

import pytest

from hivemind.journal.figures import Figures, FiguresFold, Waits
from hivemind.lab.comparison import Spread, run_measures, spread

EMPTY = FiguresFold().figures()


def with_waits(*names: str) -> Figures:
    tally = FiguresFold().figures()
    waits = {name: Waits(1, 2.0, 3.0, 4.0) for name in names}
    return Figures(**{name: getattr(tally, name) for name in Figures.__slots__} | {"waits": waits})


def names(*runs: Figures) -> list[str]:
    return [measure.name for measure in run_measures(runs) if "p50" in measure.name]


def test_priorities() -> None:
    """Waits by priority are shown where any run has several, the most urgent first."""
    assert names(EMPTY, with_waits("normal")) == ["wait, p50"]
    found = (with_waits("normal"), with_waits("normal", "high"))
    assert names(*found) == ["wait, p50", "  high, p50", "  normal, p50"]
    high = next(measure for measure in run_measures(found) if measure.name == "  high, p50")
    assert [high.of(run) for run in found] == [None, 2.0]


def test_one_value_has_no_spread() -> None:
    """A single run says nothing of chance."""
    assert spread([3.0]) == Spread(3.0, 0.0, 1)


def test_spread() -> None:
    """Mean and interval, as worked out by hand: of two values a unit from the mean it is t to each side."""
    found = spread([1.0, 3.0])
    assert (found.mean, found.runs) == (2.0, 2)
    assert found.half == pytest.approx(12.706, abs=0.001)
    assert [found.low, found.high] == pytest.approx([-10.706, 14.706], abs=0.001)
    assert spread([5.0, 5.0, 5.0]) == Spread(5.0, 0.0, 3)
