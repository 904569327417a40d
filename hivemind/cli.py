"""`hivemind`: the proxy, its version, and the commands that other packages add (:mod:`hivemind.plugin`)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from . import __version__
from .errors import HiveMindError, UsageError
from .plugin import GROUP, Command
from .settings import Parser, add_flags, from_flags, settings_file
from .settings.suggest import did_you_mean
from .setup.command import command as _SETUP

_DESCRIPTION = "A proxy that keeps many agents alive on one rate-limited LLM API."
_EPILOG = """\
start it, then point an agent at it:
  hivemind proxy --upstream https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/alice claude
  hivemind setup                                # how, for other clients

Each setting is a flag, a HIVEMIND_* variable or a line in hivemind.toml, in that order of precedence.
`hivemind proxy --help` lists them all; `hivemind-tui` is the same proxy with a control room, and
`hivemind-tui --attach http://127.0.0.1:8765` the control room of one that runs already."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _run(args)
        finally:
            sys.stdout.flush()  # here rather than at exit, so that a reader that has left is noticed below
    except HiveMindError as error:
        print(f"hivemind: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; what is still buffered must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(args: list[str]) -> int:
    commands = _commands(wanted=next((arg for arg in args if not arg.startswith("-")), None))
    parser = Parser(
        prog="hivemind",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hivemind {__version__}")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in commands:
        own = choices.add_parser(command.name, help=command.summary, description=command.summary)
        command.configure(own)
        own.set_defaults(run=command.run)
    namespace = parser.parse_args(args)
    if namespace.command is None:
        parser.print_help()
        return 0
    code: int = namespace.run(namespace)
    return code


def _commands(wanted: str | None) -> list[Command]:
    """The commands to offer: just the one that is wanted where its name is known, so that the others aren't imported.

    Raises: UsageError: there is none of that name, or it can't be loaded.
    """
    own = {command.name: command for command in (_PROXY, _SETUP, _VERSION)}
    added = {entry.name: entry for entry in entry_points(group=GROUP)}
    if wanted in own:
        return [own[wanted]]
    if wanted in added:
        return [_loaded(added[wanted])]
    if wanted is not None:
        names = [*own, *added]
        hint = did_you_mean(wanted, names) or f"; there are {', '.join(names)}"
        raise UsageError(f"{wanted}: no such command{hint}")
    return [*own.values(), *(_listed(entry) for entry in added.values())]


def _loaded(entry: EntryPoint) -> Command:
    try:
        command = entry.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the command {entry.name} can't be loaded ({error})") from error
    if not isinstance(command, Command):
        raise UsageError(f"the command {entry.name} can't be loaded ({entry.value} is no hivemind.plugin.Command)")
    return command


def _listed(entry: EntryPoint) -> Command:
    """For `--help`, which a broken package must not take away."""
    try:
        return _loaded(entry)
    except UsageError as error:
        return Command(entry.name, str(error), _no_flags, _run_version)


def _configure_proxy(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --upstream URL [setting ...]"
    add_flags(parser)


def _run_proxy(namespace: argparse.Namespace) -> int:
    settings = from_flags(namespace, environ=os.environ, cwd=Path.cwd())
    file = settings_file(namespace, environ=os.environ, cwd=Path.cwd())
    settings.origins()
    from . import logs, server  # a wrong setting is told before the server's libraries are imported

    logs.configure(settings.log_level)
    return server.run_loop(server.run(settings, file))


def _run_version(_: argparse.Namespace) -> int:
    print(f"hivemind {__version__}")
    return 0


def _no_flags(_: argparse.ArgumentParser) -> None:
    """For a command without arguments."""


_PROXY = Command("proxy", "serve the proxy, without a screen", _configure_proxy, _run_proxy)
_VERSION = Command("version", "print the version", _no_flags, _run_version)
