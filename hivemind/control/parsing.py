"""Conversion of JSON input to our types and commands, with one-line errors."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from hivemind.records import names_of, required_of
from hivemind.redaction.text import holds_key
from hivemind.scheduler.commands import Command, Conflict, Rejected
from hivemind.scheduler.types import Priority
from hivemind.text.humanise import instead_of, listed

T = TypeVar("T")

COMMANDS: Mapping[str, type[Command]] = {made.__name__: made for made in get_args(Command)}
WHO_LENGTH = 40
HERE = "you"
"""Author of commands from the proxy's own screen; clients can't use it."""
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def parse_as(made: type[T], values: Any, of: str, *, strict: bool = True) -> T:
    """Convert a JSON object to a record, priorities by name. `of` names the object in errors; unless `strict`, it is
    a query: numbers are strings, and nothing is null.

    Raises: Rejected.
    """
    if not isinstance(values, dict):
        raise Rejected(f"{of}: must be an object")
    hints = get_type_hints(made)
    names, required = names_of(made) or (), required_of(made)
    for name in values:
        if name not in names:
            raise Rejected(f"{of}: no such argument {shown(name)}{instead_of(name, names)}")
    for name in names:
        if name not in values and name in required:
            raise Rejected(f"{of}: {name} is missing; it must be {allowed(hints[name])}")
    return made(**{name: _converted(value, hints[name], f"{of}: {name}", strict) for name, value in values.items()})


def _converted(value: Any, hint: Any, place: str, strict: bool) -> Any:
    if names_of(hint) is not None:
        return parse_as(hint, value, place, strict=strict)
    if get_origin(hint) is tuple and isinstance(value, list):
        inner = get_args(hint)[0]
        return tuple(_converted(each, inner, f"{place}[{n}]", strict) for n, each in enumerate(value))
    if not strict and get_origin(hint) is types.UnionType:
        hint = reduce(or_, (each for each in get_args(hint) if each is not types.NoneType))
    if hint is Priority and isinstance(value, str):
        # Only by name: with numbers, the lower one would be the more urgent.
        value = Priority.__members__.get(value.upper(), value)
    elif hint is Priority:
        value = None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON doesn't tell 1.0 from 1
    try:
        return msgspec.convert(value, hint, strict=strict)
    except msgspec.ValidationError:
        repeated = f" {msgspec.json.encode(value).decode()}" if isinstance(value, bool | int | float) else ""
        raise Rejected(f"{place}{repeated} must be {allowed(hint)}") from None


def allowed(hint: Any) -> str:
    """Describe the values of a type."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join("null" if each is types.NoneType else allowed(each) for each in get_args(hint))
    if hint is Priority:
        return listed(each.name.lower() for each in Priority)
    if get_origin(hint) is Literal:
        return listed(get_args(hint))
    if names_of(hint) is not None:
        return "an object"
    if get_origin(hint) is tuple:
        return "a list"
    if get_origin(hint) is Mapping:
        inner = get_args(hint)[1]
        return "an object" if inner is Any else f"an object whose values are each {allowed(inner)}"
    return _NAMES[hint]


def shown(text: str) -> str:
    """Return input for an error message, if it is short and printable, and doesn't look like a key."""
    return text if text.isprintable() and len(text) <= 40 and not holds_key(text) else "of that name"


def command_from(name: str, arguments: Any) -> Command:
    """Return the command of that name; priorities are names. Raises: Rejected: the name or an argument is wrong."""
    made = COMMANDS.get(name)
    if made is None:
        raise Rejected(f"no such command {shown(name)}{instead_of(name, COMMANDS)}")
    return parse_as(made, arguments, name)


def checked_who(who: str) -> str:
    """Return a command's author, as it is shown in the log. Raises: Rejected."""
    name, right = who.strip(), f"who: must be 1 to {WHO_LENGTH} printable characters"
    if not 0 < len(who) <= WHO_LENGTH:
        raise Rejected(right)
    if not name or not name.isprintable():
        raise Conflict(right, bad_input=True)
    if holds_key(name):
        raise Conflict("who: is shown in the log, and this one looks like a key; choose another", bad_input=True)
    if name == HERE:
        raise Conflict(f"who: {HERE} is reserved for the proxy's own screen; choose another", bad_input=True)
    return name
