"""Settings as command line flags, and a parser whose errors are one line with a suggestion."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from hivemind.errors import UsageError

from .options import Option, options
from .suggest import did_you_mean

_DESTINATION = "setting:"
"""Marks what in a namespace is a setting, so that a command's own flags can't clash with one."""


class Parser(argparse.ArgumentParser):
    """`-` and `_` are the same in a flag's name, names can't be cut short, and errors are a :class:`UsageError`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **kwargs, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As the base class has it, but nothing may be left over.

        Raises: UsageError.
        """
        parsed, extra = super().parse_known_args(None if args is None else with_hyphens(args), namespace)
        if extra:
            self._refuse(extra[0])
        return parsed, extra

    def _refuse(self, argument: str) -> NoReturn:
        if not argument.startswith("-"):
            # It may be the second half of a secret, so it isn't repeated.
            hint = "; a URL goes after --upstream" if "://" in argument else f"; see {self.prog} --help"
            raise UsageError(f"an argument too many, one that belongs to no flag{hint}")
        name = argument.partition("=")[0]
        raise UsageError(f"{name}: no such flag{did_you_mean(name, self._option_string_actions) or '; see --help'}")


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=110)


def with_hyphens(args: Sequence[str]) -> list[str]:
    """Write `--max_concurrency` as `--max-concurrency`; values stay as they are."""
    shown = []
    for arg in args:
        name, equals, value = arg.partition("=")
        shown.append((name.replace("_", "-") if name.startswith("--") else name) + equals + value)
    return shown


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting, and `--config`; :func:`hivemind.settings.from_flags` reads the result."""
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")
    groups: dict[str, Any] = {"": parser.add_argument_group("settings")}
    for option in options():
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.path[0], option.group)
        groups[option.group].add_argument(
            option.flag,
            dest=_DESTINATION + option.key,
            action="append" if option.kind is tuple else "store",
            default=argparse.SUPPRESS,
            metavar=option.placeholder,
            help=_help(option),
        )


def given_flags(namespace: argparse.Namespace) -> dict[str, Any]:
    """The settings in a parsed command line, by key."""
    named = vars(namespace).items()
    return {name.removeprefix(_DESTINATION): value for name, value in named if name.startswith(_DESTINATION)}


def _help(option: Option) -> str:
    default = option.default
    if default is None or default == ():
        return option.help.replace("%", "%%")
    shown = (
        ("on" if default else "off")
        if isinstance(default, bool)
        else f"{default:g}"
        if option.kind is float
        else default
    )
    return f"{option.help.removesuffix('.')} [{shown}]".replace("%", "%%")
