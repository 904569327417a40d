"""The note that a running proxy leaves on its machine: its address and control token.

One file a port, such as `control-8765.json`, readable by its owner alone, so that a control room on the same machine
needs no token typed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hivemind.store.atomic import written_whole
from hivemind.store.locks import open_regular

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Note:
    """What stands in the file."""

    url: str
    token: str = field(repr=False)
    pid: int
    run: str
    """Another one at every start of the proxy."""


@dataclass(frozen=True, slots=True)
class ControlKey:
    """What opens a proxy's control API."""

    run: str
    """As in :class:`Note`."""
    token: str = field(repr=False)
    noted: str = ""
    """The run in the note, if another process wrote it."""


def state_dir(given: Path | None = None) -> Path:
    """The folder of the notes: the one given, else the system's place for a program's state.

    Raises: OSError: it is in the user's home, and that isn't known.
    """
    import platformdirs  # on demand: commands that only print import this module too

    path = platformdirs.user_state_path("hivemind") if given is None else Path(os.path.expanduser(given))
    if str(path).startswith("~"):
        raise FileNotFoundError(errno.ENOENT, "this user has no home directory", str(path))
    return path


def note_path(directory: Path, port: int) -> Path:
    """Return the path of the note with the token of the proxy on that port."""
    return directory / f"control-{port}.json"


@contextlib.contextmanager
def announced(control_token: str | None, directory: Path | None, url: str, port: int) -> Iterator[ControlKey | None]:
    """Note a proxy's token for as long as it runs.

    `control_token` is the operator's own; without one, one is made up. `directory` is the setting `state_dir`. Gives
    the key; None where the token was made up and can't be written to disk, because no client could learn it then.
    """
    token = control_token or secrets.token_urlsafe(32)
    note = Note(url, token, os.getpid(), secrets.token_hex(8))
    try:
        path = note_path(state_dir(directory), port)
        _warn_of_another(path, url)
        write_note(path, note)
    except OSError as error:
        then = "the control API is off; choose another folder with --state-dir, or set HIVEMIND_CONTROL_TOKEN"
        if control_token is not None:
            then = "control rooms on this machine need HIVEMIND_CONTROL_TOKEN"
        _log.warning("the control token can't be noted (%s: %s), so %s", error.filename, error.strerror, then)
        yield None if control_token is None else ControlKey(note.run, token)
        return
    try:
        yield ControlKey(note.run, token)
    finally:
        remove_note(path, note.run)


def _warn_of_another(path: Path, url: str) -> None:
    """Warn if a proxy at another address of this machine has the same port; only the later one is found then."""
    with contextlib.suppress(OSError, ValueError):  # there is none, or rubbish
        other = read_note(path)
        if other.url != url and process_runs(other.pid):
            _log.warning(
                "control rooms don't find the proxy on %s any more: this one notes its token in the same %s; start one"
                " of them with another --state-dir",
                other.url,
                path,
            )


def process_runs(pid: int) -> bool:
    """Return whether there is a process of this number, whichever user's."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid > 0


def write_note(path: Path, note: Note) -> None:
    """Write the file, whole or not at all, in place of an earlier one: its proxy is gone, or at another address.

    Raises: OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with written_whole(path) as file:
        file.write(msgspec.json.encode(note) + b"\n")


def read_note(path: Path) -> Note:
    """Raises: OSError; ValueError: the file is no such note. Neither repeats anything of the token."""
    with open_regular(path) as file:
        return note_in(file.read(), path)


def note_in(data: bytes, path: Path) -> Note:
    """Return the note that was read from a file. Raises: ValueError: it is none."""
    try:
        return msgspec.json.decode(data, type=Note)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError(f"{path} isn't a note of a running proxy") from None


def running(directory: Path) -> list[Note]:
    """Return the notes of this folder whose proxies run, by port; those that can't be read are left out."""
    found: list[tuple[int, Note]] = []
    for path in directory.glob("control-*.json"):
        port = path.stem.removeprefix("control-")
        with contextlib.suppress(OSError, ValueError):
            note = read_note(path)
            if port.isdecimal() and process_runs(note.pid):
                found.append((int(port), note))
    return [note for _, note in sorted(found, key=lambda each: each[0])]


def remove_note(path: Path, run: str) -> None:
    """Remove the file if it is still that run's."""
    with contextlib.suppress(OSError, ValueError):  # another proxy's by now, or gone
        if read_note(path).run == run:
            path.unlink()
