"""Journals to work on: of mock agents before a mock provider, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.worlds.agents import Habits
from benchmarks.worlds.provider import Cost, Rules
from benchmarks.worlds.world import World, run
from hivemind.cli.main import main
from hivemind_mock.bench.runs import BenchRun, execute_run
from hivemind_mock.provider.config import SCENARIOS


def does(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """`hivemind` with these arguments, which goes well; gives what it prints."""
    assert main([*args]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def recorded(folder: Path, scenario: str = "replay-11") -> Path:
    """A journal of a run of a scenario."""
    run = BenchRun(SCENARIOS[scenario], "hivemind", seed=1, journals=folder)
    execute_run(run)
    assert run.journal is not None
    return run.journal


def badly_tuned(folder: Path) -> Path:
    """A journal of a run in which a low latency target took most of the slots away from agents of a slow provider."""
    path = folder / "badly-tuned.jsonl"
    agents = tuple(Habits(f"agent-{number}", 0.0, 10, 0.5, 200, 20, 100, number % 2 == 0) for number in range(8))
    settings = {"max_concurrency": 4, "aimd": {"latency_target_s": 4.0}}
    run(World("badly-tuned", 1, Rules(Cost(6.0, 0.0, 0.0, 0.1)), agents, settings, ()), 1, path=path)
    return path
