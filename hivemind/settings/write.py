"""Writing knobs into hivemind.toml in two steps: a draft whose difference can be shown, then the file."""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from hivemind.errors import UsageError
from hivemind.redaction.text import redact
from hivemind.scheduler.commands import Conflict, Rejected
from hivemind.scheduler.operator.knobs import KNOBS, check_range
from hivemind.settings.load import from_file_alone, from_text
from hivemind.settings.options import Option, options
from hivemind.store import trust
from hivemind.store.atomic import written_whole
from hivemind.text.humanise import did_you_mean

_HIDDEN = "***"
_DIGITS = 12
"""Significant digits of a number that is written, which drops rounding errors of floats."""
_NEW_FILE = 0o644


@dataclass(frozen=True, slots=True)
class Draft:
    """A settings file as it is and as it would be."""

    path: Path
    before: str = field(repr=False)
    """Empty where there is no file yet."""
    after: str = field(repr=False)

    @property
    def diff(self) -> tuple[str, ...]:
        """The difference, as of `diff -u`; empty if there is none.

        Values of secret settings are masked.
        """
        before, after = (_masked(text).splitlines() for text in (self.before, self.after))
        old = str(self.path) if self.before else "/dev/null"
        return tuple(unified_diff(before, after, old, str(self.path), lineterm=""))


def draft(path: Path, values: Mapping[str, float]) -> Draft:
    """Return the file with these knobs set, and everything else in it, comments too, unchanged.

    Raises: Rejected: it can't be read, isn't TOML, or a value isn't one the settings take.
    """
    before = _read(path)
    numbers = {name: _number(name, value) for name, value in values.items()}
    from hivemind.settings.edit import edited  # on demand, with tomlkit: few write their settings

    try:
        from_text(before, str(path))
        after = edited(before, numbers)
        if after is None or not _is_whole(before, after, numbers):
            raise Conflict(f"{path}: its form doesn't allow {', '.join(values)} to be set alone; edit it by hand")
        from_file_alone(after, str(path))
    except UsageError as error:
        raise Conflict(str(error)) from None
    return Draft(path, before, after)


def write(draft: Draft) -> None:
    """Write the file, completely or not at all; if it was trusted, it still is. Blocks on the disk, so an event loop
    calls it in a thread.

    Raises: Rejected: it can't be written, or has changed since the draft.
    """
    if _read(draft.path) != draft.before:
        raise Conflict(f"{draft.path}: has changed in the meantime; look at the difference again")
    if draft.after == draft.before:
        return
    target = Path(os.path.realpath(draft.path))
    trusted = trust.is_trusted(draft.path, draft.before)
    try:
        _replace(target, draft.after.encode())
    except OSError as error:
        raise Conflict(f"{draft.path}: can't be written ({error.strerror})") from None
    if trusted:
        with suppress(OSError):  # then it has to be trusted anew
            trust.record(draft.path, draft.after)


def _read(path: Path) -> str:
    """Return the text with its line ends; empty if there is no file yet, but a folder for it.

    Raises: Rejected.
    """
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise Conflict(f"{path}: is {'a directory' if stat.S_ISDIR(kind) else 'no regular file'}")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            raise Conflict(f"{path}: can't be written ({folder} is no folder)") from None
        return ""
    except OSError as error:
        raise Conflict(f"{path}: can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise Conflict(f"{path}: can't be read (not UTF-8)") from None


def _replace(target: Path, content: bytes) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is read-only")
    with written_whole(target, _NEW_FILE if mode is None else 0o600) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        if mode is not None:
            os.fchmod(file.fileno(), mode)


def _number(name: str, value: float) -> int | float:
    """Return the number to write, an integer if it is whole. Raises: Rejected: no such knob, or not finite."""
    if name not in KNOBS:
        raise Rejected(f"{name}: no such knob{did_you_mean(name, KNOBS)}")
    if not math.isfinite(value):
        raise Rejected(f"{name} {value}: must be a finite number")
    check_range(KNOBS[name], value)
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def _is_whole(before: str, after: str, numbers: Mapping[str, int | float]) -> bool:
    """Return whether the meaning of the text changed by these numbers only."""
    content: dict[str, Any] = tomllib.loads(before)
    for name, number in numbers.items():
        table, _, key = name.rpartition(".")
        (content.setdefault(table, {}) if table else content)[key] = number
    try:
        return tomllib.loads(after) == content
    except tomllib.TOMLDecodeError:
        return False


def _masked(text: str) -> str:
    """Return the text with the values of secret settings masked, those commented out too."""
    keys = "|".join(_written(option) for option in options() if option.secret)
    key = rf"""^([ \t#]*(?:{keys})[ \t]*=[ \t]*)"""
    for value in (r"(\"{3}|'{3})[\s\S]*?\2", r".+$"):
        text = re.sub(key + value, rf"\1{_HIDDEN}", text, flags=re.MULTILINE)
    for option in options():
        if option.kind is dict:
            text = _table(option).sub(lambda found: found[1] + _ENTRY.sub(rf"\1{_HIDDEN}", found[2]), text)
    return redact(text, None)


_ENTRY = re.compile(r"^([^=\n]*=[ \t]*).+$", re.MULTILINE)


def _written(option: Option) -> str:
    """Return a pattern for the setting's key, in its table or dotted."""
    *before, last = (rf"""["']?{part}["']?""" for part in option.path)
    dotted = "".join(rf"(?:{part}[ \t]*\.[ \t]*)?" for part in before) + last
    return dotted + (r"""(?:[ \t]*\.[^=\n]*)?""" if option.kind is dict else "")


def _table(option: Option) -> re.Pattern[str]:
    """Return a pattern for a table of secrets: its header, and all lines up to the next one."""
    name = r"[ \t]*\.[ \t]*".join(rf"""["']?{part}["']?""" for part in option.path)
    return re.compile(rf"(^[ \t#]*\[[ \t]*{name}[ \t]*\][^\n]*\n)((?:(?![ \t#]*\[)[^\n]*\n?)*)", re.MULTILINE)
