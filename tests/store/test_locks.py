"""Whether a process holds a file's lock."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from hivemind.store.locks import is_locked


def test_a_lock(tmp_path: Path) -> None:
    """Asking for it takes nothing from the one that holds it, and a file that isn't there is nobody's."""
    path = tmp_path / "lock"
    assert not is_locked(path)
    with path.open("wb") as file:
        assert not is_locked(path)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_locked(path)
        assert is_locked(path)
    assert not is_locked(path)


def test_what_cannot_be_told(tmp_path: Path) -> None:
    """It isn't taken for free: what runs would be taken for lost."""
    with pytest.raises(OSError, match="no regular file"):
        is_locked(tmp_path)
