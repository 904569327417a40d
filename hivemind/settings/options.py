"""The settings as a table, derived from the record, and as command line flags."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct

from hivemind.parser import Parser
from hivemind.settings.model import Settings
from hivemind.settings.sections import ANY_FILE, Placeholder, Secret, settings_of
from hivemind.text.humanise import listed, parse_number

PREFIX = "HIVEMIND_"
Path = tuple[str, ...]
_BODIES = "journal.bodies"
_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
_DESTINATION = "setting:"
"""Prefix of settings in a namespace, so that a command's own flags can't clash with one."""


class Option(Struct, frozen=True):
    """One setting: its names, default and allowed values."""

    path: Path
    """Section, if any, and name."""
    group: str
    """The section's description; empty if it is in none."""
    help: str
    default: Any
    kind: type
    """`bool`, `int`, `float`, `str` (also for a choice of names), `tuple`, `dict`, or a type of its own."""
    choices: tuple[str, ...]
    bounds: Meta | None
    """Of a number."""
    placeholder: str
    any_file: bool
    """It counts also from a file that was found and isn't trusted."""

    @property
    def flag(self) -> str:
        return "--" + ".".join(self.path).replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + "__".join(self.path).upper()

    @property
    def key(self) -> str:
        """Return the dotted name, as in the file."""
        return ".".join(self.path)

    @property
    def secret(self) -> bool:
        """Return whether the value is never shown. A dictionary holds a secret under each name."""
        return self.kind in (Secret, dict)

    @property
    def allowed(self) -> str:
        """Return the allowed values: `a whole number from 0 to 65,535`, `hold or refuse`; empty for text."""
        if self.choices:
            return listed(self.choices)
        if self.kind is bool:
            return "on or off"
        if self.bounds is not None:
            number = "a whole number" if self.kind is int else "a number"
            return f"{number} {_range(self.bounds)}"
        return ""


def typed(option: Option, value: Any) -> Any:
    """Return the number that a text means for a setting that is one: `1_000_000`, `500k`, `2m`; or whether one is on or
    off. Any other value is returned as it is, also that of a time in seconds with a letter, whose `m` would be
    minutes."""
    if not isinstance(value, str):
        return value
    if option.kind is bool:
        return {"on": True, "true": True, "off": False, "false": False}.get(value.lower(), value)
    if option.kind not in (int, float):
        return value
    if option.placeholder == "SECONDS":
        return float(value) if _SECONDS.fullmatch(value) else value
    try:
        number = parse_number(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


@cache
def options() -> tuple[Option, ...]:
    """Return all settings, in the order of the record."""
    return tuple(_rows(Settings, (), ""))


@cache
def sections() -> frozenset[str]:
    """Return the names of the sections."""
    return frozenset(option.path[0] for option in options() if len(option.path) > 1)


def find(path: Path) -> Option | None:
    """Return the setting of that name, if there is one."""
    return next((option for option in options() if option.path == path), None)


def _rows(record: type[Struct], prefix: Path, group: str) -> Iterator[Option]:
    for name, kind, default in settings_of(record):
        if isinstance(default, Struct):
            yield from _rows(kind, (*prefix, name), (kind.__doc__ or "").strip())
        else:
            yield _row((*prefix, name), kind, default, group, described(record, name))


def _row(path: Path, annotation: Any, default: Any, group: str, text: str) -> Option:
    kind, bounds, notes = unwrapped(annotation)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if choices:
        kind = str
    elif get_origin(kind) is tuple:
        kind = tuple
    elif get_origin(kind) is Mapping:
        kind = dict
    placeholder = next((note.text for note in notes if isinstance(note, Placeholder)), None)
    return Option(
        path=path,
        group=group,
        help=text,
        default=default,
        kind=kind,
        choices=choices,
        bounds=bounds,
        placeholder=placeholder or _placeholder(path, kind, choices),
        any_file=ANY_FILE in notes,
    )


def unwrapped(annotation: Any) -> tuple[Any, Meta | None, tuple[Any, ...]]:
    """Return a setting's type without `| None` and `Annotated`, however they are nested; its range, and the notes."""
    if get_origin(annotation) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not types.NoneType)
        return unwrapped(inner)
    if get_origin(annotation) is not Annotated:
        return annotation, None, ()
    inner, *outer = get_args(annotation)
    kind, bounds, notes = unwrapped(inner)
    for note in outer:
        bounds = note if isinstance(note, Meta) else bounds
    return kind, bounds, (*notes, *outer)


