"""The foresight benchmark: what it counts as an error, and its tables."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.foresight import figures as manual
from benchmarks.foresight.cases import Case, Foretold
from benchmarks.foresight.score import figures, of_cases, table
from hivemind.records import replace

CASE = Case(
    world="001-places",
    kind="places",
    change="max_concurrency=2",
    wall_s=Foretold(100.0, 90.0, 110.0),
    waited_s=Foretold(30.0, 20.0, 40.0),
    real_wall_s=(104.0, 96.0),
    real_waited_s=(50.0, 38.0),
)


def test_only_what_is_beyond_two_real_runs_is_an_error() -> None:
    """Between them a figure is right; coverage counts every real run."""
    wall, wait = of_cases([CASE])
    assert (wall.median, wall.covered) == (0.0, 100.0)
    assert wait.worst == pytest.approx(100 * 8 / 44)
    assert wait.covered == 50.0


def test_strange_worlds_have_targets_of_their_own() -> None:
    """A p90 of 15 %, and intervals that hold at least 80 %."""
    bounds = {each.what: each.bound for each in figures([CASE], strange=True)}
    assert bounds == {
        "wall time in worlds that no model describes: p90 of the errors": 15.0,
        "wall time in worlds that no model describes: 90 % intervals hold": 80.0,
        "total wait in worlds that no model describes: 90 % intervals hold": 80.0,
    }


def test_tables_are_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the screen as in the manual."""
    found = [CASE, replace(CASE, kind="drift", world="002-drift")]
    assert [line.split()[:2] for line in table(found).splitlines()] == [
        ["kind", "cases"],
        ["drift", "1"],
        ["places", "1"],
        ["all", "2"],
    ]
    run = {"what": "strangers' worlds", "version": "1.0", "cores": 2, "cases": found, "figures": []}
    (tmp_path / "found.json").write_bytes(msgspec.json.encode(run))
    monkeypatch.setattr("sys.argv", ["figures", str(tmp_path), str(tmp_path / "found.json")])
    assert manual.main() == 0
    written = (tmp_path / manual.NAME).read_text("utf-8")
    assert "### Strangers' worlds\n\n2 worlds, 2 changed settings; version 1.0, 2 cores." in written
    assert "| drift | 1 | 0.0 % |" in written
