"""`hivemind`: the table of its commands, one command with its arguments, its exit code, and the completion of all.

A command's module is imported when it is wanted: some need libraries that take longer to import than others in all.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hivemind import __version__
from hivemind.cli.plugin import GROUP, Command
from hivemind.console import guarded_output, open_streams, print_note
from hivemind.errors import HiveMindError, UsageError
from hivemind.gc_pause import gc_paused
from hivemind.lean import leave_out
from hivemind.parser import COMPLETED_SHELLS, Parser, completion_of
from hivemind.text.humanise import instead_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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


GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "start": {
        "proxy": ("proxy", "serve the proxy, without a screen"),
        "up": ("detached:up", "serve the proxy; with -d detached, so that it outlives its terminal"),
        "down": ("detached:down", "end the proxy that runs on this machine"),
        "logs": ("detached:logs", "print the log of a detached proxy; with -f follow it"),
        "run": ("agents.run", "run a command as an agent, with a priority and a budget of its own"),
        "batch": ("agents.batch", "run a plan of tasks, each as soon as those before it are done"),
        "work": ("agents.work", "run the tasks that are submitted, as they come"),
        "trust": ("trust", "let every setting of the hivemind.toml that is found count"),
        "setup": ("setup", "print what to paste where, to point a client at the proxy"),
        "mcp": ("mcp", "serve the tools for agents on standard input and output (MCP)"),
    },
    "look": {
        "status": ("operator.status", "how the proxy is: lanes, requests, tokens, budgets"),
        "agents": ("operator.agents", "every agent: what it does, what it used, its budget"),
        "fleet": ("operator.fleet", "the proxies that share a key: who has what of it"),
        "tasks": ("operator.tasks", "the task graph: list, submit, report (done, fail), cancel, retry"),
        "checkpoints": ("agents.checkpoint", "list, show or prune what was kept of agents that were stopped"),
        "worktrees": ("agents.worktrees", "list, remove or prune agents' git worktrees; what isn't merged is kept"),
    },
    "journal": {
        "journal": ("journal.command", "list, show, export or import what was recorded, or sum it up (stats)"),
        "look-back": ("lab.look_back", "what your clients recorded by themselves, and what HiveMind would change"),
        "what-if": ("lab.what_if", "simulate a recorded run with other settings, and compare"),
        "tune": ("lab.tune", "search for settings that would have served recorded traffic better"),
        "replay": ("lab.replay", "load test: send recorded traffic to a live target"),
        "report": ("lab.report", "a page about a recorded run, or a summary of it for a pull request"),
    },
    "steer": {
        "ack": ("operator.steer:ack", "acknowledge alerts: those of an agent or lane, or all"),
        "budget": ("operator.budget", "what agents may use, and what they have used"),
        "circuit": ("operator.steer:circuit", "let a circuit run by itself, force it open or closed, or probe"),
        "cut": ("operator.steer:cut", "end a request of which nothing comes any more, or send it again"),
        "hold": ("operator.steer:hold", "let an agent's requests wait"),
        "note": ("operator.steer:note", "write a note on the curve, into log and journal"),
        "pause": ("operator.steer:pause", "pause everything: all requests wait"),
        "release": ("operator.steer:release", "let the requests of a held or stopped agent go on"),
        "resume": ("agents.resume", "end a pause or a drain, or let an agent go on where it was stopped"),
        "set": ("operator.steer:set_command", "turn a knob, or give an agent another priority"),
        "stop": ("operator.steer:stop", "end what an agent has in flight, and refuse what comes"),
    },
    "other": {
        "completion": ("main:completion", "print what makes a shell complete these commands"),
        "version": ("main:version", "print the version"),
    },
}
"""Each command's module in this package, whose `command` it is unless another name follows, and one line about it."""
_OWN = {name: row for group in GROUPS.values() for name, row in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the program; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    open_streams()
    leave_out()
    with guarded_output():
        try:
            try:
                return _run(args)
            finally:
                sys.stdout.flush()  # here rather than at exit, so that a closed pipe is noticed below
        except HiveMindError as error:
            from hivemind.redaction.text import mask_arguments  # needed only here: what was wrong may be a key

            for line in error.lines:
                print_note(mask_arguments(line, args))
            return error.exit_code
        except KeyboardInterrupt:
            return 130
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not os.stat(os.curdir).st_nlink:
                print_note("the working directory is gone: change to one that is there")
                return 2
            broken = isinstance(error, BrokenPipeError)  # nobody reads our output any more
            if not broken and error.errno != errno.ENOSPC:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or what is buffered would fail at exit
            if broken:
                return 141
            print_note("not all could be written: no space is left")
            return 1


def _run(args: list[str]) -> int:
    name = next((arg for arg in args if not arg.startswith("-")), None)
    if name is None or args[0] in ("-h", "--help"):
        parser = build_parser(())
        if args[:1] != ["--version"]:
            parser.description = f"{_DESCRIPTION}\n\n{_commands()}"
        parser.parse_args(args[:1])
        parser.print_help()
        return 0
    with gc_paused():  # what is imported all stays: a sixth of the time until a command starts
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


def command_named(name: str) -> Command:
    """Return the command of that name, with its summary.

    Raises: UsageError: there is none, or it can't be loaded.
    """
    if name in _OWN:
        (module, _, attribute), summary = _OWN[name][0].partition(":"), _OWN[name][1]
        try:
            command: Command = getattr(import_module(f"{__package__}.{module}"), attribute or "command")
        except ImportError as error:
            raise _broken(name, error) from error
        return command._replace(summary=summary)
    added = _added()
    if name in added:
        return _loaded(added[name])
    raise UsageError(f"{name}: no such command{instead_of(name, [*_OWN, *added])}")


def listing() -> dict[str, dict[str, str]]:
    """Return the summary of every command by its name, in groups, those that other packages add included."""
    groups = {title: {name: summary for name, (_, summary) in rows.items()} for title, rows in GROUPS.items()}
    groups["other"] |= {name: _summary(entry) for name, entry in _added().items()}
    return groups


def is_loadable(name: str) -> bool:
    """Return whether the command can be imported; one of a broken package can't."""
    try:
        command_named(name)
    except UsageError:
        return False
    return True


def _added() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _loaded(entry: EntryPoint) -> Command:
    try:
        command: Any = entry.load()
    except (ImportError, AttributeError) as error:
        raise _broken(entry.name, error) from error
    if not isinstance(command, Command):
        raise _broken(entry.name, f"{entry.value} is no hivemind.cli.plugin.Command")
    return command


def _summary(entry: EntryPoint) -> str:
    """Return what `--help` says, which a broken package must not take away."""
    try:
        return _loaded(entry).summary
    except UsageError as error:
        return str(error)


def _broken(name: str, why: object) -> UsageError:
    return UsageError(f"the command {name} can't be loaded ({why})")


version = Command(lambda _: None, _print_version)
completion = Command(_configure_completion, _print_completion)
