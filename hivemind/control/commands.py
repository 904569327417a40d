"""Commands as they go over the wire: a name and arguments, the same as in the event that tells of them."""

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
"""How the screen of the proxy's own program signs; nobody else may."""


def command_from(name: str, arguments: Any) -> Command:
    """The command of that name. Priorities go by name.

    Raises: Rejected: there is none, or its arguments aren't right.
    """
    made = COMMANDS.get(name)
    if made is None:
        hint = did_you_mean(name, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise Rejected(f"no such command {shown(name)}{hint}")
    return parse_as(made, arguments, name)


def arguments_of(command: Command) -> dict[str, Any]:
    """What :func:`command_from` makes the command from again."""
    values: dict[str, Any] = to_plain(command)
    return values


def checked_who(who: str) -> str:
    """A name to sign with, as it is shown in the log.

    Raises: Rejected.
    """
    name = who.strip()
    if not 0 < len(name) <= WHO_LENGTH or not name.isprintable():
        raise Rejected(f"who: must be 1 to {WHO_LENGTH} printable characters")
    if holds_key(name):
        raise Rejected("who: would be shown, and this one looks like a key; choose another")
    if name == HERE:
        raise Rejected(f"who: {HERE} is whoever sits at the proxy's own screen; choose another")
    return name
