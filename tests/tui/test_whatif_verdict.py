"""Better, worse, or nothing to be said: two simulated runs compared, with what the model is off by in mind."""

from __future__ import annotations

import msgspec
import pytest
from tui.trials import BETA, FIGURES, outcome, run

from hivemind.journal.figures import Waits
from hivemind.lab.simulate.overrides import Change
from hivemind_tui.panels import comparison as verdict
from hivemind_tui.panels.comparison import FigureRow
from hivemind_tui.whatif.protocol import WhatIfResult


def row(made: WhatIfResult, label: str) -> FigureRow:
    return next(each for each in verdict.figure_rows(made) if each.label == label)


@pytest.mark.parametrize(
    ("label", "tried", "difference", "wanted"),
    [
        ("wall time", {"wall_s": 640.0}, "-16%", "better"),
        ("wall time", {"wall_s": 900.0}, "+18%", "worse"),
        ("wall time", {"wall_s": 758.0}, "-0.7%", "unclear"),
        ("wall time", {"wall_s": 763.0}, "", "same"),
        ("retries", {"retries": 20}, "-8", "better"),
        ("failed", {"failed": 5}, "+2", "worse"),
        ("fairness", {"fairness": 0.999}, "+0.018", "better"),
        ("fairness", {"fairness": 0.95}, "-0.031", "worse"),
        ("fairness", {"fairness": 0.99}, "+0.009", "unclear"),
        ("tokens wasted", {"wasted_tokens": 6200}, "-50%", "better"),
        ("dollars", {"dollars": 20.262}, "+10%", "worse"),
        ("dollars", {"dollars": None}, "", "same"),
        ("  high, p95", {"waits": {"high": Waits(40, 0.0, 2.4, 9.0)}}, "+100%", "worse"),
        ("  high, p50", {"waits": {"high": Waits(40, 1.5, 2.4, 9.0)}}, "+1.5s", "worse"),
    ],
)
def test_each_figure_has_its_verdict(label: str, tried: dict[str, object], difference: str, wanted: str) -> None:
    """Less is better but for fairness and agents that finish; what the model is off by says nothing."""
    found = row(outcome(BETA, **tried), label)
    assert (found.difference, found.verdict) == (difference, wanted)


def test_other_work_is_no_gain_and_no_loss() -> None:
    """Where less is done, a shorter run isn't a better one, and where more is, a longer one isn't worse; what counts
    how requests ended says so itself."""
    less = outcome(BETA, finished=7, answered=300, wall_s=300.0, retries=90)
    assert verdict.more_was_done(less) == -109
    assert [row(less, label).verdict for label in ("agents finished", "wall time", "retries")] == [
        "worse",
        "other work",
        "worse",
    ]
    more = outcome(BETA, answered=412, failed=0, wall_s=900.0, retries=9)
    assert verdict.more_was_done(more) == 3
    assert [row(more, label).verdict for label in ("failed", "wall time", "retries")] == [
        "better",
        "other work",
        "better",
    ]
    assert verdict.more_was_done(outcome(BETA, finished=9)) == -2
    assert verdict.more_was_done(outcome(BETA)) == 0


def test_without_changes_the_model_is_compared_with_the_truth() -> None:
    """Nothing is better or worse then."""
    made = outcome()
    assert row(made, "wall time").difference == "+1.2%"
    assert {each.verdict for each in verdict.figure_rows(made)} <= {"same", "unclear"}


def test_how_far_the_model_is_off() -> None:
    """As shares of what was recorded; nothing where nothing was."""
    wall, waits = verdict.model_error(outcome())
    assert (verdict.signed(wall), verdict.signed(waits)) == ("+1.2%", "-0.3%")
    idle = WhatIfResult((), run(waited_s=0.0), run(), run(), None)
    assert verdict.signed(verdict.model_error(idle)[1]) == "—"


def test_one_priority_needs_no_name() -> None:
    """Of several each has its own rows, the most urgent first."""
    alone = {"normal": FIGURES.waits["normal"]}
    made = WhatIfResult((), run(waits=alone), run(waits=alone), run(waits=alone), None)
    waits = ["wait, total", "wait, p50", "wait, p95"]
    assert [each.label for each in verdict.figure_rows(made)][2:6] == [*waits, "retries"]
    assert [each.label for each in verdict.figure_rows(outcome())][2:9] == [
        *waits,
        "  high, p50",
        "  high, p95",
        "  normal, p50",
        "  normal, p95",
    ]


def test_little_room_keeps_what_matters() -> None:
    """In their order; agents, wall time and dollars to the last."""
    found = verdict.figure_rows(outcome(BETA))
    assert [each.label for each in verdict.fitting_rows(found, 3)] == ["agents finished", "wall time", "dollars"]
    assert verdict.fitting_rows(found, 99) == found
    assert verdict.fitting_rows(found, 0) == []


def test_shares_have_no_more_digits_than_they_deserve() -> None:
    """One below ten percent, none above."""
    assert [verdict.signed(share) for share in (0.008, -0.0994, 0.12, -0.0001)] == ["+0.8%", "-9.9%", "+12%", "0.0%"]


def imported(*changes: Change, **tried: object) -> WhatIfResult:
    """A recording that HiveMind had no part in."""
    return msgspec.structs.replace(outcome(*changes, **tried), foreign=True)


def test_hivemind_is_held_against_what_ran_without_it() -> None:
    """The first simulated run is no test of the model but an answer, so it is better or worse by itself."""
    alone = msgspec.structs.replace(imported(), replayed=run(wall_s=600.0), tried=run(wall_s=600.0))
    assert row(alone, "wall time").verdict == "better"
    more = run(wall_s=900.0, answered=412, failed=0)
    assert row(msgspec.structs.replace(alone, replayed=more, tried=more), "wall time").verdict == "other work"
    doubtful = {"recorded": run(wall_s=600.0), "tried": run(wall_s=700.0)}
    assert row(msgspec.structs.replace(imported(BETA), **doubtful), "wall time").verdict == "better"
    assert row(msgspec.structs.replace(outcome(BETA), **doubtful), "wall time").verdict == "unclear"
