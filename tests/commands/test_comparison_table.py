"""Runs side by side in words: what is better, and what is chance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hivemind.cli.lab import comparison as comparing
from hivemind.journal.figures import Figures, FiguresFold, Waits

RUN = replace(
    FiguresFold().figures(),
    agents=4,
    finished=4,
    wall_s=100.0,
    waited_s=50.0,
    requests=20,
    retries=2,
    tokens=1000,
    dollars=1.0,
    fairness=0.9,
    busiest=3,
    together=Waits(20, 2.0, 9.0, 10.0),
)


def rows(before: Sequence[Figures], after: Sequence[Figures]) -> dict[str, list[str]]:
    lines = comparing.means(before, after, None)[1:]
    return {cells[0]: cells[1:] for cells in (re.split(r"  +", line.strip()) for line in lines)}


def test_means() -> None:
    """Figures that are 0 on both sides aren't there."""
    lines = comparing.means([RUN, RUN], [replace(RUN, retries=0)] * 2, None)
    names = {line.split("  ")[0] for line in lines[1:]}
    assert "retries" in names
    assert "failed" not in names


def test_better_and_worse() -> None:
    """By each figure's own direction; what neither is better nor worse has no word, and what is the same says so."""
    found = rows([RUN], [replace(RUN, wall_s=80.0, retries=3, fairness=0.99, busiest=6)])
    assert found["wall time"] == ["1 min 40 s", "80 s", "-20.0 %", "better"]
    assert found["retries"][-2:] == ["+50.0 %", "worse"]
    assert found["fairness"][-2:] == ["+10.0 %", "better"]
    assert found["most in flight"][-1] == "+100.0 %"
    assert found["tokens"][-1] == "="


def test_from_nothing() -> None:
    """What there was none of has no share, so the difference itself is told."""
    found = rows([RUN], [replace(RUN, failed=3, wasted_tokens=1500)])
    assert found["failed"][-2:] == ["+3", "worse"]
    assert found["tokens wasted"][-2:] == ["+1.5k", "worse"]


def test_next_to_nothing() -> None:
    """A difference of rounding is neither better nor worse, and never minus nothing."""
    assert rows([RUN], [replace(RUN, wall_s=99.99)])["wall time"][-1] == "0.0 %"
    assert rows([RUN], [replace(RUN, wall_s=99.1)])["wall time"][-2:] == ["-0.9 %", "unclear"]


def test_other_work() -> None:
    """If fewer requests are answered, less time is no gain; how they ended is judged all the same."""
    found = rows([RUN], [replace(RUN, wall_s=80.0, retries=3, finished=3)])
    assert found["agents finished"][-2:] == ["-25.0 %", "worse"]
    assert found["wall time"][-2:] == ["-20.0 %", "other work"]
    assert found["retries"][-2:] == ["+50.0 %", "worse"]


def test_chance() -> None:
    """Of several runs the mean is shown with its interval; where that holds 0 it isn't clear which is better."""
    before = [replace(RUN, wall_s=100.0 + number) for number in range(4)]
    sure = [replace(run, wall_s=run.wall_s - 20 - number % 2) for number, run in enumerate(before)]
    unsure = [replace(run, wall_s=run.wall_s - 20 * (-1) ** number - 1) for number, run in enumerate(before)]
    assert rows(before, sure)["wall time"][-2:] == ["-20.2 % ± 0.9", "better"]
    assert rows(before, unsure)["wall time"][-1] == "unclear"


def test_no_price() -> None:
    """A run of whose tokens a part has no known price says so."""
    partly = replace(RUN, unpriced_tokens=5)
    assert rows([RUN], [partly])["dollars"] == ["$1.00", "$1.00+", "="]
