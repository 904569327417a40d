"""What was foretold of crews of Claude Code that were recorded without HiveMind, and what came when they ran with it.

`crews/` holds their session files, cut down to what is read, with numbers in place of names. `clients/test_foretelling`
records such crews anew, and runs them.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from hivemind.cli.main import main
from hivemind.journal.importers.making import journal_of
from hivemind.lab.foresight.answer import answer
from hivemind.lab.foresight.foretold import WAITED, WALL, named
from hivemind.lab.foresight.prediction import predict
from hivemind.lab.foresight.told import Foretold
from hivemind.lab.simulate.recording import Recording, load

CREWS = Path(__file__).parent / "crews"


@dataclass(frozen=True)
class Crew:
    """A crew, what limited it, and its wall time and total wait with HiveMind, in seconds."""

    name: str
    shows: str
    wall_s: float
    waited_s: float


RAN = (
    Crew("tide", "a bucket of claude-sonnet-4 is filled with 24 requests in", 80.9, 244.8),
    Crew("burst", "a bucket of claude-sonnet-4 is filled with 40 requests in", 93.2, 363.8),
    Crew("minute", "at most 20 requests of claude-sonnet-4 are taken in a window of 60 s", 130.8, 554.1),
    Crew("input", "a bucket of claude-sonnet-4 is filled with 300k input tokens in 60 s", 114.2, 348.8),
    Crew("places", "529s came from a limit of about 2 in flight", 87.1, 285.5),
)


def recorded(folder: Path, tmp_path: Path) -> Recording:
    """The models of a crew's session files."""
    return load((journal_of([str(folder)], tmp_path / "state").path,))


def holds(figure: Foretold, came: float) -> bool:
    """Whether what came is in the interval; what is said with confidence must have come so."""
    assert figure.changed is not None
    assert figure.recorded is not None
    if figure.verdict in ("better", "worse"):
        assert (figure.verdict == "better") is (came < figure.recorded), figure
    return figure.changed.low <= came <= figure.changed.high


@pytest.mark.slow
@pytest.mark.parametrize("crew", RAN, ids=lambda crew: crew.name)
def test_what_came(crew: Crew, tmp_path: Path) -> None:
    """Lies in the intervals, though refusals of sub-agents leave no status; the limit is inferred from the others."""
    recording = recorded(CREWS / crew.name, tmp_path)
    found = answer(recording, predict(recording, ()))
    assert found.shows[0].startswith(crew.shows)
    assert holds(named(found.figures, WALL), crew.wall_s)
    assert holds(named(found.figures, WAITED), crew.waited_s)


def test_a_limit_that_refusals_state(tmp_path: Path) -> None:
    """Is taken as they state it, and only its form is inferred."""
    shutil.copytree(CREWS / "burst", tmp_path / "burst")
    for path in (tmp_path / "burst").rglob("*.jsonl"):
        said = path.read_text().replace("your rate limit of requests", "your organization's rate limit of 40 requests")
        path.write_text(said)
    recording = recorded(tmp_path / "burst", tmp_path)
    (limit,) = next(iter(recording.providers.values())).limits
    assert (limit.limit, limit.span_s, limit.size, limit.form) == (40, 60.0, 4, "bucket")


def test_what_rests_on_what_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Isn't 0 in a report, and without durations nothing is foretold."""
    path = tmp_path / "moments.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,4808,10\n2023-11-16 18:17:04,3180,8\n"
    )
    state = ("--state-dir", str(tmp_path / "state"))
    assert main(["report", str(path), "--markdown", *state]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    unknown = [row[0].removeprefix("| ") for row in rows if len(row) > 1 and row[1] == "not recorded"]
    assert unknown == ["wall time", "p50 wait"]
    assert main(["what-if", str(path), *state]) == 0
    assert "can't be said of" in capsys.readouterr().out
