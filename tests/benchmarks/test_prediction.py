"""The prediction benchmark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import prediction


def test_every_figure_is_within_its_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program with two small worlds: each is simulated, and changes of one are predicted."""
    worlds = tuple(each for each in prediction.WORLDS if each.name in ("replay-11", "few slots"))
    monkeypatch.setattr(prediction, "WORLDS", worlds)
    monkeypatch.setattr(prediction, "CHANGES", ("max_concurrency=3",))
    monkeypatch.setattr(prediction, "_BUSY", worlds[1])
    assert prediction.main(["--json", str(tmp_path / "found.json")]) == 0
    figures = msgspec.json.decode((tmp_path / "found.json").read_bytes())
    assert [each["met"] for each in figures[:4]] == [True] * 4
    assert len(figures) == 5
