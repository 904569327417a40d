"""Finding a running proxy: its URL as somebody wrote it, and the token that opens its control API."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivemind.control.discovery import NoRunningProxy, find_token, parse_address
from hivemind.errors import UsageError
from hivemind.store.token_file import Note, note_path, write_note

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
