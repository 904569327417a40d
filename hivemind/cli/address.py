"""Where the user's own proxy and its files are, as flags, variables and `hivemind.toml` say.

The address is read without the settings' model, which takes longer to import than a small command may take: the proxy
checks its settings itself.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivemind.console import print_note, printable
from hivemind.control.discovery import STATE_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, local_url
from hivemind.errors import UsageError
from hivemind.settings_file import find_settings_file, from_its_folder, parsed
from hivemind.store.trust import Ignored, read_found, read_named

if TYPE_CHECKING:
    from hivemind.settings import Settings

FILE_HELP = "a journal: its path, its name or the beginning of it, or latest"
_FILE_VARIABLE = "HIVEMIND_CONFIG"
_NAMES = ("host", "port", "token", "control_token", "state_dir")
_OF_TOKEN = ("control_token", "state_dir")
"""Those that say how a proxy is opened whose URL is known."""


def locate_proxy(attach: str | None) -> tuple[str, dict[str, str]]:
    """Return the URL of the proxy to ask (`attach`, else by the variables or the file), and the variables by which its
    token is found. Raises: UsageError.
    """
    environ = {name: value for name, value in os.environ.items() if value}
    url = attach or environ.get(URL_VARIABLE)
    if url is None or STATE_VARIABLE not in environ:
        settings = given_settings(environ, Path.cwd(), _NAMES if url is None else _OF_TOKEN)
        url = url or own_url(settings, "--attach")
        for variable, name in ((STATE_VARIABLE, "state_dir"), (TOKEN_VARIABLE, "control_token")):
            if name in settings:
                environ.setdefault(variable, str(settings[name]))
    return url, environ


def only_proxy(attach: str | None) -> str | None:
    """Return the URL of the one proxy of this user that runs here, where nothing names one and none is at the usual
    port; None: one is named, or is there, or none runs. Raises: UsageError: several run.
    """
    environ = {name: value for name, value in os.environ.items() if value}
    if attach or environ.get(URL_VARIABLE):
        return None
    settings = given_settings(environ, Path.cwd(), say=lambda _: None)
    from hivemind.store.token_file import running, state_dir

    given = environ.get(STATE_VARIABLE) or settings.get("state_dir")
    try:
        notes = running(state_dir(Path(given) if given else None))
    except OSError:
        return None
    usual = str(settings.get("port", 8765))
    if not notes or any(note.url.endswith(f":{usual}") for note in notes):
        return None
    if "port" in settings and usual != "0":
        return None
    if len(notes) > 1:
        urls = ", ".join(printable(note.url) for note in notes)
        raise UsageError(f"{len(notes)} proxies of yours run ({urls}); name one with --attach")
    return notes[0].url


def given_settings(
    environ: Mapping[str, str], cwd: Path, names: Sequence[str] = _NAMES, say: Callable[[str], object] = print_note
) -> dict[str, Any]:
    """Return what the variables, else the file, say of where the proxy is and how it is opened. `say` is called with a
    line about what doesn't count of a file that was found and isn't trusted.

    Raises: UsageError: the file can't be read.
    """
    given: dict[str, Any] = {name: environ.get(f"HIVEMIND_{name.upper()}") for name in names}
    missing = [name for name, value in given.items() if not value]
    given |= _in_file(environ, cwd, missing, say) if missing else {}
    return {name: value for name, value in given.items() if value is not None}


def own_url(settings: Mapping[str, Any], flag: str) -> str:
    """Return where a proxy with these settings is found on this machine; `flag` is the one that names it otherwise.

    Raises: UsageError: the port is unknown.
    """
    port, host = str(settings.get("port", 8765)), str(settings.get("host", "127.0.0.1"))
    if port == "0":
        raise UsageError(f"the port is set to 0, any free one; say where the proxy is with {flag}")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"the port is set to {port[:20]}, which is none; say where the proxy is with {flag}")
    return local_url(host, int(port))


def _in_file(
    environ: Mapping[str, str], cwd: Path, names: Sequence[str], say: Callable[[str], object]
) -> dict[str, Any]:
    """Return what the file says of these names, none of which counts from one that isn't trusted."""
    if named := environ.get(_FILE_VARIABLE):
        file = read_named(cwd / named)
    elif (path := find_settings_file(cwd, say)) is not None:
        file = read_found(path)
    else:
        return {}
    try:
        if file.problem:
            raise ValueError(file.problem)
        content = parsed(file.text)
    except ValueError as error:
        if file.trusted:
            raise UsageError(f"{file.path}: {error}{f' ({_FILE_VARIABLE})' if named else ''}") from None
        say(Ignored(file.path, (), file.changed, str(error)).note)
        return {}
    found = {name: content[name] for name in names if name in content}
    if found and not file.trusted:
        say(Ignored(file.path, tuple(found), file.changed).note)
        return {}
    if not named and isinstance(folder := found.get("state_dir"), str):
        found["state_dir"] = from_its_folder(file.path, folder)
    return found


def add_folder_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where a proxy keeps its files; :func:`folder_settings` reads them."""
    parser.add_argument("--state-dir", metavar="FOLDER", help="the proxy's [as set in hivemind.toml]")
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")


def add_journal_flags(parser: argparse.ArgumentParser) -> None:
    """Add the journal that a command reads, and the flags that say where to look for it."""
    parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    add_folder_flags(parser)


def folder_settings(namespace: argparse.Namespace) -> Settings:
    """Return the settings by those flags, the variables and the file. Raises: UsageError."""
    from hivemind.settings import load

    named = (("--state-dir", namespace.state_dir), ("--config", namespace.config))
    return load([f"{flag}={value}" for flag, value in named if value is not None], environ=os.environ, cwd=Path.cwd())


def checked_agent(name: str, origin: str) -> str:
    """Return an agent's name in its normal form. Raises: UsageError, which names the flag or variable `origin`."""
    from hivemind.agent_names import BadName, normalised

    try:
        return normalised(name)
    except BadName as error:
        raise UsageError(f"{origin}: {error}") from None
