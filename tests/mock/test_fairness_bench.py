"""The benchmark's figures of fairness: what is promised holds through the real proxy, and they can be missed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import fairness
from benchmarks.fairness import Crowd, Served, jain, percentile, saturate, worst_minute
from hivemind.cli import main as cli
from hivemind_mock.bench.targets import Figure, table


def test_every_promise_is_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`hivemind bench fairness`, in virtual time: a line each in the table, an object each in the JSON."""
    target = tmp_path / "runs.json"
    assert cli.main(["bench", fairness.NAME, "--json", str(target)]) == 0
    lines = capsys.readouterr().out.splitlines()
    figures = msgspec.json.decode(target.read_bytes())
    count = len(fairness.SET_UPS) + 3
    assert [(each["scenario"], each["held"]) for each in figures] == [("fairness", True)] * count
    assert [line.split()[-1] for line in lines[1:]] == ["held"] * count
    assert all(each["measured"] >= 0.95 for each in figures[:-3])
    assert 0 <= figures[-3]["measured"] <= 0.05


def test_a_run_repeats_exactly() -> None:
    """To the last answer; every agent was served."""
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


def test_the_index_and_the_percentile() -> None:
    """One for all alike, a tenth where one of ten has all; the value that so large a share stays within."""
    assert jain([3.0] * 10) == pytest.approx(1.0)
    assert jain([1.0, *[0.0] * 9]) == pytest.approx(0.1)
    assert (percentile(range(100), 0.95), percentile([7.0], 0.95)) == (95, 7.0)


def test_a_promise_can_be_missed() -> None:
    """And the table says so."""
    missed = [Figure("wait", 2.0, 1.0, False, "s"), Figure("index", 0.9, 0.95, True)]
    assert [each.held for each in missed] == [False, False]
    assert [line.split() for line in table("fairness", missed).splitlines()[1:]] == [
        ["wait", "2.00", "s", "at", "most", "1.00", "s", "missed"],
        ["index", "0.900", "at", "least", "0.950", "missed"],
    ]
