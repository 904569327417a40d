"""What tuning found, in words: a gain only where it is one, and honest where it isn't."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hivemind.cli.lab import tune
from hivemind.journal.figures import FiguresFold
from hivemind.lab.comparison import Spread
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.tune.tuning import KeptChange, TuningProgress, TuningResult, Validation

RUN = replace(FiguresFold().figures(), agents=1, finished=1, wall_s=100.0)
KEPT = (KeptChange(Change("max_concurrency", 8), 1.2),)


def found(gain: float, half: float, *, acceptable: bool = True) -> TuningResult:
    check = Validation((RUN,) * 10, (RUN,) * 10, Spread(100.0, 1.0, 10), Spread(gain, half, 10), acceptable)
    return TuningResult("wall_time", 60, 100.0, 90.0, KEPT, check)


SEEN = "on 10 seeds not used in the search"


@pytest.mark.parametrize(
    ("result", "text", "style"),
    [
        (
            found(9.0, 2.0),
            f"They take 9.0 % off the wall time; {SEEN}, between 7.0 % and 11.0 % (95 % confidence).",
            "good",
        ),
        (
            found(3.0, 4.0),
            f"No better settings found: the best ones take 3.0 % off the wall time; {SEEN}, between -1.0 % and 7.0 %"
            " (95 % confidence), so the gain may be luck.",
            "warn",
        ),
        (
            found(0.3, 0.1),
            f"No better settings found: the best ones take 0.3 % off the wall time; {SEEN}, between 0.2 % and 0.4 %"
            " (95 % confidence), which is within the noise.",
            "warn",
        ),
        (
            found(-0.1, 0.3),
            f"No better settings found: {SEEN}, what looked best isn't better.",
            "warn",
        ),
        (
            found(9.0, 2.0, acceptable=False),
            f"No better settings found: {SEEN}, fewer agents finished or more requests failed with the best ones.",
            "warn",
        ),
        (
            TuningResult("p95_wait", 60, 100.0, 100.0, (), None),
            "No better settings found in 60 trials.",
            "warn",
        ),
        (
            TuningResult("wall_time", 8, 100.0, 100.0, (), None, "interrupted"),
            "No better settings found in 8 trials. The search was interrupted.",
            "warn",
        ),
        (
            TuningResult("dollars", 8, 2.0, 1.5, KEPT, None, "interrupted"),
            "Interrupted before validation: in the search it took 25.0 % off the dollars, some of which is luck.",
            "warn",
        ),
    ],
)
def test_verdict(result: TuningResult, text: str, style: str) -> None:
    """Good only where the whole interval is a gain, it is worth a change, and nobody pays for it."""
    verdict = tune.verdict(result)
    assert (verdict.text, verdict.style) == (text, style)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (TuningProgress("search", 4, 60, 100.0, 100.0), "searching 4 of 60"),
        (TuningProgress("search", 8, 60, 100.0, 90.0), "searching 8 of 60, best so far 90 s (-10.0 %)"),
        (TuningProgress("choose", 0, 0, 100.0, 90.0), "choosing, best so far 90 s (-10.0 %)"),
        (TuningProgress("check", 0, 20, 0.0, 0.0), "validating 0 of 20"),
    ],
)
def test_standing(progress: TuningProgress, text: str) -> None:
    """Where the search stands fits in a short line."""
    assert tune.progress_text(progress, "wall_time") == text
