from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.fleet import simulated_figures
from benchmarks.fleet.simulated import Found, figures_of
from benchmarks.fleet.simulation import Case, Crowd
from benchmarks.fleet.sync_cost import SyncCost
from hivemind.scheduler.types import Priority


def test_a_case_becomes_a_row_of_the_manual(tmp_path: Path) -> None:
    """A short case is simulated, and its figures are written as a table."""
    crowds = (Crowd(0, 3), Crowd(1, 1), Crowd(1, 1, Priority.CRITICAL))
    case = figures_of(Case("two proxies", crowds, rpm=30, lasts_s=70.0))
    assert case.worst_minute <= 30
    assert case.weights == pytest.approx([0.6, 0.4])
    (tmp_path / "found.json").write_bytes(msgspec.json.encode(Found([case], [SyncCost(3, 0.25, 0.5, 4.0)])))
    assert simulated_figures.main([str(tmp_path / "found.json"), str(tmp_path)]) == 0
    text = (tmp_path / "fleet-simulation-figures.md").read_text("utf-8")
    assert f"| two proxies | {case.worst_minute} |" in text
    assert "| 3 | 0.25 | 0.50 | 4 |" in text
