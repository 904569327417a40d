"""What runs are compared by, and how sure a difference is."""

from __future__ import annotations

import pytest

from hivemind.journal.figures import Figures, FiguresFold, Waits
from hivemind.lab.comparison import Spread, run_measures, spread, student_t

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
    assert found.half == pytest.approx(12.706)
    assert [found.low, found.high] == pytest.approx([-10.706, 14.706])
    assert spread([5.0, 5.0, 5.0]) == Spread(5.0, 0.0, 3)


@pytest.mark.parametrize(("degrees", "value"), [(1, 12.706), (9, 2.262), (30, 2.042), (40, 2.021), (120, 1.980)])
def test_student_t(degrees: int, value: float) -> None:
    """As in the usual table, also beyond where ours ends."""
    assert student_t(degrees) == pytest.approx(value, abs=0.001)


def test_it_narrows() -> None:
    """More freedom, a narrower interval; never narrower than the normal distribution's."""
    values = [student_t(degrees) for degrees in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 1.96
