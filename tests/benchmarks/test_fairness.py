"""The fairness benchmark: its targets are met by the real proxy, and can be missed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import fairness
from benchmarks.fairness import Crowd, Served, jain, saturate, worst_minute
from benchmarks.figures import Figure, run, table


@pytest.mark.slow
def test_every_target_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program, in virtual time: a line for each figure in the table, an object for each in the JSON."""
    target = tmp_path / "runs.json"
    assert fairness.main(["--json", str(target)]) == 0
    lines = capsys.readouterr().out.splitlines()
    figures = msgspec.json.decode(target.read_bytes())
    count = len(fairness.SET_UPS) + 3
    assert [each["met"] for each in figures] == [True] * count
    assert [line.split()[-1] for line in lines[1:]] == ["met"] * count
    assert all(each["measured"] >= 0.95 for each in figures[:-3])
    assert 0 <= figures[-3]["measured"] <= 0.05


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


def test_a_run_repeats_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last answer; every agent was served."""
    monkeypatch.setattr(fairness, "_LASTS_S", 20.0)
    crowds = Crowd("a", 2), Crowd("b", 1, prompt_tokens=5_000)
    served = saturate(*crowds)
    assert served == saturate(*crowds)
    assert {each.agent for each in served} == {"a-0", "a-1", "b-0"}


def test_the_worst_minute_is_found_wherever_it_begins() -> None:
    """Two agents that share an hour fairly and one minute not at all."""
    even = [Served(f"a{n % 2}", n * 1.0, 0.0, 10.0) for n in range(240)]
    assert worst_minute(even) == pytest.approx(1.0)
    uneven = [Served("a0", each.at, 0.0, 10.0) if 90 <= each.at < 151 else each for each in even]
    assert worst_minute(uneven) == pytest.approx(0.5)


def test_index() -> None:
    """One for all alike, a tenth where one of ten has all."""
    assert jain([3.0] * 10) == pytest.approx(1.0)
    assert jain([1.0, *[0.0] * 9]) == pytest.approx(0.1)


def test_a_target_can_be_missed() -> None:
    """And the table says so."""
    missed = [Figure("wait", 2.0, 1.0, False, "s"), Figure("index", 0.9, 0.95, True)]
    assert [each.met for each in missed] == [False, False]
    assert [line.split() for line in table("fairness", missed).splitlines()[1:]] == [
        ["wait", "2.00", "s", "at", "most", "1.00", "s", "missed"],
        ["index", "0.900", "at", "least", "0.950", "missed"],
    ]
