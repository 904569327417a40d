"""Shared by tests of commands that work on journals."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def at_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of one's own, a terminal a hundred columns wide, and no journals but one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path / "state"))
