"""The figures of an answer as text: what fits, what is better, and what can't be seen."""

from __future__ import annotations

from typing import Any

import pytest
from tui.trials import BETA, answer

from hivemind_tui.panels import comparison
from hivemind_tui.panels.comparison import FigureRow, figure_rows


def row(label: str, **tried: Any) -> FigureRow:
    return next(each for each in figure_rows(answer(BETA, **tried)) if each.label == label)


@pytest.mark.parametrize(
    ("label", "tried", "difference", "wanted"),
    [
        ("wall time", {"wall_s": 640.0}, "-15%", "better"),
        ("wall time", {"wall_s": 900.0}, "+19%", "worse"),
        ("wall time", {"wall_s": 751.0}, "-0.4%", "unclear"),
        ("wall time", {"wall_s": 754.0}, "", "same"),
        ("retries", {"retries": 3}, "-25", "better"),
        ("failed", {"failed": 30}, "+27", "worse"),
        ("dollars", {"dollars": 36.84}, "+100%", "worse"),
    ],
)
def test_each_figure_has_its_verdict(label: str, tried: dict[str, Any], difference: str, wanted: str) -> None:
    """Shares in percent, small counts in their own unit."""
    found = row(label, **tried)
    assert (found.difference, found.verdict) == (difference, wanted)


def test_intervals() -> None:
    """Of the figure and of the difference; an end that is nothing is 0."""
    found = row("wall time")
    assert (found.recorded, found.changed, found.interval) == ("12m34s", "10m40s", "10m09s to 11m12s")
    assert found.difference_interval == "-19% to -11%"
    assert row("retries", retries=0).difference_interval == "-28 to -26"


def test_little_room_keeps_what_matters() -> None:
    """In their order; agents, wall time and dollars to the last. What there is none of isn't shown."""
    found = figure_rows(answer(BETA))
    assert [each.label for each in comparison.fitting_rows(found, 3)] == ["agents finished", "wall time", "dollars"]
    assert comparison.fitting_rows(found, 99) == found
    assert comparison.fitting_rows(found, 0) == []
    assert "refused" not in [each.label for each in found]
