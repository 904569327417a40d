"""Finding hivemind.toml from a folder below it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from program import called
from trusted import trusted_settings

from hivemind import settings_file
from hivemind.cli.address import given_settings
from hivemind.errors import UsageError
from hivemind.settings import load
from hivemind.settings_file import NAME, find_settings_file


@pytest.fixture
def below(tmp_path: Path) -> Path:
    """A folder two levels below one with a settings file."""
    trusted_settings(tmp_path, 'port = 4711\nstate_dir = "state"\n')
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    return folder


def test_the_nearest_counts(below: Path, tmp_path: Path) -> None:
    """One in the folder itself or between wins, and files aren't merged."""
    assert find_settings_file(below) == tmp_path / NAME
    (tmp_path / "a" / NAME).write_text("rpm = 1\n")
    assert find_settings_file(below) == tmp_path / "a" / NAME
    settings = load([], environ={}, cwd=below)
    assert (settings.rpm, settings.port) == (1, 8765)


def test_its_paths_are_from_its_folder(below: Path, tmp_path: Path) -> None:
    """However deep below the command is called, the state is in the same place; one in the home stays there."""
    settings = load([], environ={}, cwd=below)
    assert (settings.port, settings.state_dir) == (4711, tmp_path / "state")
    assert given_settings({}, below) == {"port": 4711, "state_dir": str(tmp_path / "state")}
    trusted_settings(tmp_path, 'state_dir = "~/x"\n')
    assert load([], environ={}, cwd=below).state_dir == Path("~/x")
    assert given_settings({}, below) == {"state_dir": "~/x"}


def test_a_mistake_is_told_where_it_is(below: Path) -> None:
    """The file is named as it is reached from here."""
    trusted_settings(below.parent.parent, "port = true\n")
    with pytest.raises(UsageError, match=r"^\.\./\.\./hivemind\.toml port: must be a whole number"):
        load([], environ={}, cwd=below)


def test_another_users(below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't taken, nor one above it, and that is told; one of root's is, and under sudo that of who called it."""
    (tmp_path / "a" / NAME).write_text("rpm = 1\n")
    (uid, said) = os.stat(tmp_path).st_uid, list[str]()
    _as(monkeypatch, uid + 1000)
    if uid != 0:
        assert find_settings_file(below, said.append) is None
        assert said == [
            f"{tmp_path / 'a' / NAME} belongs to another user, so it isn't read; name it with --config if it is to be"
        ]
    monkeypatch.setattr(settings_file, "_ROOT", uid)
    assert find_settings_file(below) == tmp_path / "a" / NAME
    monkeypatch.setattr(settings_file, "_ROOT", uid + 1)
    assert find_settings_file(below) is None
    _as(monkeypatch, uid + 1)
    monkeypatch.setenv("SUDO_UID", str(uid))
    assert find_settings_file(below) == tmp_path / "a" / NAME


def _as(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_another_file_system(below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search doesn't leave that of the working directory."""
    real = Path.stat
    border = tmp_path / "a"

    def stat(path: Path, **given: bool) -> object:
        found = real(path, **given)
        inside = path == border or border in path.parents
        return SimpleNamespace(st_dev=found.st_dev + inside, st_uid=found.st_uid)

    monkeypatch.setattr(Path, "stat", stat)
    assert find_settings_file(below) is None
    (border / NAME).write_text("")
    assert find_settings_file(below) == border / NAME


def test_none(tmp_path: Path) -> None:
    """Nothing is there, or not even the folder."""
    assert find_settings_file(tmp_path / "gone") is None


def test_setup_takes_the_variable(tmp_path: Path) -> None:
    """`hivemind setup` names the proxy of HIVEMIND_URL, unless --url names another."""
    environ = {"HIVEMIND_URL": "http://127.0.0.1:4711"}
    assert "http://127.0.0.1:4711/agent/claude" in called(tmp_path, ("setup", "claude-code"), environ).out
    other = called(tmp_path, ("setup", "claude-code", "--url", "http://127.0.0.1:4712"), environ).out
    assert "4712" in other
    assert "4711" not in other
    wrong = called(tmp_path, ("setup", "claude-code"), {"HIVEMIND_URL": "http://127.0.0.1:4711/x"})
    assert wrong.code == 2
    assert wrong.err.startswith("hivemind: HIVEMIND_URL: must be the proxy's scheme, host and port alone")
