"""Bars on a time axis: as wide as the axis, in place from frame to frame, nothing so short that it isn't seen."""

from __future__ import annotations

import pytest
from tui.courses import AT, cases

from hivemind.records import replace
from hivemind_tui.render.bars import SPANS, bar, beginning, ending, rounded, shares, times_of_day, times_since
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.render.phases import Phase, phases_of

INK = Pen()


def drawn(made: list[Phase], width: int, pen: Pen = INK) -> str:
    axis = ending(made[0].start_at, made[-1].end_at, width)
    return "".join(text for text, _ in bar(made, axis, pen))


@pytest.mark.parametrize("width", [1, 2, 7, 60, 200])
@pytest.mark.parametrize("name", sorted(cases()))
def test_bar_is_as_wide_as_its_axis(name: str, width: int) -> None:
    """Whatever the course, and with fewer cells than pieces too."""
    made = phases_of(cases()[name], AT)
    for axis in (ending(made[0].start_at, made[-1].end_at, width), beginning(made[0].start_at, AT, width)):
        assert sum(len(text) for text, _ in bar(made, axis, INK)) == axis.width


@pytest.mark.parametrize("name", sorted(cases()))
def test_every_piece_has_a_cell(name: str) -> None:
    """Also where a cell is minutes."""
    made = phases_of(cases()[name], AT)
    runs = drawn([replace(phase, start_at=phase.start_at - 9000 * (phase is made[0])) for phase in made], 100).split()
    assert len("".join(runs)) >= len(made)


def test_where_cells_are_few_failures_stay() -> None:
    """What went wrong is what one looks for; pauses go first."""
    assert shares([1, 1, 1, 9], 3, [4, 0, 3, 1]) == [0, 1, 1, 1]
    assert shares([1, 1, 1, 9], 1, [4, 0, 3, 1]) == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("lengths", "cells", "expected"),
    [
        ([1, 1], 10, [5, 5]),
        ([0.001, 8, 0.001], 10, [1, 8, 1]),
        ([0, 0], 5, [4, 1]),
        ([3, 1], 4, [3, 1]),
        ([1, 1, 1], 10, [4, 3, 3]),
        ([5], 7, [7]),
    ],
)
def test_cells_go_by_length(lengths: list[float], cells: int, expected: list[int]) -> None:
    """Each phase gets its share, and one cell at least; together they are all cells."""
    assert shares(lengths, cells, [0] * len(lengths)) == expected


def test_what_is_over_keeps_its_shape() -> None:
    """As time goes on, a finished bar moves by whole cells and is drawn the same while the axis is as long."""
    made = phases_of(cases()["answered"], AT)
    shapes = set()
    for step in range(80):
        axis = ending(made[0].start_at, AT + step * 0.7, 120)
        shapes.add((axis.span_s, "".join(text for text, _ in bar(made, axis, INK)).strip()))
    assert [span for span, _ in sorted(shapes)] == [60, 120]


@pytest.mark.parametrize("stretch", [0.1, 29, 31, 119, 121, 3000, 90_000, 400_000])
def test_axis_holds_all_of_it(stretch: float) -> None:
    """Both ends stand on it, each in its own cell, and it isn't much longer than it must be."""
    axis = ending(AT - stretch, AT, 80)
    assert axis.cell(AT) == 79
    assert axis.cell(AT - stretch) == 79 or stretch > 0.3
    assert axis.cell(AT - stretch - axis.cell_s * 80) == 0
    assert (AT - stretch) / axis.cell_s - axis.first >= 0
    assert axis.span_s in SPANS or axis.span_s % 86_400 == 0


def test_times_of_day_stand_at_round_moments() -> None:
    """Every label begins at its own moment, and none is cut."""
    axis = ending(AT - 100, AT, 60)
    line = times_of_day(axis, 1_700_000_000.0 - AT, "|")
    assert len(line) == 60
    assert line.split() == ["|22:11:30", "|22:12:00", "|22:12:30", "|22:13:00"]
    assert line.index("|22:13:00") == axis.cell(AT - 19.99)  # the moment is 22:13:20
    assert line.index("|22:12:00") == axis.cell(AT - 79.99)
    day = ending(AT - 500_000, AT, 60)
    assert times_of_day(day, 1_700_000_000.0 - AT, "|").split("|")[1].strip() == "09 Nov"


def test_times_since_the_beginning() -> None:
    """An axis of one request begins at nought."""
    assert times_since(beginning(AT, AT + 18, 40), "|") == "|0s       |5s       |10s      |15s      "
    assert times_since(beginning(AT, AT + 18, 2), "|") == "  "


@pytest.mark.parametrize(
    ("moment", "text"), [(0, "0s"), (30, "30s"), (90, "1m30s"), (3600, "1h"), (5400, "1h30m"), (432_000, "5d")]
)
def test_round_durations(moment: float, text: str) -> None:
    """In few letters, without what is nought."""
    assert rounded(moment) == text


def test_pieces_differ_without_colours() -> None:
    """Each kind has a character of its own, on a poor console too."""
    for glyphs in (INK.glyphs, ASCII):
        pen = replace(INK, glyphs=glyphs)
        kinds = ("queue", "failed", "pause", "first", "stream")
        text = drawn([Phase(kind, AT + n, AT + n + 1) for n, kind in enumerate(kinds)], 60, pen)
        assert len(set(text.strip())) == len(kinds)
