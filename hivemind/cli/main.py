"""`hivemind`: one command with its arguments, its exit code, and the completion of all commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence

from hivemind import __version__
from hivemind.cli.commands import command_named, is_loadable, listing
from hivemind.cli.plugin import Command
from hivemind.console import guarded_output, print_note
from hivemind.errors import HiveMindError
from hivemind.parser import COMPLETED_SHELLS, Parser, completion_of

_DESCRIPTION = "A proxy that keeps many agents alive on one rate-limited LLM API."
_EPILOG = """\
start it, then point an agent at it:
  hivemind proxy --upstream https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/alice claude

`hivemind COMMAND --help` tells more; `hivemind proxy --help` lists all settings. `hivemind-tui` is the same proxy
with a control room, and `hivemind-tui --attach http://127.0.0.1:8765` the control room of one that runs already."""


_COMPLETION_EPILOG = """\
where it goes:
  bash        hivemind completion bash > ~/.local/share/bash-completion/completions/hivemind
  zsh         hivemind completion zsh > ~/.zfunc/_hivemind, and fpath+=~/.zfunc before compinit in ~/.zshrc
  fish        hivemind completion fish > ~/.config/fish/completions/hivemind.fish
  tcsh        hivemind completion tcsh >> ~/.tcshrc
  powershell  hivemind completion powershell >> $PROFILE

`hivemind-tui --print-completion SHELL` and `hivemind-mock --print-completion SHELL` print theirs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    with guarded_output():
        try:
            try:
                return _run(list(sys.argv[1:] if argv is None else argv))
            finally:
                sys.stdout.flush()  # here rather than at exit, so that a closed pipe is noticed below
        except HiveMindError as error:
            print_note(str(error))
            return error.exit_code
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:
            # Nobody reads our output any more; what is still buffered must not be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141


def _run(args: list[str]) -> int:
    name = next((arg for arg in args if not arg.startswith("-")), None)
    if name is None or args[0] in ("-h", "--help"):
        parser = build_parser(())
        if args[:1] != ["--version"]:
            parser.description = f"{_DESCRIPTION}\n\n{_commands()}"
        parser.parse_args(args[:1])
        parser.print_help()
        return 0
    namespace = build_parser([name]).parse_args(args)
    code: int = namespace.run(namespace)
    return code


def _print_version(_: argparse.Namespace) -> int:
    print(f"hivemind {__version__}")
    return 0


def _configure_completion(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _COMPLETION_EPILOG
    parser.add_argument("shell", metavar="|".join(COMPLETED_SHELLS), help="whose script to print")


def _print_completion(namespace: argparse.Namespace) -> int:
    names = [name for rows in listing().values() for name in rows if is_loadable(name)]
    print(completion_of(build_parser(names), namespace.shell))
    return 0


def build_parser(names: Iterable[str]) -> Parser:
    """Return the parser of the program with these commands, each of which is imported.

    Raises: UsageError: there is no such command, or it can't be loaded.
    """
    parser = Parser(
        prog="hivemind",
        usage="%(prog)s COMMAND ...",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hivemind {__version__}")
    commands = {name: command_named(name) for name in names}
    if commands:
        added = parser.add_subparsers(prog="hivemind")
    for name, command in commands.items():
        own = added.add_parser(name, description=command.summary, help=command.summary)
        command.configure(own)
        own.set_defaults(run=command.run)
    return parser


def _commands() -> str:
    lines = []
    for title, rows in listing().items():
        lines += [f"{title}:", *(f"  {name:12} {summary}" for name, summary in rows.items())]
    return "\n".join(lines)


version = Command(lambda _: None, _print_version)
completion = Command(_configure_completion, _print_completion)
