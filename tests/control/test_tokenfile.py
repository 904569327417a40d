"""The note of a running proxy's control token: who can read it, and that it comes and goes with the proxy."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hivemind.settings import Settings
from hivemind.settings.checks import checked
from hivemind.store.token_file import Note, announced, note_path, read_note, remove_note, state_dir, write_note

URL = "http://127.0.0.1:8765"


def settings(directory: Path, **values: Any) -> Settings:
    return checked({"state_dir": directory, **values})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_announced(tmp_path: Path) -> None:
    """While the proxy runs its note says where it is, with a token of its own, and nobody else can read it."""
    directory = tmp_path / "state" / "hivemind"
    path = directory / "control-8765.json"
    with announced(None, directory, URL, 8765) as key:
        assert key is not None
        assert json.loads(path.read_text()) == {"url": URL, "token": key.token, "pid": os.getpid(), "run": key.run}
        assert (mode(path), mode(directory)) == (0o600, 0o700)
        assert [each.name for each in directory.iterdir()] == [path.name]
        assert len(key.token) >= 32
    assert list(directory.iterdir()) == []


def test_private_whatever_the_umask(tmp_path: Path) -> None:
    """A generous umask makes it no more readable, and a folder that was there keeps its mode."""
    before = os.umask(0)
    try:
        directory = tmp_path / "shared"
        directory.mkdir(mode=0o755)
        with announced(None, directory, URL, 8765):
            assert (mode(directory / "control-8765.json"), mode(directory)) == (0o600, 0o755)
    finally:
        os.umask(before)


def test_new_at_every_start(tmp_path: Path) -> None:
    """Neither the token nor the run is ever used again."""
    keys = []
    for _ in range(2):
        with announced(None, tmp_path, URL, 8765) as key:
            keys.append(key)
    assert keys[0] is not None
    assert keys[1] is not None
    assert keys[0].token != keys[1].token
    assert keys[0].run != keys[1].run


def test_one_a_port(tmp_path: Path) -> None:
    """Two proxies on two ports are both found."""
    with announced(None, tmp_path, URL, 8765) as one, announced(None, tmp_path, URL, 8766) as two:
        found = [read_note(note_path(tmp_path, port)).token for port in (8765, 8766)]
        assert one is not None
        assert two is not None
        assert found == [one.token, two.token]


def test_chosen_token(tmp_path: Path) -> None:
    """A token from the settings is the one, and is found here too."""
    with announced("ch0sen-by-me", tmp_path, URL, 8765) as key:
        assert key is not None
        assert key.token == read_note(note_path(tmp_path, 8765)).token == "ch0sen-by-me"


def test_stale_note_is_replaced(tmp_path: Path) -> None:
    """What a proxy left that was killed makes room."""
    path = note_path(tmp_path, 8765)
    for left in (b'{"url":"x","token":"old","pid":1,"run":"old"}', b"rubbish", b"\xff"):
        path.write_bytes(left)
        path.chmod(0o644)
        with announced(None, tmp_path, URL, 8765) as key:
            assert key is not None
            assert (read_note(path).token, mode(path)) == (key.token, 0o600)
        assert not path.exists()


@pytest.mark.parametrize(
    ("url", "pid", "told"),
    [("http://127.0.0.2:8765", os.getpid(), 1), (URL, os.getpid(), 0), ("http://127.0.0.2:8765", 1 << 40, 0)],
    ids=["another that runs", "the same address", "another that is gone"],
)
def test_the_note_of_another_that_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, url: str, pid: int, told: int
) -> None:
    """A proxy on the same port of another address, which is no longer found from here on, is told of."""
    write_note(note_path(tmp_path, 8765), Note(url, "others-token", pid, "run"))
    with announced(None, tmp_path, URL, 8765):
        lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    assert all(f"don't find the proxy on {url} any more" in line and "--state-dir" in line for line in lines)
    assert "others-token" not in caplog.text


def test_link_is_replaced_not_followed(tmp_path: Path) -> None:
    """Where somebody put a link, the file it leads to stays as it was."""
    other = tmp_path / "other"
    other.write_text("mine")
    note_path(tmp_path, 8765).symlink_to(other)
    with announced(None, tmp_path, URL, 8765):
        assert not note_path(tmp_path, 8765).is_symlink()
    assert other.read_text() == "mine"


def test_another_run_s_note_stays(tmp_path: Path) -> None:
    """A proxy that ends leaves the note of the one that came after it, and minds neither rubbish nor nothing there."""
    path = note_path(tmp_path, 8765)
    with announced(None, tmp_path, URL, 8765):
        later = Note(URL, "later", 1, "later")
        write_note(path, later)
    assert read_note(path) == later
    path.write_text("rubbish")
    remove_note(path, "later")
    assert path.read_text() == "rubbish"
    path.unlink()
    remove_note(path, "later")


def test_nowhere_to_note_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where it can't be written there is one warning and no key: nobody could know the token. The proxy goes on."""
    (tmp_path / "file").write_text("")
    with announced(None, tmp_path / "file" / "state", URL, 8765) as key:
        assert key is None
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert "so the control API is off; choose another folder with --state-dir" in line.getMessage()
    assert str(tmp_path / "file") in line.getMessage()


def test_nowhere_but_chosen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A chosen token holds all the same, and isn't in the warning."""
    (tmp_path / "file").write_text("")
    with announced("ch0sen-by-me", tmp_path / "file" / "state", URL, 8765) as key:
        assert key is not None
        assert key.token == "ch0sen-by-me"
    (line,) = caplog.records
    assert "need HIVEMIND_CONTROL_TOKEN" in line.getMessage()
    assert "ch0sen-by-me" not in line.getMessage()


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """Whole or not at all: where the place is taken by a folder, no draft is left beside it."""
    path = note_path(tmp_path, 8765)
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_note(path, Note(URL, "t", 1, "r"))
    assert list(tmp_path.iterdir()) == [path]


def test_state_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system's place for state, which XDG_STATE_HOME moves; `~` stands for the home, where there is one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir() == tmp_path / "hivemind"
    monkeypatch.setenv("HOME", "/home/ann")
    assert state_dir(Path("~/notes")) == Path("/home/ann/notes")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", _nobody)
    with pytest.raises(FileNotFoundError, match="no home directory"):
        state_dir(Path("~/notes"))


def _nobody(_: int) -> None:
    raise KeyError
