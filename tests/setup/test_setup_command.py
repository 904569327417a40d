from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from trusted import trusted_settings

from hivemind.cli import main as cli
from hivemind.cli.setup import as_text
from hivemind.setup.clients import CLIENTS, instructions

STRONG = "3b1f0c9a7d52e846"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty directory, no settings, bash."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHELL", "/bin/bash")
    for name in os.environ:
        if name.startswith("HIVEMIND_"):
            monkeypatch.delenv(name)


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What is printed where all goes well."""
    assert cli.main(["setup", *argv]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return str(out)


def test_list(capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]) -> None:
    """Without a client they are listed, one line each, and then what else there is."""
    text = shown(capsys)
    golden("list", text)
    assert len(text.splitlines()) == 2 + len(CLIENTS) + 2


def test_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """With nothing set the proxy is where it is by default, and needs no upstream to be known."""
    expected = instructions(CLIENTS["codex"], "http://127.0.0.1:8765", "codex", False)
    assert shown(capsys, "codex") == as_text(expected)


def test_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """URL, name and shell are as they were given; a proxy elsewhere asks for a token."""
    expected = instructions(CLIENTS["aider"], "https://hive.example.com:8443", "bob the 2nd", True, shell="fish")
    argv = ("aider", "--url", "https://hive.example.com:8443/", "--agent", "bob the 2nd", "--shell", "fish")
    assert shown(capsys, *argv) == as_text(expected)


def test_shell_of_the_user(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are in the user's own shell's spelling."""
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert "\nset -gx ANTHROPIC_BASE_URL " in shown(capsys, "claude-code")


@pytest.mark.parametrize(
    ("file", "environ", "url"),
    [
        ("", {"HIVEMIND_PORT": "9000"}, "http://127.0.0.1:9000/agent/"),
        ("port = 9001", {}, "http://127.0.0.1:9001/agent/"),
        ('host = "::1"', {}, "http://[::1]:8765/agent/"),
        ('host = "0.0.0.0"', {"HIVEMIND_TOKEN": STRONG}, "http://127.0.0.1:8765/token/$HIVEMIND_TOKEN/agent/"),
        ('host = "10.1.2.3"', {"HIVEMIND_TOKEN": STRONG}, "http://10.1.2.3:8765/token/$HIVEMIND_TOKEN/agent/"),
        ('token = "sekrit"', {}, "http://127.0.0.1:8765/token/$HIVEMIND_TOKEN/agent/"),
    ],
)
def test_settings(
    file: str, environ: dict[str, str], url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the proxy is, and whether it asks for a token, is as its settings have it; the token isn't told."""
    trusted_settings(Path.cwd(), file)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    text = shown(capsys, "generic")
    assert f"export ANTHROPIC_BASE_URL={url}" in re.sub("['\"]", "", text)
    assert "sekrit" not in text


_URL = "--url: must be the proxy's scheme, host and port alone, as in http://127.0.0.1:8765"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["claud-code"], "claud-code: no such client; did you mean claude-code?"),
        (["x"], f"x: no such client; there are {', '.join(CLIENTS)}"),
        (["codex", "--url", "127.0.0.1:8765"], _URL),
        (["codex", "--url", "http://127.0.0.1:8765/v1"], _URL),
        (["codex", "--url", "http://me:sekrit@a"], _URL),
        (["codex", "--url", "http://a:99999"], _URL),
        (["codex", "--url", "http://a:0"], _URL),
        (["codex", "--url", "http://[:::1]"], _URL),
        (["codex", "--url", "http://a;rm"], _URL),
        (["codex", "--agent", "x" * 81], "--agent: an agent's name must be printable and at most 80 characters long"),
        (
            ["codex", "--agent", "sk-ant-sekrit-sekrit"],
            "--agent: an agent's name would be shown, and this one looks like a key; choose another",
        ),
        (
            ["codex", "--agent", ".."],
            "--agent: an agent's name can't be .., which clients leave out of its path; choose another",
        ),
        (["codex", "--shell", "csh"], "--shell: invalid choice: 'csh'"),
    ],
)
def test_wrong_usage(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What can't be done is one line, the exit code is 2, and what may be a secret isn't repeated."""
    assert cli.main(["setup", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"hivemind: {line}")


def test_any_port(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the port is any free one, the URL has to be told."""
    monkeypatch.setenv("HIVEMIND_PORT", "0")
    assert cli.main(["setup", "codex"]) == 2
    assert "say where the proxy is with --url" in capsys.readouterr().err
    assert "http://127.0.0.1:4000/agent/codex/v1" in shown(capsys, "codex", "--url", "http://127.0.0.1:4000")
