"""Shared by tests of commands that work on journals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hivemind.cli.lab import tune
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.tune.simulations import Simulations
from hivemind.scheduler.types import Price


@pytest.fixture
def at_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of one's own, a terminal a hundred columns wide, and no journals but one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path / "state"))


@contextmanager
def _simulated_here(recordings: Sequence[Recording], price: Price | None) -> Iterator[Simulations]:
    yield Simulations(recordings, price)


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations run in the test's process, because a second process takes a second to import the simulator."""
    monkeypatch.setattr(tune, "simulations", _simulated_here)
