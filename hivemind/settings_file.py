"""Finding `hivemind.toml` as git finds a repository: in the working directory, else in the nearest folder above it; and
which settings of earlier versions may still stand in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

NAME = "hivemind.toml"
_ROOT = 0
_MOST_DOTS = 1_000
"""In a line. A key of 30,000 parts, which has as many, takes tomllib 40 s and gigabytes."""
REMOVED: Mapping[str, Any] = {
    "aimd.update_interval_s": None,
    "aimd.window": None,
    "feedback": None,
    "feedback.enabled": False,
    "max_unfinished": None,
    "mcp.names": None,
    "queue.max_passes": None,
    "retry.budget_rate_per_s": None,
    "retry.budget_reserve": None,
    "retry.stagger_s": None,
    "workers": None,
}
"""Settings, and whole sections, of earlier versions, by their dotted names. Files and variables may still have them.

The values are what holds now in place of those that simulations of older journals can't have any more, so that such a
journal can say so.
"""


def is_removed(path: tuple[str, ...]) -> bool:
    """Return whether a setting of that name was in an earlier version."""
    return path[0] in REMOVED or ".".join(path) in REMOVED


def removed_in(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of removed settings that a configuration of an earlier version has at another value than now."""
    for name, now in REMOVED.items():
        section, _, key = name.rpartition(".")
        values = config.get(section, {}) if section else config
        if now is not None and isinstance(values, Mapping) and values.get(key, now) != now:
            yield name


def find_settings_file(cwd: Path, say: Callable[[str], object] = lambda _: None) -> Path | None:
    """Return the nearest file of that name that is this user's or root's; None if there is none.

    The search ends at the border of the file system. A file of another user isn't taken, since it could send requests
    and their keys anywhere; `say` is called with a line about it, and the search ends there too. One that is taken may
    still come from somebody else, with a repository: see :mod:`hivemind.store.trust`.
    """
    try:
        device = cwd.stat().st_dev
    except OSError:
        return None
    for folder in (cwd, *cwd.parents):
        path = folder / NAME
        try:
            if folder.stat().st_dev != device:
                return None
            owner = path.stat().st_uid
        except OSError:
            continue  # none is there, or it isn't ours to see
        if may_own(owner):
            return path
        say(f"{path} belongs to another user, so it isn't read; name it with --config if it is to be")
        return None
    return None


def may_own(user: int) -> bool:
    """Return whether files of this user are taken: they are the caller's, root's, or of who became root by sudo."""
    caller = os.geteuid()
    behind = os.environ.get("SUDO_UID", "")
    return user in (_ROOT, caller) or (caller == _ROOT and behind.isdecimal() and user == int(behind))


def from_its_folder(path: Path, given: str) -> str:
    """Return a path that stands in a file that was found, which means the same from wherever it was found."""
    return given if given.startswith("~") else str(path.parent / given)


def parsed(text: str) -> dict[str, Any]:
    """Return what a settings file says, within bounds of time and depth.

    Raises: ValueError: it isn't TOML; the text says why.
    """
    import tomllib  # on demand: mostly there is no such file

    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"not TOML of settings: a line has more than {_MOST_DOTS:,} dots")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {str(error)[:1].lower()}{str(error)[1:]}") from None
    except RecursionError:
        raise ValueError("not TOML of settings: it is nested too deeply") from None
    except ValueError:  # Python's own bound on the digits of a number
        raise ValueError("not TOML of settings: a number has too many digits") from None
