"""`hivemind`: its commands, by name, and those that other packages add (:mod:`hivemind.cli.plugin`).

A command is imported when it is wanted, because some need libraries that take longer to import than others take in all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from hivemind import __version__
from hivemind.cli.plugin import GROUP, Command
from hivemind.console import guarded_output
from hivemind.errors import HiveMindError, UsageError
from hivemind.parser import Parser
from hivemind.text.suggest import did_you_mean

_DESCRIPTION = "A proxy that keeps many agents alive on one rate-limited LLM API."
_EPILOG = """\
start it, then point an agent at it:
  hivemind proxy --upstream https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/alice claude

`hivemind COMMAND --help` tells more; `hivemind proxy --help` lists all settings. `hivemind-tui` is the same proxy
with a control room, and `hivemind-tui --attach http://127.0.0.1:8765` the control room of one that runs already."""

GROUPS: Mapping[str, Mapping[str, str]] = {
    "start": {
        "proxy": "hivemind.cli.proxy",
        "run": "hivemind.cli.agents.run",
        "batch": "hivemind.cli.agents.batch",
        "setup": "hivemind.cli.setup",
        "mcp": "hivemind.cli.mcp",
    },
    "look": {
        "status": "hivemind.cli.operator.status",
        "agents": "hivemind.cli.operator.agents",
        "tasks": "hivemind.cli.operator.tasks",
        "checkpoints": "hivemind.cli.agents.checkpoint",
    },
    "journal": {
        "journal": "hivemind.cli.journal.command",
        "what-if": "hivemind.cli.lab.what_if",
        "tune": "hivemind.cli.lab.tune",
        "replay": "hivemind.cli.lab.replay",
        "report": "hivemind.cli.lab.report",
    },
    "steer": {
        "budget": "hivemind.cli.operator.budget",
        "pause": "hivemind.cli.operator.pause",
        "resume": "hivemind.cli.agents.resume",
        "set": "hivemind.cli.operator.set",
        "stop": "hivemind.cli.operator.stop",
    },
    "other": {
        "version": "hivemind.cli.version",
    },
}
"""By what they are for: each command's name, and the module whose `command` it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    with guarded_output():
        return _ended(args)


def _ended(args: list[str]) -> int:
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
    name = next((arg for arg in args if not arg.startswith("-")), None)
    parser = Parser(
        prog="hivemind",
        usage="%(prog)s COMMAND ...",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hivemind {__version__}")
    if name is None or args[0] in ("-h", "--help"):
        parser.description = f"{_DESCRIPTION}\n\n{_listing()}"
        parser.parse_args(args[:1])
        parser.print_help()
        return 0
    command = command_named(name)
    own = parser.add_subparsers(prog="hivemind").add_parser(command.name, description=command.summary)
    command.configure(own)
    own.set_defaults(run=command.run)
    namespace = parser.parse_args(args)
    code: int = namespace.run(namespace)
    return code


def _own() -> dict[str, EntryPoint]:
    rows = [row for group in GROUPS.values() for row in group.items()]
    return {name: EntryPoint(name, f"{module}:command", GROUP) for name, module in rows}


def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def command_named(name: str) -> Command:
    """The command of that name.

    Raises: UsageError: there is none, or it can't be loaded.
    """
    found = _own().get(name) or _added().get(name)
    if found is not None:
        return _loaded(found)
    names = [*_own(), *_added()]
    hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
    raise UsageError(f"{name}: no such command{hint}")


def _loaded(entry: EntryPoint) -> Command:
    try:
        command = entry.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the command {entry.name} can't be loaded ({error})") from error
    if not isinstance(command, Command):
        raise UsageError(f"the command {entry.name} can't be loaded ({entry.value} is no hivemind.cli.plugin.Command)")
    return command


def _listing() -> str:
    """Every command under what it is for, with its summary."""
    own, added = _own(), _added()
    groups = {title: [own[name] for name in names] for title, names in GROUPS.items()}
    groups["other"] += added.values()
    lines = []
    for title, entries in groups.items():
        lines += [f"{title}:", *(f"  {entry.name:12} {_summary(entry)}" for entry in entries)]
    return "\n".join(lines)


def _summary(entry: EntryPoint) -> str:
    """For `--help`, which a broken package must not take away."""
    try:
        return _loaded(entry).summary
    except UsageError as error:
        return str(error)
