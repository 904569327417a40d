"""Journals to work on: of mock agents before a mock provider, in virtual time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from benchmarks.worlds.agents import Habits
from benchmarks.worlds.provider import Cost, Rules
from benchmarks.worlds.rules import Spells
from benchmarks.worlds.world import World, run
from hivemind.cli import progress
from hivemind.cli.main import main
from hivemind_mock.bench.runs import BenchRun, execute_run
from hivemind_mock.provider.config import SCENARIOS
from hivemind_mock.provider.formats.base import ErrorKind


def does(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """`hivemind` with these arguments, which goes well; gives what it prints."""
    with mock.patch.object(progress, "FIRST_S", math.inf):  # however busy the machine is
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
    """A journal of a run in which agents of a provider that often fails waited too long before each retry."""
    settings = {"max_concurrency": 8, "retry": {"base_s": 30.0, "max_s": 60.0}, "circuit": {"threshold": 1.0}}
    rules = Rules(Cost(2.0, 0.0, 0.0, 0.1), failing=[Spells([(0.0, 1e9)], 0.3, ErrorKind.OVERLOADED)])
    return _of_a_world(folder, "badly-tuned", rules, settings, turns=6)


def slow(folder: Path, turns: int = 10) -> Path:
    """A journal of a run at a slow provider."""
    return _of_a_world(folder, "slow", Rules(Cost(6.0, 0.0, 0.0, 0.1)), {"max_concurrency": 4}, turns)


def _of_a_world(folder: Path, name: str, rules: Rules, settings: dict[str, Any], turns: int = 10) -> Path:
    path = folder / f"{name}.jsonl"
    agents = tuple(Habits(f"agent-{number}", 0.0, turns, 0.5, 200, 20, 100, number % 2 == 0) for number in range(8))
    run(World(name, 1, rules, agents, settings, ()), 1, path=path)
    return path
