"""Commands in JSON: a name and arguments, as in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from hivemind.control.codec import to_plain
from hivemind.control.parsing import parse_as, shown
from hivemind.redaction.text import holds_key
from hivemind.scheduler.commands import Command, Rejected
from hivemind.text.suggest import did_you_mean

COMMANDS: Mapping[str, type[Command]] = {made.__name__: made for made in get_args(Command)}
WHO_LENGTH = 40
HERE = "you"
"""Author of commands from the proxy's own screen; clients can't use it."""


def command_from(name: str, arguments: Any) -> Command:
    """Return the command of that name. Priorities are names.

    Raises: Rejected: there is none, or its arguments aren't right.
    """
    made = COMMANDS.get(name)
    if made is None:
        hint = did_you_mean(name, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise Rejected(f"no such command {shown(name)}{hint}")
    return parse_as(made, arguments, name)


def arguments_of(command: Command) -> dict[str, Any]:
    """Return the arguments from which :func:`command_from` makes the same command."""
    values: dict[str, Any] = to_plain(command)
    return values


def checked_who(who: str) -> str:
    """Return a command's author, as it is shown in the log.

    Raises: Rejected.
    """
    name = who.strip()
    if not 0 < len(name) <= WHO_LENGTH or not name.isprintable():
        raise Rejected(f"who: must be 1 to {WHO_LENGTH} printable characters")
    if holds_key(name):
        raise Rejected("who: is shown in the log, and this one looks like a key; choose another")
    if name == HERE:
        raise Rejected(f"who: {HERE} is reserved for the proxy's own screen; choose another")
    return name
