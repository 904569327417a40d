"""The fairness benchmark: its targets are met by the real proxy, and can be missed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import fairness
from benchmarks.fairness import Served, saturate, worst_minute
from benchmarks.figures import Figure, run


def test_a_heavy_agent_gets_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten agents, one with 20 x the tokens, all are served alike over a minute."""
    monkeypatch.setattr(fairness, "_LASTS_S", 62.0)
    _, slots, crowds = fairness.SET_UPS[0]
    assert worst_minute(saturate(*crowds, slots=slots)) >= 0.95


def test_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures are printed as a table and written as JSON, or, with a dash, written as JSON alone."""
    figure = Figure("index", 0.9, 0.95, True)
    record = {"figure": "index", "measured": 0.9, "bound": 0.95, "at_least": True, "met": False}

    def program(target: str) -> int:
        return run("fairness", None, lambda: [figure], ["--json", target])

    path = tmp_path / "found.json"
    assert program(str(path)) == 0
    assert msgspec.json.decode(path.read_bytes()) == [record]
    assert capsys.readouterr().out.split()[-1] == "missed"
    assert program("-") == 0
    assert msgspec.json.decode(capsys.readouterr().out) == [record]
    assert program(str(tmp_path / "nowhere" / "found.json")) == 2
    assert "--json: can't write" in capsys.readouterr().err


def test_the_worst_minute_is_found_wherever_it_begins() -> None:
    """Two agents that share an hour fairly and one minute not at all."""
    even = [Served(f"a{n % 2}", n * 1.0, 0.0, 10.0) for n in range(240)]
    assert worst_minute(even) == pytest.approx(1.0)
    uneven = [Served("a0", each.at, 0.0, 10.0) if 90 <= each.at < 151 else each for each in even]
    assert worst_minute(uneven) == pytest.approx(0.5)
