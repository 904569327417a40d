"""`hivemind bench`: scenarios, tables, JSON and its command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hivemind.cli import main as cli
from hivemind_mock.bench.main import tables
from hivemind_mock.bench.runs import BenchRun, RunResult, execute_run
from hivemind_mock.provider.config import SCENARIOS


def result_of(run: BenchRun, *, dead: int = 0, wall_s: float = 66.0, charged: int = 100) -> RunResult:
    errors = ("status 429",) * dead
    return RunResult(run, run.scenario.agents - dead, dead, 210 * dead, wall_s, charged, 120, errors)


def test_the_scenarios_are_the_papers() -> None:
    """Seven, in the paper's order, with its agents and limits."""
    assert [(s.name, s.agents, s.turns, s.rpm, s.concurrency) for s in SCENARIOS.values()] == [
        ("micro-5", 5, 8, 50, 0),
        ("micro-10", 10, 8, 50, 0),
        ("micro-20", 20, 8, 50, 0),
        ("micro-50", 50, 6, 50, 0),
        ("replay-11", 11, 8, 60, 5),
        ("stress", 20, 10, 20, 3),
        ("latency-spike", 10, 10, 60, 0),
    ]


@pytest.mark.parametrize("name", ["micro-5", "replay-11"])
def test_a_run_repeats_exactly(name: str) -> None:
    """The same seed gives the same outcome to the last token and microsecond."""
    plan = BenchRun(SCENARIOS[name], "direct", 7)
    assert execute_run(plan) == execute_run(plan)


def test_nobody_dies_through_hivemind() -> None:
    """Faults and limits that kill most agents kill none, and every attempt made good was forced by a fault."""
    result = execute_run(BenchRun(SCENARIOS["replay-11"], "hivemind", 1))
    assert (result.alive, result.dead, result.wasted_tokens) == (11, 0, 0)
    assert result.charged > SCENARIOS["replay-11"].agents * SCENARIOS["replay-11"].turns


@pytest.mark.parametrize(("charged", "bound"), [(0, 0), (60, 0), (61, 60), (120, 60), (121, 120)])
def test_the_lower_bound_counts_whole_windows(charged: int, bound: float) -> None:
    """The first window is free; each further one must be waited for."""
    assert result_of(BenchRun(SCENARIOS["replay-11"], "hivemind", 1), charged=charged).lower_bound_s == bound


def test_the_table_shows_means_over_the_seeds() -> None:
    """One row a scenario and mode, the worst ratio beside the mean."""
    plans = [BenchRun(SCENARIOS["replay-11"], "hivemind", seed) for seed in (1, 2)]
    (table,) = tables([result_of(plans[0]), result_of(plans[1], dead=2, wall_s=60.0)])
    assert len(table.splitlines()) == 2
    row = table.splitlines()[1].split()
    assert row == ["replay-11", "hivemind", "11", "10.0", "1.0", "9.1%", "210", "63.0", "9.5", "1.050", "1.100"]


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`hivemind bench micro-5 --seeds 1` runs both modes."""
    target = tmp_path / "runs.json"
    journals = tmp_path / "journals"
    assert cli.main(["bench", "micro-5", "--seeds", "1", "--json", str(target), "--journal", str(journals)]) == 0
    assert [*journals.iterdir()]
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["micro-5", "direct"],
        ["micro-5", "hivemind"],
    ]
    assert [record["mode"] for record in msgspec.json.decode(target.read_bytes())] == ["direct", "hivemind"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["micro-6"], "micro-6: no such scenario; there are micro-5,"),
        (["--seeds", "0"], "--seeds: must be a whole number from 1 to 10000, not '0'"),
        (["--seeds", "many"], "--seeds: must be a whole number"),
        (["--journal", __file__], f"--journal: can't write to {__file__}: it isn't a folder"),
        (["--json", "/nowhere/at/all"], "--json: can't write /nowhere/at/all: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text names the argument, and the exit code is 2."""
    assert cli.main(["bench", *arguments]) == 2
    shown = capsys.readouterr().err
    assert line in shown
    assert shown.count("\n") == 1
