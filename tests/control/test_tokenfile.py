"""The note of a running proxy's control token: who can read it, and finding a proxy by it or by its URL."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hivemind.control.discovery import NoRunningProxy, find_token, parse_address
from hivemind.errors import UsageError
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


SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    ("url", "plain", "port", "local"),
    [
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765", 8765, True),
        (" http://localhost:8765/ ", "http://localhost:8765", 8765, True),
        ("http://[::1]:9000", "http://[::1]:9000", 9000, True),
        ("http://0.0.0.0:8765", "http://0.0.0.0:8765", 8765, True),
        ("https://proxy.example", "https://proxy.example", 443, False),
        ("http://10.0.0.5/hive/mind/", "http://10.0.0.5/hive/mind", 80, False),
    ],
)
def test_place(url: str, plain: str, port: int, local: bool) -> None:
    """A URL with or without a port and a path before ours; on this machine, or not."""
    found = parse_address(url)
    assert (found.url, found.port, found.local) == (plain, port, local)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8765", "must begin with http:// or https://"),
        ("ftp://host", "must begin with http:// or https://"),
        ("http://", "name a host"),
        ("http://host:0", "a port"),
        ("http://host:99999", "a port from 1 to 65535"),
        ("http://[::1", "a host and a port"),
        (f"http://user:{SECRET}@host", "no user name or password; the token goes in HIVEMIND_CONTROL_TOKEN"),
        (f"http://host/?token={SECRET}", "can't have a query"),
        (f"http://host/#{SECRET}", "can't have a query or fragment"),
        (f"http://host/{SECRET} x", "without spaces"),
        ("http://höst", "plain ASCII"),
    ],
)
def test_no_place(url: str, said: str) -> None:
    """What is wrong with a URL is told without repeating what may be secret in it."""
    with pytest.raises(UsageError) as caught:
        parse_address(url)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


LOCAL, REMOTE = parse_address("http://127.0.0.1:8765"), parse_address("http://10.0.0.5:8765")


def noted(directory: Path, token: str, port: int = 8765) -> Path:
    """A proxy runs there."""
    path = note_path(directory, port)
    write_note(path, Note(LOCAL.url, token, 1, "run"))
    return path


def test_the_one_named_goes_first(tmp_path: Path) -> None:
    """A file before the variable, the variable before the note; a file may be a note or hold the token alone."""
    environ = {"HIVEMIND_STATE_DIR": str(tmp_path), "HIVEMIND_CONTROL_TOKEN": "of the variable".replace(" ", "-")}
    path = noted(tmp_path, "of-the-note")
    alone = tmp_path / "token"
    alone.write_text("of-the-file\n")
    assert find_token(LOCAL, environ, alone).text == "of-the-file"
    assert find_token(REMOTE, environ, path).text == "of-the-note"
    assert find_token(LOCAL, environ).text == "of-the-variable"
    run = environ | {"HIVEMIND_RUN_TOKEN": "of-the-run", "HIVEMIND_URL": f"http://localhost:{LOCAL.port}"}
    assert find_token(LOCAL, run).text == "of-the-run"
    assert find_token(LOCAL, run, alone).text == "of-the-file"
    assert find_token(REMOTE, run).text == "of-the-variable", "the run is of another proxy"
    del environ["HIVEMIND_CONTROL_TOKEN"]
    found = find_token(LOCAL, environ)
    assert (found.text, found.origin) == ("of-the-note", str(path))


def test_note_in_the_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no folder is named, it is the one that the proxy takes too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    noted(tmp_path / "hivemind", "usual")
    assert find_token(LOCAL, {}).text == "usual"


def test_no_note(tmp_path: Path) -> None:
    """Without one there is no proxy of ours on that port, and the line says where it was looked for."""
    noted(tmp_path, "of-another-port", 8766)
    with pytest.raises(
        NoRunningProxy, match=r"no proxy of yours runs at \S+:8765 \(there is no \S+control-8765\.json\)"
    ):
        find_token(LOCAL, {"HIVEMIND_STATE_DIR": str(tmp_path)})


def test_note_is_of_this_machine(tmp_path: Path) -> None:
    """For a proxy elsewhere no note from here is taken: its token would go to whoever listens there."""
    noted(tmp_path, "ours")
    with pytest.raises(UsageError, match=r"the proxy's control token in HIVEMIND_CONTROL_TOKEN.*control-8765\.json"):
        find_token(REMOTE, {"HIVEMIND_STATE_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"two words " + SECRET.encode(), "has a space in its line"),
        (SECRET.encode() + b"\n\n" + SECRET.encode() + b"\n", "has 3 lines"),
        ("töken".encode(), "holds other characters than printable ASCII"),
        (b"\x30\x82\x04\xbd" + SECRET.encode(), "holds other characters than printable ASCII"),
        (b"-----BEGIN PRIVATE KEY-----\n" + SECRET.encode(), "is a PEM file (private key), as TLS uses them"),
        (b'{"token": "' + SECRET.encode() + b'"}', "holds JSON that is no note of a proxy"),
        (b"{", "holds JSON that is no note of a proxy"),
        (SECRET.encode() * 10_000, "is longer than 64 KiB"),
    ],
)
def test_no_token_in_the_file(tmp_path: Path, content: bytes, why: str) -> None:
    """A line says what kind of file it is and which is right, and nothing of what is in it."""
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        find_token(LOCAL, {}, file)
    assert str(caught.value) == (
        f"{file}: {why}; a token file is a proxy's note (control-PORT.json), or one line, the token"
    )
    with pytest.raises(UsageError, match=r"is a directory; name the token file in it, such as control-8765\.json"):
        find_token(LOCAL, {}, tmp_path)


def test_no_file(tmp_path: Path) -> None:
    """Neither one that isn't there nor a variable that can't be a token is taken for one."""
    with pytest.raises(UsageError, match=r"token: can't be read \(No such file"):
        find_token(LOCAL, {}, tmp_path / "token")
    with pytest.raises(UsageError, match="HIVEMIND_CONTROL_TOKEN: a token is printable ASCII") as caught:
        find_token(LOCAL, {"HIVEMIND_CONTROL_TOKEN": f"{SECRET}\n"})
    assert SECRET not in str(caught.value)


def test_again(tmp_path: Path) -> None:
    """A token from a file is read again there; while that can't be done, and from a variable, it stays the same."""
    path = noted(tmp_path, "first")
    token = find_token(LOCAL, {"HIVEMIND_STATE_DIR": str(tmp_path)})
    noted(tmp_path, "second")
    assert token.again().text == "second"
    path.write_text("{")
    assert token.again() == token
    path.unlink()
    assert token.again() == token
    given = find_token(LOCAL, {"HIVEMIND_CONTROL_TOKEN": "t"})
    assert given.again() == given


def test_token_is_not_shown(tmp_path: Path) -> None:
    """Whatever is printed of it, it isn't the text."""
    noted(tmp_path, SECRET)
    assert SECRET not in repr(find_token(LOCAL, {"HIVEMIND_STATE_DIR": str(tmp_path)}))
