"""What the user gave, one layer a source, each value with the place it came from."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from hivemind.errors import UsageError
from hivemind.settings.flags import given_flags
from hivemind.settings.model import Settings
from hivemind.settings.options import PREFIX, find, options, sections
from hivemind.text.suggest import did_you_mean

CONFIG_VARIABLE = PREFIX + "CONFIG"
OTHER_VARIABLES = tuple(PREFIX + name for name in ("CONFIG", "THEME", "GLYPHS", "AGENT", "URL", "TASK"))
"""Ours, but no settings: where the file is, how the control room looks, and what a runner tells an agent's process."""
DEFAULT_FILE = "hivemind.toml"


@dataclass(frozen=True, slots=True)
class Given:
    """One value as the user gave it."""

    path: tuple[str, ...]
    value: Any
    place: str
    """The flag, the variable, or the file with section and key."""


class Layer(PydanticBaseSettingsSource):
    """All that one source gave."""

    def __init__(self, given: list[Given]) -> None:
        super().__init__(Settings)
        self.given = {item.path: item for item in given}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """A setting, or a whole section, by name."""
        value = self().get(field_name)
        return value, field_name, isinstance(value, dict)

    def __call__(self) -> dict[str, Any]:
        """As nested dictionaries, the way the model is built."""
        values: dict[str, Any] = {}
        for path, item in self.given.items():
            place = values
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = item.value
        return values


def from_command_line(namespace: argparse.Namespace) -> Layer:
    """What the flags say."""
    values = given_flags(namespace)
    return Layer([Given(option.path, values[option.key], option.flag) for option in options() if option.key in values])


def from_environment(environ: Mapping[str, str]) -> Layer:
    """What `HIVEMIND_*` variables say; an empty one counts as not set.

    Raises: UsageError: there is no such setting.
    """
    names = {option.variable: option for option in options()}
    given = []
    for variable, value in environ.items():
        option = names.get(variable.upper())
        if not variable.upper().startswith(PREFIX) or variable in OTHER_VARIABLES or not value:
            continue
        if option is None:
            raise UsageError(f"{variable} (environment): no such setting{did_you_mean(variable, names)}")
        given.append(Given(option.path, value, f"{option.variable} (environment)"))
    return Layer(given)


def from_file(named: str | None, cwd: Path) -> Layer:
    """What the file says: the one named, else `hivemind.toml` in the working directory where there is one.

    Raises: UsageError: it can't be read, isn't TOML, or holds something that is no setting.
    """
    file = cwd / (named or DEFAULT_FILE)
    if named is None and not file.exists():
        return Layer([])
    shown = named or DEFAULT_FILE
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"{shown}: can't be read ({reason})") from None
    return from_text(text, shown)


def from_text(text: str, shown: str) -> Layer:
    """What a file of this text says; `shown` is how its lines are named to people.

    Raises: UsageError: it isn't TOML, or holds something that is no setting.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{shown}: not TOML: {str(error)[:1].lower()}{str(error)[1:]}") from None
    return Layer(list(_flatten(content, (), shown)))


def _flatten(table: dict[str, Any], prefix: tuple[str, ...], file: str) -> Iterator[Given]:
    heading = f"{file} [{'.'.join(prefix)}]" if prefix else file
    for key, value in table.items():
        path, place = (*prefix, key), f"{heading} {key}"
        if not prefix and key in sections():
            if not isinstance(value, dict):
                raise UsageError(f"{place}: must be a section, [{key}]")
            yield from _flatten(value, path, file)
        elif (option := find(path)) is None:
            siblings = {option.path[-1] for option in options() if option.path[:-1] == prefix}
            names = siblings if prefix else siblings | sections()
            raise UsageError(
                f"{place}: no such {'section' if isinstance(value, dict) else 'setting'}{did_you_mean(key, names)}"
            )
        else:
            if isinstance(value, bool) and option.kind is not bool:
                raise UsageError(f"{place}: must be {option.allowed or 'text'}")
            yield Given(path, value, place)
