"""What runs are compared by."""

from __future__ import annotations

from hivemind.journal.figures import Figures, FiguresFold, Waits
from hivemind.lab.comparison import run_measures

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
