"""What tuning found, in words: a recommendation only where there is one, and why there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lab.kit import recorded, served

from hivemind.cli.lab.tune_output import advice, as_json, as_text, progress_text, sentence
from hivemind.journal.figures import FiguresFold
from hivemind.lab.foresight.draws import Drawn
from hivemind.lab.foresight.heldout import UNCHECKED
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.promise import Promise, WhyNot
from hivemind.lab.tune.space import RecordedSettings
from hivemind.lab.tune.tuning import Candidate, TuningProgress, TuningResult
from hivemind.records import replace
from hivemind.scheduler.config import LaneConfig, SchedulerConfig

RUN = replace(FiguresFold().figures(), agents=1, finished=1, wall_s=100.0, busiest=12)
CHANGES = (Change("max_concurrency", 8),)
WIDE = Candidate((Change("max_concurrency", 24),), (0.3567,) * 6, "", beyond=True)
BEGAN = [RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=12),), 12)]


@pytest.fixture
def recordings(tmp_path: Path) -> list[Recording]:
    """A recording with these figures."""
    return [replace(recorded(tmp_path, served(1.0, 1, "a")), figures=RUN)]


def found(gain: Range | None, why_not: WhyNot = "", experiment: Candidate | None = None) -> TuningResult:
    after = replace(RUN, wall_s=84.0)
    drawn = Drawn((RUN, RUN), (after, after), 1.0, (0, 0))
    prediction = Prediction(CHANGES, RUN, RUN, RUN, after, drawn, UNCHECKED)
    promise = Promise("wall_time", CHANGES, (prediction,), (gain,), gain, why_not)
    return TuningResult("wall_time", 60, CHANGES, 0.2, promise, experiment)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (found(Range(0.16, 0.10, 0.20)), "max_concurrency 8 would take about 16 % (10 to 20 %) off the wall time."),
        (
            found(Range(0.03, -0.02, 0.08), "unclear"),
            "Nothing is recommended: max_concurrency 8, the best found, would take about 3 % off the wall time, but the"
            " recording can't tell: it may take 8 % off it, or add 2 %.",
        ),
        (
            found(Range(0.18, 0.003, 0.32), "little"),
            "Nothing is recommended: max_concurrency 8, the best found, would take about 18 % off the wall time, but"
            " the recording can't tell: it may be as little as 0.3 %.",
        ),
        (
            found(Range(0.003, 0.002, 0.004), "little"),
            "Nothing is recommended: the best found, max_concurrency 8, takes no more than 0.3 % off the wall time.",
        ),
        (
            found(Range(0.16, 0.10, 0.20), "agents"),
            "Nothing is recommended: with max_concurrency 8, the best found, fewer agents finish.",
        ),
        (
            found(Range(0.16, 0.10, 0.20), "beyond"),
            "Nothing is recommended: with max_concurrency 8, the best found, more would be in flight than was"
            " recorded.",
        ),
        (
            found(Range(0.16, 0.10, 0.20), "refused"),
            "Nothing is recommended: with max_concurrency 8, the best found, more would be in flight, and with more in"
            " flight the provider refused more, for a reason that the recording doesn't show.",
        ),
        (
            TuningResult("wall_time", 60, (), 0.0, None, WIDE),
            "Nothing is recommended: max_concurrency 24 might take 30 % off the wall time, but more would be in flight"
            " than was recorded, and what the provider does then isn't known.",
        ),
        (
            TuningResult("p95_wait", 60, (), 0.0, None, None),
            "Nothing is recommended: of 60 candidates none is better than the recorded settings by more than luck.",
        ),
        (
            TuningResult("wall_time", 8, (), 0.0, None, None, interrupted=True),
            "Nothing is recommended: it was interrupted before anything better was found.",
        ),
        (
            TuningResult("dollars", 8, CHANGES, 0.25, None, None, interrupted=True),
            "Nothing is recommended: it was interrupted before max_concurrency 8 was validated; in the search it took"
            " 25 % off the dollars, some of which is luck.",
        ),
    ],
)
def test_sentence(result: TuningResult, text: str) -> None:
    """The answer is one sentence, with the interval of what is promised, or the reason why nothing is."""
    assert sentence(result) == text


def test_table(recordings: list[Recording]) -> None:
    """What to change, what was really recorded, and what is predicted with its interval; the sentence comes first."""
    lines = as_text(found(Range(0.16, 0.10, 0.20)), recordings, BEGAN, ["a note"], 100)
    assert lines[0].startswith("max_concurrency 8 would take")
    assert "max_concurrency        12       8" in lines
    assert any(re.fullmatch("wall time +1 min 40 s +84 s +80 s to 90 s", line) for line in lines)
    assert lines[-1] == "Note: a note."


def test_what_isnt_recommended_isnt_chosen(recordings: list[Recording]) -> None:
    """Its settings are shown all the same, as the best that was found."""
    titles = [
        next(line for line in as_text(each, recordings, BEGAN, [], 100) if line.startswith("SETTING"))
        for each in (found(Range(0.16, 0.10, 0.20)), found(Range(0.03, -0.02, 0.08), "unclear"))
    ]
    assert [" ".join(each.split()) for each in titles] == ["SETTING RECORDED CHOSEN", "SETTING RECORDED BEST FOUND"]


def test_experiment(recordings: list[Recording]) -> None:
    """What can't be told is to be tried, by a command that can be pasted."""
    text = " ".join(advice(found(Range(0.16, -0.1, 0.3), "unclear", WIDE), recordings))
    assert text == (
        "No more than 12 requests in flight were recorded. A recorded run with other settings would tell:"
        " hivemind set max_concurrency 24"
    )


def test_json(recordings: list[Recording]) -> None:
    """Programs get the promise with its interval, and what isn't recommended with its reason."""
    good, bad = found(Range(0.16, 0.10, 0.20)), found(Range(0.03, -0.02, 0.08), "unclear", WIDE)
    first, second = (json.loads(json.dumps(as_json(each, recordings, BEGAN, []))) for each in (good, bad))
    assert first["recommended"] is True
    assert first["gain"] == {"value": 0.16, "low": 0.10, "high": 0.20}
    assert first["figures"][0]["wall time"]["recorded"] == 100.0
    assert (second["recommended"], second["why_not"]) == (False, "unclear")
    assert second["experiment"] == {"max_concurrency": 24}


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (TuningProgress("search", 4, 60, 0.0), "searching 4 of 60"),
        (TuningProgress("search", 8, 60, 0.1), "searching 8 of 60, the best so far takes 10 % off"),
        (TuningProgress("choose", 0, 0, 0.1), "comparing the best, the best so far takes 10 % off"),
        (TuningProgress("check", 0, 2, 0.0), "validating 0 of 2"),
    ],
)
def test_progress(progress: TuningProgress, text: str) -> None:
    """Where the search is fits in a short line."""
    assert progress_text(progress) == text
