"""The control room's tests see no setting of the machine they run on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


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
