"""Settings as command line flags."""

from __future__ import annotations

import argparse
from typing import Any

from hivemind.settings.options import Option, options

_BODIES = "journal.bodies"
_DESTINATION = "setting:"
"""Marks what in a namespace is a setting, so that a command's own flags can't clash with one."""


def add_flags(parser: argparse.ArgumentParser, *, listed: bool = True) -> None:
    """Add a flag for every setting, and `--config`; :func:`hivemind.settings.from_flags` reads the result.

    Not `listed`: the help only says that there are any, and where they are told, because the command has more to say.
    """
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")
    about = None if listed else "Each setting of `hivemind proxy --help` may be given too."
    groups: dict[str, Any] = {"": parser.add_argument_group("settings", about)}
    for option in options():
        if not listed:
            groups.setdefault(option.group, groups[""])
        elif option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.path[0], option.group)
        groups[option.group].add_argument(
            option.flag,
            dest=_DESTINATION + option.key,
            action="append" if option.kind is tuple else "store",
            default=argparse.SUPPRESS,
            metavar=option.placeholder,
            help=_help(option) if listed else argparse.SUPPRESS,
        )
        if option.key == _BODIES:
            groups[option.group].add_argument(
                "--record-bodies",
                dest=_DESTINATION + _BODIES,
                action="store_const",
                const="on",
                default=argparse.SUPPRESS,
                help=f"short for {option.flag} on" if listed else argparse.SUPPRESS,
            )


def given_flags(namespace: argparse.Namespace) -> dict[str, Any]:
    """The settings in a parsed command line, by key."""
    named = vars(namespace).items()
    return {name.removeprefix(_DESTINATION): value for name, value in named if name.startswith(_DESTINATION)}


def _help(option: Option) -> str:
    default = option.default
    if default is None or default in ((), {}):
        return option.help.replace("%", "%%")
    shown = (
        ("on" if default else "off")
        if isinstance(default, bool)
        else f"{default:g}"
        if option.kind is float
        else default
    )
    return f"{option.help.removesuffix('.')} [{shown}]".replace("%", "%%")
