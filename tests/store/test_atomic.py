"""Files that appear whole or not at all, what a kill in between leaves, and whether a process holds a file's lock."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from hivemind.settings.write import draft, write
from hivemind.store.atomic import DRAFT_OLD_S, written_whole
from hivemind.store.locks import is_locked
from hivemind.store.token_file import Note, write_note


def left_over(folder: Path, name: str, age_s: float) -> Path:
    """A draft as a kill leaves it."""
    path = folder / f".{name}.0123abcd.draft"
    path.write_text('{"token":')
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.mark.parametrize("name", ["control-8765.json", "hivemind.toml"])
def test_drafts_of_killed_programs_go(tmp_path: Path, name: str) -> None:
    """The next write of the same file removes them once no program can be writing them, and others' stay."""
    old = left_over(tmp_path, name, DRAFT_OLD_S + 60)
    young = tmp_path / f".{name}.ffff0000.draft"
    young.touch()
    others = [left_over(tmp_path, "other.json", DRAFT_OLD_S + 60), tmp_path / f".{name}.mine"]
    others[1].touch()
    os.utime(others[1], (0, 0))
    if name == "hivemind.toml":
        write(draft(tmp_path / name, {"aimd.alpha": 0.5}))
    else:
        write_note(tmp_path / name, Note("http://127.0.0.1:8765", "t", 1, "r"))
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in others)
    assert (tmp_path / name).read_text()


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The file is what it was, and there is no draft; the system's error names it."""
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), written_whole(path) as file:
        file.write(b"half" * (1 // 0))
    with pytest.raises(OSError, match="full") as caught, written_whole(path):
        raise OSError(28, "full")  # as the system raises it, without a name
    assert caught.value.filename == str(path)
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["file"])


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
