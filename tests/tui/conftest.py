"""The control room's tests see no setting of the machine they run on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tui.idle import idle


@pytest.fixture(autouse=True)
def _plain_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of the machine's shows in a test."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for name in ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def _pilot_waits_for_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Textual pilot waits until the event loop is idle instead of sleeping until the process uses little CPU."""
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", idle)
