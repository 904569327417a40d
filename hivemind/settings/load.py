"""Fill the record from flags, variables and the file, and say in one line what is wrong where something is."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from hivemind.console import print_note
from hivemind.errors import UsageError
from hivemind.parser import Parser
from hivemind.records import replace
from hivemind.redaction.text import printable, redact
from hivemind.settings.checks import checked
from hivemind.settings.model import Settings
from hivemind.settings.options import PREFIX, add_flags, find, given_flags, options, sections, typed
from hivemind.settings.sections import BadSetting
from hivemind.settings_file import NAME, find_settings_file, from_its_folder, is_removed, parsed
from hivemind.store.trust import FoundFile, Ignored, read_found, read_named
from hivemind.text.humanise import did_you_mean

CONFIG_VARIABLE = PREFIX + "CONFIG"
_OF_RUNS = ("AGENT", "URL", "TASK", "ROUTE", "RUN_TOKEN", "RESUME_SESSION", "RESUME_FILE")
OTHER_VARIABLES = tuple(PREFIX + name for name in ("CONFIG", "THEME", "GLYPHS", "SCREEN", *_OF_RUNS))
"""Not settings: the file's name, the control room's appearance, and what a runner passes to an agent's process."""

_LONGEST_PROBLEM = 160
"""Characters of what is wrong in a file that isn't trusted."""


class Given(Struct, frozen=True):
    """One value as the user gave it."""

    path: tuple[str, ...]
    value: Any
    place: str
    """The flag, the variable, or the file with section and key."""


def load(
    argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path, prog: str = "hivemind proxy", quiet: bool = False
) -> Settings:
    """Return the settings of a command that has no flags but these. `--help` prints and exits. `quiet` is as in
    :func:`from_flags`.

    Raises: UsageError: the text is one line that names the entry as the user wrote it.
    """
    parser = Parser(prog=prog)
    add_flags(parser)
    return from_flags(parser.parse_args(argv), environ=environ, cwd=cwd, quiet=quiet)


def from_flags(
    namespace: argparse.Namespace, *, environ: Mapping[str, str], cwd: Path, quiet: bool = False
) -> Settings:
    """Return the settings of flags already parsed (by a parser given to :func:`add_flags`), variables and the file.

    A flag wins over a variable, a variable over the file, the file over the default. What doesn't count of a file that
    was found and isn't trusted is told on standard error, unless the caller is `quiet`: the log of its proxy tells it.

    Raises: UsageError, as :func:`load`.
    """
    given, ignored = _given(namespace, environ, cwd)
    settings = _settings(given)
    if ignored is not None and not quiet:
        print_note(ignored.note)
    return replace(settings, ignored=ignored)


def is_given(key: str, namespace: argparse.Namespace, *, environ: Mapping[str, str], cwd: Path) -> bool:
    """Return whether one of the sources of :func:`from_flags` says what this setting is, also as its default is.

    Raises: UsageError, as :func:`load`.
    """
    return any(".".join(each.path) == key for each in _given(namespace, environ, cwd)[0])


