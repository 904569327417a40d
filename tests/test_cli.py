from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from hivemind import __version__
from hivemind.cli import main as cli
from hivemind.cli.main import GROUPS, command_named
from hivemind.cli.plugin import Command
from hivemind.parser import _KEPT
from hivemind.settings.options import options
from hivemind_tui import __main__ as room


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*")


def _echo(namespace: argparse.Namespace) -> int:
    print(namespace.name)
    return 7


def _interrupted(_: argparse.Namespace) -> int:
    raise KeyboardInterrupt


echo = Command(_configure, _echo, "say it again")
interrupted = Command(_configure, _interrupted, "stop")


@pytest.fixture(autouse=True)
def _added_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands of this file's in place of installed ones, in an empty directory, without settings around."""
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "added_commands", module)
    entries = [
        EntryPoint("echo", "added_commands:echo", "hivemind.commands"),
        EntryPoint("interrupted", "added_commands:interrupted", "hivemind.commands"),
        EntryPoint("missing", "no_such_module:command", "hivemind.commands"),
        EntryPoint("wrong", "added_commands:_echo", "hivemind.commands"),
    ]

    def entry_points(group: str) -> Iterable[EntryPoint]:
        return [entry for entry in entries if entry.group == group]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("HIVEMIND_"):
            monkeypatch.delenv(name)


def run(argv: list[str]) -> object:
    """The exit code, whichever way the program ends."""
    try:
        return cli.main(argv)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("argv", [["version"], ["--version"]])
def test_version(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Both spellings print name and version."""
    assert run(argv) == 0
    assert capsys.readouterr().out == f"hivemind {__version__}\n"


@pytest.mark.parametrize("argv", [[], ["--help"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help lists every command under what it is for, with its summary, and survives one that can't be loaded."""
    assert run(argv) == 0
    shown = capsys.readouterr().out
    for text in ("start:", "serve the proxy", "say it again", "missing", "ANTHROPIC_BASE_URL="):
        assert text in shown


def test_added_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A command found by entry point gets its arguments, and its exit code is the program's."""
    assert cli.main(["echo", "a", "b"]) == 7
    assert capsys.readouterr().out == "['a', 'b']\n"


OWN = [name for rows in GROUPS.values() for name in rows]
LISTED = ", ".join([*OWN, "echo", "interrupted", "missing", "wrong"])


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["prxy"], "prxy: no such command; did you mean proxy?"),
        (["x"], f"x: no such command; there are {LISTED}"),
        (["missing"], "the command missing can't be loaded (No module named 'no_such_module')"),
        (["wrong"], "the command wrong can't be loaded (added_commands:_echo is no hivemind.cli.plugin.Command)"),
        (["--frob"], "--frob: no such flag; see --help"),
        (["echo", "--frob"], "--frob: no such flag; see --help"),
        (["circuit", "--frob", "x"], "--frob: no such flag; see --help"),  # and not: x is no circuit
        (["journal", "show", "a", "-f"], "-f: is no longer a flag; `hivemind logs -f` follows a proxy"),
        (["checkpoints", "--keep=1"], f"--keep: is no longer a flag; {_KEPT}"),
        (["version", "x"], "an argument too many, one that belongs to no flag; see hivemind version --help"),
        (["proxy", "--port", "x"], "--port x: must be a whole number from 0 to 65,535"),
        (
            ["proxy"],
            "no upstream: say where requests go, as in --upstream https://api.anthropic.com"
            " (or HIVEMIND_UPSTREAM, or upstream in hivemind.toml)",
        ),
    ],
)
def test_wrong_usage(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What can't be done is one line on standard error, and the exit code is 2."""
    assert cli.main(argv) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"hivemind: {line}\n")


def test_what_follows_two_hyphens_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Another program's own flags keep their spelling."""
    assert cli.main(["echo", "--", "run", "--max_tokens", "5"]) == 7
    assert capsys.readouterr().out == "['run', '--max_tokens', '5']\n"


def test_every_command_is_there() -> None:
    """Each command of the product's own can be loaded, and has a summary."""
    assert all(command_named(name).summary for name in OWN)


def test_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent's worktree may be gone while its shell is still there."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert (cli.main(["status"]), room.main([])) == (2, 2)
    assert capsys.readouterr().err.count(": the working directory is gone: change to one that is there\n") == 2


def test_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C prints nothing and gives what a shell expects."""
    assert cli.main(["interrupted"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("to", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 1)])
def test_streams_that_cant_be_used(to: str, code: int) -> None:
    """A closed one is as one that nobody reads; a full disk is told in a line."""
    script = "import sys; from hivemind.cli.main import main; sys.exit(main(['version']))"
    done = subprocess.run(f'{sys.executable} -Pc "{script}" {to}', shell=True, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (code, code)


@pytest.mark.parametrize("argument", ["version", "--help"])
def test_reader_that_left(argument: str) -> None:
    """Printing into a closed pipe ends without a traceback, buffered (-I) as it usually is."""
    script = f"import sys; from hivemind.cli.main import main; sys.stdin.read(1); sys.exit(main(['{argument}']))"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"x")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 141


def test_flags_stay_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    """No line of any help ends within a flag, so that each can be copied. It is shown beside an unknown flag too."""
    for name in ("run", "batch", "resume", "budget", "proxy"):
        with pytest.raises(SystemExit):
            cli.main([name, "--frob", "--help"])
        text = capsys.readouterr().out
        assert [line for line in text.splitlines() if line.endswith("-")] == []


_MOST_SETTINGS, _MOST_FLAGS = 85, 350


@pytest.mark.parametrize("command", ["up", "down", "logs", "run", "batch", "work", "resume"])
def test_settings_of_a_proxy_are_flags_of_what_starts_it_alone(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that uses a proxy takes only those that find or start one, and says where the others belong."""
    assert cli.main([command, "--rpm", "1"]) == 2
    line = "no flag of this command but a setting of the proxy: HIVEMIND_RPM, or rpm in hivemind.toml"
    assert capsys.readouterr().err == f"hivemind: --rpm: {line}\n"


def test_there_are_no_more_settings_and_flags() -> None:
    """Each is one more thing to know, so whoever adds one leaves out another, or raises this on purpose."""

    def flags(parser: argparse.ArgumentParser) -> int:
        own = sum(len(action.option_strings) > 0 and action.dest != "help" for action in parser._actions)
        deeper = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        return own + sum(flags(each) for action in deeper for each in action.choices.values())

    assert len(options()) <= _MOST_SETTINGS
    assert flags(cli.build_parser([name for group in GROUPS.values() for name in group])) <= _MOST_FLAGS
