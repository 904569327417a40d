"""Runs side by side in words: what is better, what is chance, and how far the model is to be trusted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hivemind.cli.lab import comparison as comparing
from hivemind.journal.figures import Figures, FiguresFold, Waits
from hivemind.lab.comparison import extrapolation_notes
from hivemind.text.table import Cell

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


def rows(recorded: Figures, replayed: Sequence[Figures], changed: Sequence[Figures]) -> dict[str, list[str]]:
    lines = comparing.table(recorded, replayed, changed, None)[1:]
    return {cells[0]: cells[1:] for cells in (re.split(r"  +", line.strip()) for line in lines)}


def test_better_and_worse() -> None:
    """By each figure's own direction; what neither is better nor worse has no word, and what is the same says so."""
    after = replace(RUN, wall_s=80.0, retries=3, fairness=0.99, busiest=6)
    found = rows(RUN, [RUN], [after])
    assert found["wall time"] == ["1 min 40 s", "1 min 40 s", "=", "80 s", "-20.0 %", "better"]
    assert found["retries"][-2:] == ["+50.0 %", "worse"]
    assert found["fairness"][-2:] == ["+10.0 %", "better"]
    assert found["most in flight"][-1] == "+100.0 %"
    assert found["tokens"][-1] == "="


def test_from_nothing() -> None:
    """What there was none of has no share, so the difference itself is told."""
    found = rows(RUN, [RUN], [replace(RUN, failed=3, wasted_tokens=1500)])
    assert found["failed"][-2:] == ["+3", "worse"]
    assert found["tokens wasted"][-2:] == ["+1.5k", "worse"]


def test_next_to_nothing() -> None:
    """A difference of rounding is neither better nor worse, and never minus nothing."""
    assert rows(RUN, [RUN], [replace(RUN, wall_s=99.99)])["wall time"][-1] == "0.0 %"
    assert rows(RUN, [RUN], [replace(RUN, wall_s=99.8)])["wall time"][-2:] == ["-0.2 %", "unclear"]
    assert rows(RUN, [RUN], [replace(RUN, wall_s=99.1)])["wall time"][-2:] == ["-0.9 %", "unclear"]


def test_other_work() -> None:
    """If fewer requests are answered, less time is no gain; how they ended is judged all the same."""
    found = rows(RUN, [RUN], [replace(RUN, wall_s=80.0, retries=3, finished=3)])
    assert found["agents finished"][-2:] == ["-25.0 %", "worse"]
    assert found["wall time"][-2:] == ["-20.0 %", "other work"]
    assert found["retries"][-2:] == ["+50.0 %", "worse"]


def test_chance() -> None:
    """Of several runs the mean is shown with its interval; where that holds 0 it isn't clear which is better."""
    before = [replace(RUN, wall_s=100.0 + number) for number in range(4)]
    sure = [replace(run, wall_s=run.wall_s - 20 - number % 2) for number, run in enumerate(before)]
    unsure = [replace(run, wall_s=run.wall_s - 20 * (-1) ** number - 1) for number, run in enumerate(before)]
    assert rows(RUN, before, sure)["wall time"][-2:] == ["-20.2 % ± 0.9", "better"]
    assert rows(RUN, before, unsure)["wall time"][-1] == "unclear"


def test_no_clearer_than_the_model() -> None:
    """A difference no larger than what the replay is off by may be the model's own."""
    replayed = replace(RUN, wall_s=104.0)
    assert rows(RUN, [replayed], [replace(RUN, wall_s=101.0)])["wall time"][-1] == "unclear"
    assert rows(RUN, [replayed], [replace(RUN, wall_s=99.0)])["wall time"][-1] == "better"


def test_no_price() -> None:
    """A run whose price isn't known has none, and no difference; one of which a part isn't known says so."""
    found = rows(replace(RUN, dollars=None), [replace(RUN, dollars=None)], [replace(RUN, dollars=None)])
    assert found["dollars"] == []
    partly = replace(RUN, unpriced_tokens=5)
    assert rows(RUN, [partly], [partly])["dollars"] == ["$1.00", "$1.00+", "=", "$1.00+", "="]


@pytest.mark.parametrize(
    ("wall_s", "waited_s", "text", "style"),
    [
        (101.0, 49.0, "it is off in wall time by +1.0 % and in total wait by -2.0 %.", "dim"),
        (110.0, 50.0, "it is off in wall time by +10.0 % and in total wait by 0.0 %. That is far off: ", "warn"),
    ],
)
def test_accuracy(wall_s: float, waited_s: float, text: str, style: str) -> None:
    """What the model makes of the recorded settings is held against what was recorded."""
    found = comparing.accuracy(RUN, [replace(RUN, wall_s=wall_s, waited_s=waited_s)], drawn=False)
    assert found.style == style
    assert found.text.startswith(f"Replayed with the recorded settings, {text}")


def test_honesty_of_what_is_drawn() -> None:
    """Drawn faults needn't give what was recorded, so that is no fault of the model's."""
    assert comparing.accuracy(RUN, [replace(RUN, wall_s=200.0)], drawn=True).style == "dim"
    assert comparing.accuracy(FiguresFold().figures(), [FiguresFold().figures()], drawn=False) == Cell(
        "Replayed with the recorded settings, it is off in wall time by 0.0 % and in total wait by 0.0 %.", "dim"
    )


def test_beyond() -> None:
    """What went where the recording never was is told."""
    assert extrapolation_notes(RUN, [RUN]) == []
    assert extrapolation_notes(RUN, [RUN, replace(RUN, busiest=9)]) == [
        "no more than 3 requests in flight were recorded; latencies with 9 in flight are extrapolated"
    ]


def test_means() -> None:
    """Figures that are 0 on both sides aren't there."""
    lines = comparing.means([RUN, RUN], [replace(RUN, retries=0)] * 2, None)
    names = {line.split("  ")[0] for line in lines[1:]}
    assert "retries" in names
    assert "failed" not in names


def test_what_was_imported_is_compared_with_hivemind() -> None:
    """Nothing is off there: what HiveMind makes of it is better or worse, or what other settings are measured by."""
    faster = replace(RUN, wall_s=80.0, retries=3)
    lines = comparing.table(RUN, [faster], [], None, other=comparing.WITH_HIVEMIND)
    assert re.split(r"  +", lines[0].strip()) == ["RECORDED", "WITH HIVEMIND", "DIFFERENCE"]
    shown = {cells[0]: cells[1:] for cells in (re.split(r"  +", line.strip()) for line in lines[1:])}
    assert shown["wall time"] == ["1 min 40 s", "80 s", "-20.0 %", "better"]
    assert shown["retries"] == ["2", "3", "+50.0 %", "worse"]
    assert shown["agents finished"] == ["4", "4", "="]
    lines = comparing.table(RUN, [faster], [replace(faster, wall_s=70.0)], None, other=comparing.WITH_HIVEMIND)
    shown = {cells[0]: cells[1:] for cells in (re.split(r"  +", line.strip()) for line in lines[1:])}
    assert shown["wall time"] == ["1 min 40 s", "80 s", "-20.0 %", "70 s", "-12.5 %", "better"]
    assert "OFF BY" not in lines[0]
    assert comparing.USUAL in comparing.means([RUN], [faster], None, foreign=True)[0]