def _placeholder(path: Path, kind: type, choices: tuple[str, ...]) -> str:
    if choices:
        return "|".join(choices)
    if kind is bool:
        return "on|off"
    return "SECONDS" if path[-1].endswith("_s") else "N"


def _range(bounds: Meta) -> str:
    """Return `from 0 to 65,535`, `above 0 and below 1`."""
    low = f"above {bounds.gt:,}" if bounds.ge is None else f"from {bounds.ge:,}"
    if bounds.lt is not None:
        return f"{low} and below {bounds.lt:,}"
    return f"{low} {'and at most' if bounds.ge is None else 'to'} {bounds.le:,}"


# --- Flags ------------------------------------------------------------------------------------------------------------


FINDING = frozenset({"host", "port", "state_dir", "control_token"})
"""Settings by which a running proxy is found."""
STARTING = FINDING | {"upstream", "token", "max_agents"}
"""Those, and what is most often given to a proxy that is started because none runs."""


def add_flags(parser: Parser | argparse.ArgumentParser, only: frozenset[str] | None = None) -> None:
    """Add a flag for every setting, or `only` some, and `--config`. :func:`hivemind.settings.from_flags` reads them."""
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")
    about = None if only is None else "All others: hivemind.toml, HIVEMIND_* variables, and hivemind proxy --help."
    groups: dict[str, Any] = {"": parser.add_argument_group("settings", about)}
    for option in options():
        if only is not None and option.key not in only:
            if isinstance(parser, Parser):
                place = f"{option.variable}, or {option.key} in hivemind.toml"
                parser.elsewhere[option.flag] = f"no flag of this command but a setting of the proxy: {place}"
            continue
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
        if option.key == _BODIES:
            groups[option.group].add_argument(
                "--record-bodies",
                dest=_DESTINATION + _BODIES,
                action="store_const",
                const="on",
                default=argparse.SUPPRESS,
                help=f"short for {option.flag} on",
            )


def given_flags(namespace: argparse.Namespace) -> dict[str, Any]:
    """Return the settings in a parsed command line, by key."""
    named = vars(namespace).items()
    return {name.removeprefix(_DESTINATION): value for name, value in named if name.startswith(_DESTINATION)}


def _help(option: Option) -> str:
    text, default = option.help, option.default
    if isinstance(default, bool):
        text = f"{text.removesuffix('.')} [{'on' if default else 'off'}]"
    elif default not in (None, (), {}):
        text = f"{text.removesuffix('.')} [{f'{default:g}' if option.kind is float else default}]"
    return text.replace("%", "%%")


# --- Docstrings of attributes -----------------------------------------------------------------------------------------


def described(model: type, name: str) -> str:
    """Return the docstring of a class's attribute, its own or inherited; empty if there is none."""
    found = (
        _texts(base.__module__).get((base.__name__, name))
        for base in model.__mro__
        if name in inspect.get_annotations(base)
    )
    return next((text for text in found if text), "")


@cache
def _texts(module: str) -> dict[tuple[str, str], str]:
    """Return the docstrings of attributes, by class and attribute."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        (model.name, line.target.id): inspect.cleandoc(text.value.value)
        for model in tree.body
        if isinstance(model, ast.ClassDef)
        for line, text in pairwise(model.body)
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
