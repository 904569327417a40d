"""Which settings files the user trusts: for each a record in the state directory, of where it is and what it says.

A `hivemind.toml` that is found in the working directory or above may have come with a repository, and be as hostile as
its code. Until the user trusts it, only settings of pace and looks count from it (`AnyFile` in
:mod:`hivemind.settings.sections`). Trust is in a content at a place, so a file that changes, another copy and a link
from elsewhere ask again. The records are in the system's place for state, whatever `state_dir` says: a relative one
would be a folder that isn't trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from hivemind.settings_file import may_own
from hivemind.store.atomic import written_whole
from hivemind.store.locks import open_regular
from hivemind.store.token_file import state_dir
from hivemind.text.humanise import listed

MOST_BYTES = 64 << 10
"""A longer file that was found isn't read; of one that was named, which may have no end, 16 times as much."""
_NAMED = 8
"""Settings that a line names; the others are counted."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A settings file that was found, read once."""

    path: Path
    text: str = field(repr=False)
    trusted: bool = False
    changed: bool = False
    """It was trusted with another content."""
    problem: str = ""
    """Why it can't be read; empty: it was."""


class Ignored(Struct, frozen=True):
    """What doesn't count of a settings file that isn't trusted."""

    path: Path
    names: tuple[str, ...]
    """The settings; empty: nothing in it counts."""
    changed: bool = False
    problem: str = ""
    """Why nothing in it counts."""

    @property
    def upstream(self) -> bool:
        """Whether the file says, or may say, where requests go."""
        return not self.names or "upstream" in self.names

    @property
    def note(self) -> str:
        """What is ignored and which command trusts the file, in one line."""
        if self.problem:
            return f"{self._distrust}, so nothing in it counts; nor could it be trusted ({self.problem})"
        named = [*self.names[:_NAMED]]
        if (more := len(self.names) - _NAMED) > 0:
            named.append(f"{more} more")
        verb = "don't" if named[1:] else "doesn't"
        what = f"{listed(named, 'and')} in it {verb} count"
        return f"{self._distrust}, so {what}; look at it, then to trust it: hivemind trust"

    @property
    def refusal(self) -> str:
        """Why nothing starts where no upstream is given otherwise, and what would help, in one line."""
        if self.problem:
            what = f"{self._distrust}, and may name an upstream, but can't be read ({self.problem})"
            return f"{what}; mend it, or say where requests go with --upstream"
        return f"{self._distrust}, and no upstream is given but in it; look at it, then to trust it: hivemind trust"

    @property
    def _distrust(self) -> str:
        return f"{self.path} has changed since it was trusted" if self.changed else f"{self.path} isn't trusted"


def read_found(path: Path) -> FoundFile:
    """Read a file that was found, and look up whether this very content is trusted there."""
    own, known = _is_in_users_folder(path), _digest_on_record(path)
    text, problem = _text(path, found=True)
    trusted = own or (not problem and known == _digest(text))
    return FoundFile(path, text, trusted, changed=known is not None and not trusted, problem=problem)


def read_named(path: Path) -> FoundFile:
    """Read a file that the user named: anybody's, or what a pipe gives."""
    text, problem = _text(path, found=False)
    return FoundFile(path, text, trusted=True, problem=problem)


def _text(path: Path, *, found: bool) -> tuple[str, str]:
    """Return what it says, and why it can't be read; one of them is empty."""
    most, hint = (MOST_BYTES, "; name it with --config if it is to be read") if found else (MOST_BYTES << 4, "")
    try:
        with open_regular(path) if found else path.open("rb") as file:
            if found and not may_own(os.fstat(file.fileno()).st_uid):
                return "", "can't be read (it belongs to another user)"
            content = file.read(most + 1)
        if len(content) > most:
            return "", f"can't be read (more than {most >> 10} KiB{hint})"
        return content.decode(), ""
    except OSError as error:
        return "", f"can't be read ({error.strerror})"
    except UnicodeDecodeError:
        return "", "can't be read (not UTF-8)"


def _is_in_users_folder(path: Path) -> bool:
    """Return whether it stands in the user's own configuration folder, as `~/.config/hivemind`."""
    import platformdirs  # on demand, as in `state_dir`

    folder = platformdirs.user_config_path("hivemind")
    return folder.is_absolute() and os.path.realpath(path.parent) == os.path.realpath(folder)


# --- Records ----------------------------------------------------------------------------------------------------------


def place_of(path: Path) -> Path:
    """Return where a file is, without symbolic links on the way. One at the end stays: its folder counts, because paths
    in the file begin there."""
    return Path(os.path.realpath(path.parent), path.name)


def is_trusted(path: Path, text: str) -> bool:
    """Return whether this content is trusted there."""
    return _digest_on_record(path) == _digest(text)


def record(path: Path, text: str) -> None:
    """Trust this content there, in place of an earlier one. Raises: OSError."""
    file = _record_of(path)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with written_whole(file) as written:
        written.write(json.dumps({"path": str(place_of(path)), "sha256": _digest(text)}).encode() + b"\n")


def revoke(path: Path) -> bool:
    """Trust no content there any more; return whether one was. Raises: OSError."""
    try:
        _record_of(path).unlink()
    except FileNotFoundError:
        return False
    return True


def recorded() -> Iterator[Path]:
    """Yield the places on record, by name. Raises: OSError."""
    found = (_read(file) for file in _folder().glob("*.json"))
    yield from sorted(Path(path) for path, _ in filter(None, found))


def _folder() -> Path:
    folder = state_dir()
    if not folder.is_absolute():  # it would be one of the working directory
        raise OSError(f"the folder for state, {folder}, must be an absolute path")
    return folder / "trusted"


def _record_of(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(place_of(path))).hexdigest()
    return _folder() / f"{name[:32]}.json"


def _digest_on_record(path: Path) -> str | None:
    with suppress(OSError):
        known = _read(_record_of(path))
        if known is not None and known[0] == str(place_of(path)):
            return known[1]
    return None


def _read(file: Path) -> tuple[str, str] | None:
    """Return path and digest of a record; None: it can't be read."""
    try:
        found = json.loads(file.read_bytes())
        return str(found["path"]), str(found["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
