"""Errors about command lines repeat no key that stands there, however they repeat what was wrong."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import pytest
from agents.running import PLAIN
from program import called
from security.canaries.keys import Keys, every_form, found

from hivemind.cli.main import build_parser, is_loadable, listing
from hivemind.errors import UsageError
from hivemind.parser import Parser
from hivemind.redaction.text import mask_arguments
from hivemind_mock.provider import main as mock_provider
from hivemind_tui import __main__ as room
from hivemind_tui.program import main as room_program

KEYS = Keys()
EVERY = tuple(KEYS.known("a command line") for _ in range(every_form()))
_SOME = itertools.cycle(EVERY)
NAMES = tuple(name for group in listing().values() for name in group if is_loadable(name))


def parser_of(name: str) -> tuple[Parser, list[str], list[argparse.Action]]:
    """Return the parser of a program's command, the words that lead to it, and its flags and arguments."""
    if name == "hivemind-tui":
        parser = room_program._parser()
        assert isinstance(parser, Parser)
        return parser, [], parser._actions
    parser = build_parser([name])
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return parser, [name], commands.choices[name]._actions


def told(parser: Parser, argv: list[str]) -> str:
    """Return what the program says where these arguments are wrong."""
    try:
        parser.parse_args(list(argv))
    except UsageError as error:
        return mask_arguments(str(error), argv)
    except SystemExit:  # from Python 3.12 on, an `h` behind a hyphen asks for help, whatever follows
        pass
    return ""


@pytest.mark.parametrize("name", [*NAMES, "hivemind-tui"])
def test_of_every_flag(name: str) -> None:
    """A key as the value of each flag, as a flag, and with more behind it."""
    parser, words, actions = parser_of(name)
    for action in actions:
        for flag in action.option_strings if action.dest not in ("help", "version") else ():
            for argv in ([flag, next(_SOME)], [f"{flag}={next(_SOME)}"], [flag, next(_SOME), next(_SOME)]):
                assert not found(told(parser, [*words, *argv]).encode(), KEYS), argv
    for key in itertools.islice(_SOME, 9):
        for argv in ([f"--{key}"], [f"--{key}=1"], [f"-{key}"], [key, key, key], ["--config", key, f"-x{key}"]):
            assert not found(told(parser, [*words, *argv]).encode(), KEYS), argv


WRONG = (
    *("{}", "run --priority {} -- true", "run --budget {} -- true", "run --budget 5usd/{} -- true"),
    *("run --cwd {} -- true",),
    *("run --covers {} -- true", "run --report {}/a -- true", "batch {}", "batch {}.yaml --check", "setup {}"),
    *("completion {}", "set {} 1", "set rpm {}", "set priority ann {}", "budget ann {}", "budget ann 5 --per {}"),
    *("journal show {}", "journal show {}/{}", "journal show {}.jsonl --event {}", "journal import {}", "report {}"),
    *("what-if {} --set a=1", "tune {} --goal x", "replay {} --against x", "status --attach {}", "status --port {}"),
    *("tasks submit {} --tokens {}", "tasks submit a --priority {}", "tasks submit a --after {},{}"),
    *("proxy --upstream {}", "proxy --port {}", "proxy --retry.max-s {}", "proxy --circuit.when-open {}"),
    *("bench {}", "bench --seeds {}", "status --attach http://{}", "status --attach http://a:{}", "mcp --attach {}"),
)  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_of_what_is_wrong(line: str, tmp_path: Path) -> None:
    """What isn't found out by the parser."""
    for key in itertools.islice(_SOME, 3):
        argv = line.replace("{}", key).split()
        done = called(tmp_path, argv, {**PLAIN, "HIVEMIND_STATE_DIR": str(tmp_path)})
        assert done.code in (1, 2), done
        assert done.err.count("\n") == 1
        assert not found((done.out + done.err).encode(), KEYS), (argv, done)


@pytest.mark.parametrize("line", [line for line in WRONG if line != "{}"])
def test_a_key_that_a_path_changes(line: str, tmp_path: Path) -> None:
    """Of two slashes in a key a path has one, so it isn't found by its form where the path is told."""
    key = "1//0" + "decafc0ffee1000" * 2
    done = called(tmp_path, line.replace("{}", key).split(), {**PLAIN, "HIVEMIND_STATE_DIR": str(tmp_path)})
    assert done.code in (1, 2), done
    assert "c0ffee" not in (done.out + done.err).lower(), done


@pytest.mark.parametrize("form", ["{}", "--{}", "--port {}", "--scenario {}", "--seed {}", "--replay {}"])
def test_of_the_other_programs(form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control room's errors and the mock provider's are one line too."""
    monkeypatch.setattr("os.environ", dict(PLAIN))
    for key in EVERY[::9]:
        for program in (room.main, mock_provider.main):
            assert program(form.replace("{}", key).split()) == 2
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.count("\n") == 1
            assert not found(said.err.encode(), KEYS), (form, key, said.err)
