"""`hivemind trust`: let every setting of a `hivemind.toml` count that is found, as it is now."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hivemind.cli.plugin import Command
from hivemind.console import print_note, printable
from hivemind.control.discovery import AGENT_VARIABLE
from hivemind.errors import HiveMindError, UsageError
from hivemind.settings_file import NAME, find_settings_file
from hivemind.store import trust

_LONGEST_VALUE = 200
_MASKED = "***"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [PATH] [--list | --revoke]"
    parser.epilog = (
        "A hivemind.toml that is found in the working directory or above may have come with a repository. Until it is"
        " trusted, only its settings of pace and looks count; once it changes, it has to be trusted anew. One that"
        " --config or HIVEMIND_CONFIG names, or in your configuration folder, counts as it is."
    )
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="the file, or its folder [the one found]")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the files that are trusted")
    what.add_argument("--revoke", action="store_true", help="trust it no longer")


def _run(namespace: argparse.Namespace) -> int:
    try:
        if namespace.list:
            return _list()
        path = _path(namespace.path)
        if namespace.revoke:
            return _revoke(path)
        return _trust(path)
    except OSError as error:
        raise HiveMindError(f"{error.filename or 'no record'}: {error.strerror or error}") from None


def _path(given: Path | None) -> Path:
    """Raises: UsageError: there is no such file that would be found."""
    if given is None:
        found = find_settings_file(Path.cwd(), print_note)
        if found is None:
            raise UsageError(f"no {NAME} is here or in a folder above; name one, as in hivemind trust FOLDER")
        return found
    path = Path.cwd() / (given / NAME if given.is_dir() else given)
    if path.name != NAME:
        raise UsageError(f"{given}: only a {NAME} is found; a file of another name counts where --config names it")
    return path


def _trust(path: Path) -> int:
    if agent := os.environ.get(AGENT_VARIABLE):
        raise HiveMindError(f"the agent {agent} can't trust settings; whoever started it can")
    from hivemind.settings.load import from_file_alone, from_text

    file = trust.read_found(path)
    if file.problem:
        raise UsageError(f"{path}: {file.problem}")
    from_file_alone(file.text, str(path))  # refuses a value that a start refuses
    lines = list(_counting(from_text(file.text, str(path))))
    trust.record(path, file.text)
    print(f"{printable(str(trust.place_of(path)))} is trusted as it is now")
    if lines:
        print("\n".join(["from now on these count from it too:", *lines]))
    return 0


def _counting(given: list[Any]) -> Iterator[str]:
    """Yield the settings that don't count without trust, secrets masked."""
    from hivemind.redaction.text import redact
    from hivemind.settings.options import find

    for each in given:
        option = find(each.path)
        if option is not None and not option.any_file:
            value = redact(str(each.value)) if not option.secret else _MASKED
            value = _place_in(each.value) if option.placeholder == "URL" and option.secret else value
            yield f"  {option.key} = {printable(value)[:_LONGEST_VALUE]}"


def _place_in(secret: object) -> str:
    """Return where a secret URL leads, without what else it says; other secrets masked."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(str(secret))
        if parts.scheme and parts.hostname:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return _MASKED


def _list() -> int:
    places = list(trust.recorded())
    if not places:
        print_note("no settings file is trusted")
    for place in places:
        file = trust.read_found(place)
        state = "" if file.trusted else "  gone" if not place.exists() else "  changed since, so not trusted any more"
        print(f"{printable(str(place))}{state}")
    return 0


def _revoke(path: Path) -> int:
    if not trust.revoke(path):
        raise HiveMindError(f"{path} wasn't trusted")
    print(f"{printable(str(trust.place_of(path)))} isn't trusted any more")
    return 0


command = Command(_configure, _run)
