"""Progress without a terminal: silent for short work, then a line now and then."""

from __future__ import annotations

import pytest

from hivemind.cli.progress import EVERY_S, FIRST_S, Progress


def test_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said of what takes moments; later a line is written, and others no more often than they are read."""
    now = 0.0
    with Progress(lambda: now) as progress:
        for second in range(int(FIRST_S + 2 * EVERY_S) + 1):
            now = float(second)
            progress.tell(f"at {second}")
    first = int(FIRST_S)
    lines = [f"hivemind: at {first + number * int(EVERY_S)}" for number in range(3)]
    assert capsys.readouterr() == ("", "\n".join([*lines, ""]))
