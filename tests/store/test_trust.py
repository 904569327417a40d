"""Records of the settings files that the user trusts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from trusted import trusted_settings

from hivemind.settings_file import NAME, parsed
from hivemind.store import trust


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for state, and another one for the user's settings."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "state" / "hivemind"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_content_at_a_place(project: Path, tmp_path: Path, state: Path) -> None:
    """Trusted is this content here: another content, a copy, and the first content again after a change elsewhere."""
    path = project / NAME
    path.write_text("rpm = 1\n")
    assert trust.read_found(path) == trust.FoundFile(path, "rpm = 1\n")
    trusted_settings(project, "rpm = 1\n")
    assert trust.read_found(path).trusted
    [record] = (state / "trusted").iterdir()
    assert (stat.S_IMODE(record.stat().st_mode), stat.S_IMODE(record.parent.stat().st_mode)) == (0o600, 0o700)
    path.write_text("rpm = 2\n")
    changed = trust.read_found(path)
    assert (changed.trusted, changed.changed) == (False, True)
    copy = tmp_path / NAME
    copy.write_text("rpm = 1\n")
    assert not trust.read_found(copy).trusted
    path.write_text("rpm = 1\n")
    assert trust.read_found(path).trusted
    assert list(trust.recorded()) == [path]
    assert (trust.revoke(path), trust.revoke(path)) == (True, False)
    assert not trust.read_found(path).trusted


def test_links(project: Path, tmp_path: Path) -> None:
    """A folder may be reached by a link; a link to a trusted file from another folder isn't trusted, since paths in the
    file begin there."""
    trusted_settings(project, 'ca_file = "ca.pem"\n')
    (tmp_path / "link").symlink_to(project)
    assert trust.read_found(tmp_path / "link" / NAME).trusted
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / NAME).symlink_to(project / NAME)
    assert not trust.read_found(hostile / NAME).trusted


def test_the_users_own_folder(tmp_path: Path) -> None:
    """What stands in the user's configuration folder is trusted, but not what stands below it."""
    folder = tmp_path / "config" / "hivemind"
    (folder / "below").mkdir(parents=True)
    (folder / NAME).write_text("port = 1\n")
    (folder / "below" / NAME).write_text("port = 1\n")
    assert trust.read_found(folder / NAME).trusted
    assert not trust.read_found(folder / "below" / NAME).trusted


def test_a_relative_folder_for_state(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be one of the working directory, so a record that came with the repository counts for nothing."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "state"))
    path = trusted_settings(project, "rpm = 1\n")
    assert trust.read_found(path).trusted
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert not trust.read_found(path).trusted


@pytest.mark.parametrize("text", ["", "{", "[]", '{"path": 1}', "[" * 100_000])
def test_damaged_records(project: Path, state: Path, text: str) -> None:
    """One that can't be read trusts nothing, and is replaced by the next."""
    path = trusted_settings(project, "rpm = 1\n")
    [record] = (state / "trusted").iterdir()
    record.write_text(text)
    assert not trust.read_found(path).trusted
    assert list(trust.recorded()) == []
    trust.record(path, "rpm = 1\n")
    assert trust.read_found(path).trusted


def test_what_is_no_settings_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, a device, a folder, one too long, not text, gone or another user's: each has its reason, at once."""
    path = project / NAME
    for make, problem in (
        (lambda: os.mkfifo(path), "no regular file"),
        (lambda: path.symlink_to("/dev/zero"), "no regular file"),
        (lambda: path.symlink_to(project), "no regular file"),
        (lambda: path.write_bytes(b"#" * (trust.MOST_BYTES + 1)), "more than 64 KiB; name it with --config"),
        (lambda: path.write_bytes(b"\xff"), "not UTF-8"),
        (lambda: path.symlink_to("gone"), "No such file or directory"),
        (path.touch, "it belongs to another user"),
    ):
        make()
        monkeypatch.setattr(trust, "may_own", lambda user, problem=problem: "another user" not in problem)
        found = trust.read_found(path)
        assert (found.trusted, found.text, found.problem.startswith(f"can't be read ({problem}")) == (False, "", True)
        path.unlink()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a" + ".a" * 30_000 + " = 1", "a line has more than 1,000 dots"),
        ("a = " + "[" * 60_000, "nested too deeply"),
        ("a = " + "{a = " * 12_000, "nested too deeply"),
        ("a = 1" + "1" * 60_000, "too many digits"),
        ("a = [\n", "not TOML: "),
    ],
)
def test_no_file_takes_long_to_parse(text: str, problem: str) -> None:
    """What would take minutes or gigabytes, or end in another error, is refused at once."""
    with pytest.raises(ValueError, match=problem):
        parsed(text)
