"""The kept inputs break nothing, nor do some hundred mutated ones of each target."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import engine
from fuzz.kit import CORPUS, TARGETS

ROOT = Path(__file__).parents[2]
RUNS = 75
MINUTES = 0.12
"""At most; slow targets don't try as many."""


@pytest.fixture(autouse=True, scope="module")
def _targets() -> None:
    """Not where tests are collected, which each worker does: they import nearly everything."""
    engine.load(instrumented=False)


@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_kept_inputs(name: str) -> None:
    """Seeds, and whatever broke something once."""
    target = TARGETS[name]
    kept = list(engine.replayed(target))
    assert kept, "each target has a seed"
    for path, data in kept if not target.timed else ():
        assert engine.broken_by(target, data) == "", path


def test_the_corpus_is_small_and_used() -> None:
    """It is read by people, and in each run."""
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 300 << 10
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no package for this system")
def test_mutated_inputs() -> None:
    """Nearly the same ones each time, so that what fails is rarely something older than a change."""
    command = [sys.executable, "-m", "fuzz", "--runs", str(RUNS), "--minutes", str(MINUTES), "--seed", "1"]
    environment = {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'mock'}", "PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
