"""Shared by tests of commands that work on journals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from hivemind.cli.lab import tune, what_if
from hivemind.journal.figures import Figures
from hivemind.lab.tune.workers import Job, Simulator


@pytest.fixture
def at_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of one's own, a terminal a hundred columns wide, and no journals but one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path / "state"))


class _Here:
    """Simulates as :class:`hivemind.lab.tune.workers.Workers` does, in this process."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._simulator = Simulator(paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, jobs: Sequence[Job]) -> list[Figures | None]:
        return [self._simulator.run(job) for job in jobs]


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations run in the test's process, because a second process takes a second to import the simulator."""
    monkeypatch.setattr(tune, "Workers", _Here)
    monkeypatch.setattr(what_if, "Workers", _Here)
