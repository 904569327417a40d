"""Journals to work on: of mock agents before a mock provider, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivemind.cli.main import main
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import write_journal
from hivemind_mock.bench.runs import Run, execute_run
from hivemind_mock.provider.config import SCENARIOS


def does(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """`hivemind` with these arguments, which goes well; gives what it prints."""
    assert main([*args]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def recorded(folder: Path, scenario: str = "replay-11") -> Path:
    """A journal of a run of a scenario."""
    run = Run(SCENARIOS[scenario], "hivemind", seed=1, journals=folder)
    execute_run(run)
    assert run.journal is not None
    return run.journal


def badly_set(folder: Path) -> Path:
    """A journal of a run with settings that can be bettered: one request at a time."""
    path = folder / "badly-set.jsonl"
    changes = parse_changes(["max_concurrency=1"])
    write_journal(load(recorded(folder, "latency-spike")), changes, path, "recorded", seed=0)
    return path
