"""Where the commands' JSON goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivemind.errors import UsageError
from hivemind_mock.bench.main import JsonOutput


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is written, and the tables are still printed."""
    target = JsonOutput(str(tmp_path / "found.json"))
    target.write(b"{}")
    assert (tmp_path / "found.json").read_bytes() == b"{}"
    assert not target.replaces_tables
    assert capsys.readouterr().out == ""


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """A dash stands for it, and the tables give way."""
    target = JsonOutput("-")
    target.write(b"{}")
    assert target.replaces_tables
    assert capsys.readouterr().out == "{}"


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    """Before minutes of work, not after."""
    with pytest.raises(UsageError, match="--json: can't write"):
        JsonOutput(str(tmp_path / "nowhere" / "found.json"))
