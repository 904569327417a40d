"""The commands of `hivemind`: what each is for, and the module that is imported when it is wanted.

Some commands need libraries that take longer to import than others take in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hivemind.cli.plugin import GROUP, Command
from hivemind.errors import UsageError
from hivemind.text.suggest import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "start": {
        "proxy": ("proxy", "serve the proxy, without a screen"),
        "run": ("agents.run", "run a command as an agent, with a priority and a budget of its own"),
        "batch": ("agents.batch", "run a plan of tasks, each as soon as those before it are done"),
        "setup": ("setup", "print what to paste where, to point a client at the proxy"),
        "mcp": ("mcp", "serve the tools for agents on standard input and output (MCP)"),
    },
    "look": {
        "status": ("operator.status", "how the proxy is: lanes, requests, tokens, budgets"),
        "agents": ("operator.agents", "every agent: what it does, what it used, its budget"),
        "tasks": ("operator.tasks", "the task graph: list, submit, report, cancel, retry"),
        "checkpoints": ("agents.checkpoint", "list or show what was kept of agents that were stopped"),
    },
    "journal": {
        "journal": ("journal.command", "list, show, count, export or import what was recorded"),
        "what-if": ("lab.what_if", "simulate a recorded run with other settings, and compare"),
        "tune": ("lab.tune", "search for settings that would have served recorded traffic better"),
        "replay": ("lab.replay", "load test: send recorded traffic to a live target"),
        "report": ("lab.report", "a page about a recorded run, or a summary of it for a pull request"),
    },
    "steer": {
        "budget": ("operator.budget", "what agents may use, and what they have used"),
        "pause": ("operator.steer:pause", "hold the requests of an agent, or of all"),
        "resume": ("agents.resume", "let an agent go on where it was stopped, or all that were paused"),
        "set": ("operator.steer:set_command", "turn a knob, or give an agent another priority"),
        "stop": ("operator.steer:stop", "cut an agent off, or let it ask again"),
    },
    "other": {
        "completion": ("main:completion", "print what makes a shell complete these commands"),
        "version": ("main:version", "print the version"),
    },
}
"""Each command's module in this package, whose `command` it is unless another name follows, and one line about it."""
_OWN = {name: row for group in GROUPS.values() for name, row in group.items()}


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
    names = [*_OWN, *added]
    hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
    raise UsageError(f"{name}: no such command{hint}")


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
