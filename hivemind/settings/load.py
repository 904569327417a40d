"""Fill the model from every source, and say in one line what is wrong where something is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hivemind.errors import UsageError
from hivemind.parser import Parser
from hivemind.settings.flags import add_flags
from hivemind.settings.layers import (
    CONFIG_VARIABLE,
    DEFAULT_FILE,
    Given,
    Layer,
    from_command_line,
    from_environment,
    from_file,
    from_text,
)
from hivemind.settings.model import Settings, settings_from
from hivemind.settings.options import find


def load(argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path, prog: str = "hivemind proxy") -> Settings:
    """Settings of a command that has no flags but these. `--help` prints and exits.

    Raises: UsageError: the text is one line that names the entry as the user wrote it.
    """
    parser = Parser(prog=prog)
    add_flags(parser)
    return from_flags(parser.parse_args(argv), environ=environ, cwd=cwd)


def from_flags(namespace: argparse.Namespace, *, environ: Mapping[str, str], cwd: Path) -> Settings:
    """Settings from flags already parsed (by a parser given to :func:`add_flags`), variables and the file.

    A flag wins over a variable, a variable over the file, the file over the default.

    Raises: UsageError, as :func:`load`.
    """
    named = _named_file(namespace, environ)
    return _settings((from_command_line(namespace), from_environment(environ), from_file(named, cwd)))


def from_file_alone(text: str, shown: str) -> Settings:
    """Settings of a file of this text, without flags and variables; `shown` is how its lines are named to people.

    A token may be in HIVEMIND_TOKEN, where it belongs, so the lack of one is no error here.

    Raises: UsageError, as :func:`load`.
    """
    token = Layer([Given(("token",), "one-in-another-place", "HIVEMIND_TOKEN (environment)")])
    return _settings((from_text(text, shown), token), shown)


def settings_file(namespace: argparse.Namespace, *, environ: Mapping[str, str], cwd: Path) -> Path:
    """The file that :func:`from_flags` reads with the same arguments, whether it is there or not."""
    return cwd / (_named_file(namespace, environ) or DEFAULT_FILE)


def _named_file(namespace: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    return namespace.config or environ.get(CONFIG_VARIABLE) or None


def _settings(layers: Sequence[Layer], file: str | None = None) -> Settings:
    """`file` is the one to blame for a setting that nobody gave, where it isn't the command line."""
    try:
        return settings_from(layers)
    except ValidationError as error:
        raise UsageError(_explain(error.errors(include_url=False)[0], layers, file)) from None


def _explain(error: ErrorDetails, layers: Sequence[Layer], file: str | None) -> str:
    """`--port 99999: must be a whole number from 0 to 65,535`."""
    path = tuple(part for part in error["loc"] if isinstance(part, str))
    option = find(path)
    given = next((layer.given[path] for layer in layers if path in layer.given), None)
    if option is None:  # of a whole section, only what its secret may not equal is checked
        parts = (item for layer in layers for item in layer.given.values() if item.path[: len(path)] == path)
        given = next((item for item in parts if (part := find(item.path)) and part.secret), None)
    unset = option.flag if option and file is None else " ".join(filter(None, (file, ".".join(path))))
    place = given.place if given else unset
    if error["type"] == "value_error":
        return f"{place}: {error['ctx']['error']}"
    allowed = option.allowed if option else ""
    shown = _value(given) if allowed else ""
    return f"{place}{shown}: must be {allowed or 'text'}"


def _value(given: Given | None) -> str:
    """The value, where it is one short word. Asked for numbers and names only: anything else may hold a secret."""
    if given is None or not isinstance(given.value, str | int | float):
        return ""
    text = f" {given.value}"
    return text if len(text) <= 40 and text.isprintable() else ""
