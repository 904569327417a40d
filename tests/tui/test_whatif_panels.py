"""The what-if's panels as text: before there is an answer, while it is computed, and side by side; in several sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tui.kit import text
from tui.trials import BETA, CEILING, LOOKED, PATIENCE, answer, course, outcome
from tui.worlds import KNOBS, empty_world, world

from hivemind.lab.simulate.overrides import Change
from hivemind.records import replace
from hivemind_tui.panels import comparison, knobs
from hivemind_tui.panels.comparison import FigureRow, figure_rows, sampled
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View
from hivemind_tui.whatif.protocol import Progress
from hivemind_tui.whatif.state import WhatIf
from hivemind_tui.widgets.line_table import Render

OUTAGE = Change("provider.outage", "5m")
PANELS: dict[str, Render] = {
    "whatif_settings": knobs.render_what_if,
    "comparison": comparison.render,
    "comparison_chart": comparison.render_chart,
}
SIZES = {"wide": (50, 42, True), "large": (110, 24, True), "narrow": (80, 12, False)}
"""Width, height, and whether in a box."""
CHOSEN = WhatIf(
    path="j.jsonl", summary=LOOKED, upstream="anthropic", changes=(CEILING, BETA, PATIENCE), name="aimd.beta"
)
STATES = {
    "fresh": WhatIf(),
    "summary": replace(CHOSEN, changes=()),
    "computing": replace(CHOSEN, stage=Progress("simulating max_concurrency=8, aimd.beta=0.7", 0.42), trying=True),
    "refused": replace(CHOSEN, trouble="the simulation ended before its time: Killed"),
    "answered": replace(CHOSEN, outcome=outcome(CEILING, BETA, PATIENCE)),
    "stale": replace(CHOSEN, outcome=outcome(BETA)),
    "replayed": replace(CHOSEN, outcome=outcome()),
    "less": replace(CHOSEN, outcome=outcome(BETA, finished=7, answered=200, wall_s=300.0)),
    "more": replace(CHOSEN, outcome=outcome(BETA, answered=412, failed=0, wall_s=900.0)),
    "asked": replace(CHOSEN, changes=(OUTAGE,), name="provider.outage", outcome=outcome(OUTAGE, wall_s=1500.0)),
}


def drawn(name: str, what_if: WhatIf, size: str, pen: Pen | None = None) -> str:
    width, height, boxed = SIZES[size]
    rows = PANELS[name](replace(View(world()), what_if=what_if), width, height, replace(pen or Pen(), boxed=boxed))
    assert [row.cell_length for row in rows] == [width] * height
    return text(rows)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PANELS)
def test_panel_looks_as_agreed(name: str, size: str, golden: Callable[[str, str], None]) -> None:
    """With an answer, at each size."""
    golden(f"{name}_{size}", drawn(name, STATES["answered"], size))


@pytest.mark.parametrize("state", [name for name in STATES if name != "answered"])
@pytest.mark.parametrize("name", PANELS)
def test_panel_in_every_state(name: str, state: str, golden: Callable[[str, str], None]) -> None:
    """Before, while and after."""
    golden(f"{name}_{state}", drawn(name, STATES[state], "large"))


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("state", STATES)
def test_panels_fit_any_size(name: str, state: str) -> None:
    """Down to nothing, without a lane too."""
    view = replace(View(empty_world()), what_if=STATES[state])
    for width, height in ((0, 0), (1, 1), (7, 4), (30, 2), (60, 6), (200, 60)):
        rows = PANELS[name](view, width, height, Pen())
        assert [row.cell_length for row in rows] == [width] * height


def test_what_the_recording_shows_is_told_where_there_is_room() -> None:
    """Notes go before the lesser figures."""
    rows = PANELS["comparison"](replace(View(world()), what_if=STATES["answered"]), 110, 40, Pen())
    assert "What the recording shows" in text(rows)


@pytest.mark.parametrize("size", ["narrow", "large"])
def test_what_was_recorded_without_hivemind_is_said_to_be(size: str) -> None:
    """The columns say which runs are compared."""
    summary = msgspec.structs.replace(LOOKED, foreign=True)
    assert "recorded without HiveMind" in drawn("comparison", replace(CHOSEN, summary=summary), "large")
    alone = replace(CHOSEN, outcome=outcome(foreign=True, wall_s=900.0))
    assert re.search(r"recorded +with Hiv", drawn("comparison", alone, size))
    assert "With HiveMind's usual settings" in drawn("comparison", alone, size)
    assert "recorded and with HiveMind" in drawn("comparison_chart", alone, size)
    assert "Recorded and with HiveMind" in drawn("comparison", alone, size)
    changed = replace(CHOSEN, outcome=outcome(BETA, foreign=True))
    assert re.search(r"with Hiv\S* +changed", drawn("comparison", changed, size))


def test_no_stretch_of_a_course_is_skipped() -> None:
    """Where several fall on a column it has the highest; one that is over has none."""
    made = course(9.0)
    values = sampled(made.in_flight, made.width_s, made.lasts_s * 2, 10)
    assert max(value for value in values if value is not None) == 9.0
    assert values[5:] == [None] * 5
    assert sampled([1.0, 5.0], 1.0, 2.0, 4) == [1.0, 1.0, 5.0, 5.0]


def test_runs_that_part_at_once_have_no_mark() -> None:
    """There is nothing to see before it."""
    at_once = msgspec.structs.replace(outcome(BETA), diverged_after_s=0.01)
    shown = drawn("comparison_chart", replace(CHOSEN, outcome=at_once), "large")
    assert "they diverge at once" in shown
    assert "┊" not in shown
    alike = msgspec.structs.replace(outcome(BETA), diverged_after_s=None)
    assert "make no difference" in drawn("comparison_chart", replace(CHOSEN, outcome=alike), "large")


def test_settings_of_two_upstreams_are_told_apart() -> None:
    """Each one's recorded value stands in the row, and below it what becomes of each; amounts too long for that are
    shortened, as everywhere."""
    upstreams = {
        "anthropic": {**KNOBS, "max_concurrency": 5.0, "rpm": 50.0, "tpm": 40_000.0},
        "openai": {**KNOBS, "max_concurrency": 10.0, "rpm": 0.0, "tpm": 2_000_000.0},
    }
    summary = msgspec.structs.replace(LOOKED, upstreams=upstreams)
    seven = replace(CHOSEN, summary=summary, changes=(replace(CEILING, value=7.0),), name="max_concurrency")
    shown = drawn("whatif_settings", seven, "wide")
    assert re.search(r"max concurrency +5, 10 → 7", shown)
    assert re.search(r"RPM +50, none ", shown)
    assert re.search(r"TPM +40k, 2M ", shown)
    assert "anthropic 5 → 7, openai 10 → 7" in shown
    assert "anthropic 50, openai no limit" in drawn("whatif_settings", replace(seven, name="rpm"), "wide")
    long = {f"a-provider-with-a-long-name-{each}": knobs for each, knobs in upstreams.items()}
    many = replace(seven, summary=msgspec.structs.replace(LOOKED, upstreams=long))
    assert "2 upstreams → 7: 5, 10" in drawn("whatif_settings", many, "wide")


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
