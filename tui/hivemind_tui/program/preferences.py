"""The screen's own file, `screen.toml` in the user's configuration folder: theme, keys, columns and order.

It belongs to a person, not to a proxy: rooms that are attached, or replay a journal, have no `hivemind.toml`, and that
of a project may be shared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from hivemind import earlier
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.store.atomic import written_whole
from hivemind.text.humanise import did_you_mean
from hivemind_styles import THEME_NAMES
from hivemind_tui.render.capabilities import VARIABLE as THEME
from hivemind_tui.render.capabilities import colours

if TYPE_CHECKING:
    from hivemind_tui.program.screens import Screens

VARIABLE = "HIVEMIND_SCREEN"
"""Names another file."""
_NAME = "screen.toml"


class Preferences(Struct, frozen=True):
    """What the file says; empty: as usual."""

    origin: str = ""
    """The file, for messages."""
    remember_in: Path | None = None
    """Where a theme that is chosen is written; None: nowhere."""
    theme: str = ""
    columns: tuple[str, ...] = ()
    """Of the table of agents, after the name."""
    sort: str = ""
    """Column that agents are sorted by; with a `-` before it the other way round."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys by the id of what they do, as in the key reference; several separated by commas."""


def read(environ: Mapping[str, str]) -> Preferences:
    """Return what the file says, without Textual, so before the screen. Raises: UsageError: it can't be read, or what
    it says isn't of the right kind."""
    path = _path(environ)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if environ.get(VARIABLE):
            raise UsageError(f"{printable(str(path))}: no such file ({VARIABLE})") from None
        return Preferences(remember_in=_for_themes(path, environ))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{printable(str(path))}: can't be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    import tomllib  # on demand: mostly there is no such file

    origin = printable(str(path))
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: can't be read ({printable(str(error))})") from None
    _check_names(origin, "", found, ("theme", "columns", "sort", "keys"))
    theme, columns, sort, keys = (found.get(name, kind()) for name, kind in _KINDS.items())
    for name, kind in _KINDS.items():
        if not isinstance(found.get(name, kind()), kind):
            raise UsageError(f"{origin}: {name}: must be {_WORDS[kind]}")
    for name, value in (*((f"keys.{name}", value) for name, value in keys.items()), *(("columns", c) for c in columns)):
        if not isinstance(value, str) or not value:
            raise UsageError(f"{origin}: {printable(name)}: must be text")
    if theme and theme not in THEME_NAMES:
        raise UsageError(f"{origin}: theme: must be one of {', '.join(THEME_NAMES)}, not {printable(theme[:40])!r}")
    columns = [earlier.SCREEN_NAMES.get(column, column) for column in columns]
    name = sort.removeprefix("-")
    sort = sort[: len(sort) - len(name)] + earlier.SCREEN_NAMES.get(name, name)
    return Preferences(origin, _for_themes(path, environ), theme, tuple(columns), sort, keys)


def remember(path: Path, theme: str) -> None:
    """Write a theme's name into the file, which is made if there is none; all else in it stays. Raises: OSError."""
    import tomlkit  # on demand: hardly ever needed

    try:
        document = tomlkit.parse(path.read_text("utf-8"))
    except FileNotFoundError:
        document = tomlkit.document()
    except (UnicodeDecodeError, tomlkit.exceptions.ParseError):
        return  # somebody is editing it
    document["theme"] = theme
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as draft:
        draft.write(tomlkit.dumps(document).encode())


def _for_themes(path: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the file, unless the theme is given for this run alone, or the terminal has few colours to choose from."""
    return None if environ.get(THEME) or colours(environ) <= 16 else path


_KINDS: Mapping[str, type[Any]] = {"theme": str, "columns": list, "sort": str, "keys": dict}
_WORDS: Mapping[type[Any], str] = {str: "text", list: "a list", dict: "a table"}


def apply(preferences: Preferences, screens: Screens) -> str:
    """Have this process's screens use those keys and columns, and that order; return one line about settings that have
    no effect any more, if there are any.

    Raises: UsageError: there is no such key or column, or a key has two meanings on one page.
    """
    from hivemind_tui.keys import keymap
    from hivemind_tui.panels import agent_table
    from hivemind_tui.state.lists import AGENT_KEYS, ASCENDING, SortOrder

    origin = preferences.origin
    _check_names(
        origin,
        "keys: ",
        preferences.keys,
        [*keymap.BY_ID, *(name for name in preferences.keys if name in keymap.FORMER)],
    )
    _check_names(origin, "columns: ", preferences.columns, agent_table.COLUMNS)
    if preferences.sort:
        _check_names(origin, "sort: ", [preferences.sort.removeprefix("-")], AGENT_KEYS)
    try:
        gone = keymap.remap(preferences.keys)
    except ValueError as error:
        raise UsageError(f"{origin}: keys.{error}") from None
    screens.rebound = bool(preferences.keys)
    agent_table.choose(preferences.columns)
    column = preferences.sort.removeprefix("-")
    upwards = (column in ASCENDING) is not preferences.sort.startswith("-")
    screens.order = SortOrder(sort=column, reverse=bool(column) and not upwards)
    return f"{origin}: keys: {', '.join(gone)}: no effect any more, as other keys are there now" if gone else ""


def _path(environ: Mapping[str, str]) -> Path:
    if given := environ.get(VARIABLE):
        return Path(os.path.expanduser(given))
    import platformdirs

    return platformdirs.user_config_path("hivemind") / _NAME


def _check_names(origin: str, where: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            raise UsageError(f"{origin}: {where}there is no {printable(name[:40])}{hint}")
