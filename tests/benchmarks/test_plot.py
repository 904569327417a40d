"""The plot and the tables of the manual, drawn from measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from benchmarks import plot


def seen(load: str, target: str, p50_ms: float, **figures: float) -> dict[str, Any]:
    return {"load": load, "target": target, "p50_ms": p50_ms, "p99_ms": 2 * p50_ms, "cpu_us": None, **figures}


ROUND = [
    seen("1 client", "direct", 0.125, per_s=8000.0),
    seen("1 client", "hivemind", 0.25, per_s=4000.0, cpu_us=151.26),
    seen("1 client", "nginx", 0.15, per_s=7000.0, cpu_us=41.0),
    seen("16 clients", "hivemind", 2.5, per_s=5000.0, cpu_us=140.0),
    seen("16 clients", "nginx", 0.5, per_s=20_000.0, cpu_us=40.0),
    seen("16 clients", "litellm", 300.0, per_s=50.0, cpu_us=20_000.0),
    seen("16 clients", "recording", 2.5, per_s=5000.0),
    {"load": "20 streams", "target": "portkey", "why": "portkey answered 500"},
    {"load": "steps", "target": "screen", "worst_ms": 1.0},
]
GOALS = [
    {"what": "CPU per request, 16 clients", "goal": "<= 150 us", "verdict": "held"}
    | {"measured": 140.0, "low": 139.96, "high": 150.0},
    {"what": "first frame", "goal": "<= 1 s", "verdict": "skipped", "measured": None, "low": None, "high": None},
]


def test_plot_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plot is well-formed and names its targets and goals; the tables have what was measured, and what wasn't."""
    found = {"python": "3.11", "system": "Linux", "processors": 2, "programs": {"hivemind": "1.2", "nginx": "1.30"}}
    path = tmp_path / "perf.json"
    path.write_bytes(msgspec.json.encode({**found, "goals": GOALS, "rounds": [ROUND, ROUND]}))
    monkeypatch.setattr(sys, "argv", ["plot", str(path), str(tmp_path)])
    assert plot.main() == 0
    texts = [each.text for each in ElementTree.parse(tmp_path / "performance.svg").iter() if each.text]
    assert {"HiveMind", "nginx", "LiteLLM", "140 µs", "goal"} <= set(texts)
    lines = (tmp_path / "performance-figures.md").read_text().splitlines()
    assert "| | direct | nginx 1.30 | HiveMind 1.2 | LiteLLM |" in lines
    assert "| CPU per request, 1 client | – | 41.0 µs | 151 µs | – |" in lines
    assert "| Requests per second over nginx's, 16 clients | – | 1.00 | 0.250 | 0.00250 |" in lines
    assert "| Added p50, 1 client | – | 0.0250 ms | 0.125 ms | – |" in lines
    assert "| CPU per request, 16 clients | <= 150 us | 140 | 140 | 150 | held |" in lines
    assert not any("first frame" in line for line in lines)
    assert lines[-1] == "Portkey doesn't carry 20 streams here: portkey answered 500."