def _given(namespace: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> tuple[list[Given], Ignored | None]:
    """Return what was given, the last of several values for one setting wins, and what doesn't count of the file."""
    file, ignored = from_file(_named_file(namespace, environ), cwd)
    values = given_flags(namespace)
    flags = (Given(option.path, values[option.key], option.flag) for option in options() if option.key in values)
    return [*file, *from_environment(environ), *flags], ignored


def from_file_alone(text: str, shown: str) -> Settings:
    """Return the settings of a file of this text, without flags and variables; messages call the file `shown`.

    A token may be in HIVEMIND_TOKEN, where it belongs, so the lack of one is no error here.

    Raises: UsageError, as :func:`load`.
    """
    token = Given(("token",), "one-in-another-place", "HIVEMIND_TOKEN (environment)")
    return _settings((token, *from_text(text, shown)), shown)


def settings_file(namespace: argparse.Namespace, *, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the file that :func:`from_flags` reads with the same arguments, whether it exists or not."""
    named = _named_file(namespace, environ)
    return cwd / (named or find_settings_file(cwd) or NAME)


def _named_file(namespace: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    return namespace.config or environ.get(CONFIG_VARIABLE) or None


# --- Sources ----------------------------------------------------------------------------------------------------------


def from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    """Return what `HIVEMIND_*` variables say; an empty one counts as not set.

    Raises: UsageError: there is no such setting.
    """
    names = {option.variable: option for option in options()}
    for variable, value in environ.items():
        option = names.get(variable.upper())
        if not variable.upper().startswith(PREFIX) or variable in OTHER_VARIABLES or not value:
            continue
        if is_removed(tuple(variable.removeprefix(PREFIX).lower().split("__"))):
            _note_removed(f"{variable} (environment)")
            continue
        if option is None:
            raise UsageError(f"{variable} (environment): no such setting{did_you_mean(variable, names)}")
        yield Given(option.path, value, f"{option.variable} (environment)")


def from_file(named: str | None, cwd: Path) -> tuple[list[Given], Ignored | None]:
    """Return what counts of the file, and what doesn't: the one named, else the `hivemind.toml` of the working
    directory or the nearest folder above it.

    Raises: UsageError: it can't be read, isn't TOML, or holds something that is no setting. If it was found and isn't
    trusted, it is ignored then.
    """
    if named is None:
        path = find_settings_file(cwd, print_note)
        return ([], None) if path is None else _from_found(read_found(path), os.path.relpath(path, cwd))
    file = read_named(cwd / named)
    if file.problem:
        raise UsageError(f"{named}: {file.problem}")
    return from_text(file.text, named, on_removed=_note_removed), None


def _from_found(file: FoundFile, shown: str) -> tuple[list[Given], Ignored | None]:
    """Raises: UsageError: it is trusted, and wrong."""
    try:
        if file.problem:
            raise UsageError(f"{shown}: {file.problem}")
        given = from_text(file.text, shown, on_removed=_note_removed)
        if file.trusted:
            return [_from_its_folder(file.path, each) for each in given], None
        counted = [each for each in given if (option := find(each.path)) and option.any_file]
        _settings(counted, shown)
    except UsageError as error:
        if file.trusted:
            raise
        return [], Ignored(file.path, (), file.changed, str(error)[:_LONGEST_PROBLEM])
    names = tuple(".".join(each.path) for each in given if each not in counted)
    return counted, Ignored(file.path, names, file.changed) if names else None


@cache  # one line a process, however often it reads its settings
def _note_removed(place: str) -> None:
    print_note(f"{place}: has no effect any more; delete it")


def _from_its_folder(file: Path, given: Given) -> Given:
    option = find(given.path)
    if option is None or option.kind is not Path or not isinstance(given.value, str):
        return given
    return replace(given, value=from_its_folder(file, given.value))


def from_text(text: str, shown: str, on_removed: Callable[[str], object] = lambda place: None) -> list[Given]:
    """Return what a file of this text says; messages call it `shown`. `on_removed` is called with the place of each
    setting that is in :data:`~hivemind.settings_file.REMOVED`.

    Raises: UsageError: it isn't TOML, or holds something that is no setting.
    """
    try:
        table = parsed(text)
    except ValueError as error:
        raise UsageError(f"{shown}: {error}") from None
    return list(_flatten(table, (), shown, on_removed))


def _flatten(
    table: dict[str, Any], prefix: tuple[str, ...], file: str, on_removed: Callable[[str], object]
) -> Iterator[Given]:
    heading = f"{file} [{'.'.join(prefix)}]" if prefix else file
    for key, value in table.items():
        path, place = (*prefix, key), f"{heading} {printable(redact(key))}"
        if is_removed(path):
            on_removed(place)
        elif not prefix and key in sections():
            if not isinstance(value, dict):
                raise UsageError(f"{place}: must be a section, [{key}]")
            yield from _flatten(value, path, file, on_removed)
        elif find(path) is None:
            siblings = {option.path[-1] for option in options() if option.path[:-1] == prefix}
            names = siblings if prefix else siblings | sections()
            raise UsageError(
                f"{place}: no such {'section' if isinstance(value, dict) else 'setting'}{did_you_mean(key, names)}"
            )
        else:
            yield Given(path, value, place)


# --- The result -------------------------------------------------------------------------------------------------------


def _settings(sources: Iterable[Given], file: str | None = None) -> Settings:
    """Fill the record; of several values for one setting the last wins. `file` is to blame for a setting that isn't
    given, unless it is the command line."""
    given = {each.path: each for each in sources}
    values: dict[str, Any] = {}
    for path, each in given.items():
        section = values
        for part in path[:-1]:
            section = section.setdefault(part, {})
        option = find(path)
        if isinstance(each.value, bool) and option is not None and option.kind is not bool:
            raise UsageError(f"{each.place}: must be {option.allowed or 'text'}")
        section[path[-1]] = each.value if option is None else typed(option, each.value)
    try:
        return checked(values)
    except BadSetting as error:
        raise UsageError(_explain(error, given, file)) from None


def _explain(error: BadSetting, values: Mapping[tuple[str, ...], Given], file: str | None) -> str:
    """Return `--port 99999: must be a whole number from 0 to 65,535`."""
    path = error.path
    option, given = find(path), values.get(path)
    if option is None:  # of a whole section, only what its secret may not equal is checked
        parts = (each for each in values.values() if each.path[: len(path)] == path)
        given = next((each for each in parts if (part := find(each.path)) and part.secret), None)
    unset = option.flag if option and file is None else " ".join(filter(None, (file, ".".join(path))))
    place = given.place if given else unset
    if error.why is not None:
        return f"{place}: {error.why}"
    allowed = option.allowed if option else ""
    shown = _value(given) if allowed else ""
    return f"{place}{shown}: must be {allowed or 'text'}"


def _value(given: Given | None) -> str:
    """The value, where it is one short word. Asked for numbers and names only: anything else may hold a secret."""
    if given is None or not isinstance(given.value, str | int | float):
        return ""
    text = f" {redact(str(given.value))}"
    return text if len(text) <= 40 and text.isprintable() else ""
