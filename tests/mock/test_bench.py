"""`hivemind bench`: scenarios, tables, JSON and its command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hivemind.cli import main as cli
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.read.reader import open_journal
from hivemind_mock.bench.main import tables
from hivemind_mock.bench.runs import ABLATIONS, BenchRun, RunResult, execute_run
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


@pytest.mark.slow
def test_direct_agents_die_as_in_the_paper() -> None:
    """Without a scheduler, agents die beyond five at a time, and their tokens are wasted."""
    assert execute_run(BenchRun(SCENARIOS["micro-5"], "direct", 1)).dead == 0
    crowd = execute_run(BenchRun(SCENARIOS["micro-10"], "direct", 1))
    assert (crowd.dead, crowd.failure_rate, set(crowd.errors)) == (10, 1.0, {"status 429"})
    assert crowd.wasted_tokens > 5_000
    assert execute_run(BenchRun(SCENARIOS["replay-11"], "direct", 1)).dead >= 7


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


@pytest.mark.slow
def test_without_retry_agents_die() -> None:
    """The ablation turns off what it says."""
    assert execute_run(BenchRun(SCENARIOS["replay-11"], "hivemind", 1, "No retry")).dead > 3
    assert list(ABLATIONS) == ["Full", "No admission", "No rate limit", "No backpressure", "No retry", "Adm. only"]


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
    assert cli.main(["bench", "micro-5", "--seeds", "1", "--json", str(target)]) == 0
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
        (["--json", "/nowhere/at/all"], "--json: can't write /nowhere/at/all: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text names the argument, and the exit code is 2."""
    assert cli.main(["bench", *arguments]) == 2
    shown = capsys.readouterr().err
    assert line in shown
    assert shown.count("\n") == 1


def recorded(path: Path) -> Figures:
    """What a journal that ended in good order tells of its run."""
    journal, tally = open_journal(path), FiguresFold()
    for event in journal.events():
        tally.apply(event)
    assert journal.damage.messages() == []
    assert journal.damage.ended
    return tally.figures()


@pytest.mark.slow
def test_the_command_leaves_journals(tmp_path: Path) -> None:
    """One of every run through HiveMind, named by what it was; its figures are the run's."""
    assert cli.main(["bench", "replay-11", "--seeds", "1", "--ablation", "--journal", str(tmp_path / "kept")]) == 0
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == [
        "replay-11-1.jsonl",
        "replay-11-adm-only-1.jsonl",
        "replay-11-full-1.jsonl",
        "replay-11-no-admission-1.jsonl",
        "replay-11-no-backpressure-1.jsonl",
        "replay-11-no-rate-limit-1.jsonl",
        "replay-11-no-retry-1.jsonl",
    ]
    plain = execute_run(BenchRun(SCENARIOS["replay-11"], "hivemind", 1))
    figures = recorded(tmp_path / "kept" / "replay-11-1.jsonl")
    assert (figures.agents, figures.finished, figures.answered, figures.attempts) == (11, 11, 88, plain.attempts)
    assert figures.wall_s == pytest.approx(plain.wall_s)
    assert recorded(tmp_path / "kept" / "replay-11-no-retry-1.jsonl").finished < 11
