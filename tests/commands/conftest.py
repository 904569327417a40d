"""Shared by tests of commands that work on journals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hivemind.cli.lab import tune
from hivemind.lab.tune import workers
from hivemind.lab.tune.workers import Runs


@pytest.fixture
def at_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of one's own, a terminal a hundred columns wide, and no journals but one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path / "state"))


@contextmanager
def _here(paths: Sequence[Path]) -> Iterator[Runs]:
    """Simulate as :func:`hivemind.lab.tune.workers.workers` does, in this process."""
    workers._recording.cache_clear()
    workers._price.cache_clear()
    yield lambda jobs: [workers.simulate_job(paths, job) for job in jobs]


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations run in the test's process, because a second process takes a second to import the simulator."""
    monkeypatch.setattr(tune, "workers", _here)
