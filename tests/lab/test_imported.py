"""Simulations of what was recorded without a proxy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from journal.recordings import entry, har

from hivemind.cli.main import main
from hivemind.journal.files import find
from hivemind.lab.foresight.answer import answer
from hivemind.lab.foresight.foretell import foretell
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate

_BEGAN = datetime(2026, 11, 21, 18, tzinfo=UTC)


@pytest.mark.slow
def test_what_holds_an_imported_run_back_is_told(tmp_path: Path) -> None:
    """Eight agents sent 160 requests in 40 s; with HiveMind, what it assumes makes minutes of it unless set to none."""
    entries = []
    for number in range(160):
        at = _BEGAN + timedelta(seconds=number // 8 * 2, milliseconds=number % 8)
        headers = {"x-hivemind-agent": f"agent-{number % 8}"}
        entries.append(entry(at.isoformat(timespec="milliseconds"), headers=headers))
    path = har(tmp_path / "run.har", *entries)
    assert main(["journal", "import", str(path), "--state-dir", str(tmp_path)]) == 0
    recording = load(find("latest", tmp_path))
    (lane,) = recording.lanes.values()
    assumed = (
        f"no rate limit was seen; simulated are those that HiveMind assumes or is set to, {lane.rpm} requests and "
    )
    assert any(assumed in line for line in recording.warnings)
    assert not any("none is simulated" in line for line in recording.warnings)
    limited = answer(recording, foretell(recording, ()))
    assert limited.sentence.startswith("With HiveMind's usual settings this run would have taken about ")
    assert any(assumed in note for note in limited.notes)
    assert simulate(recording).wall_s > 2 * recording.figures.wall_s
    free = simulate(recording, parse_changes(["rpm=0", "tpm=0", "max_concurrency=0"]))
    assert free.wall_s == pytest.approx(recording.figures.wall_s, rel=0.01)
    assert free.waited_s == pytest.approx(0.0, abs=0.1)
