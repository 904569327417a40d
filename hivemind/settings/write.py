"""Writing knobs into hivemind.toml: first what would change, then, once somebody has looked at it, the file."""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from hivemind.errors import UsageError
from hivemind.redaction.text import redact
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.settings.edit import edited
from hivemind.settings.layers import from_text
from hivemind.settings.load import from_file_alone
from hivemind.settings.options import Option, options
from hivemind.text.suggest import did_you_mean

_HIDDEN = "***"
_DIGITS = 12
"""Of a number that is written: what a step of 0.1 leaves in the sixteenth is nobody's wish."""
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
        """The lines that differ with a few around them, as `diff -u` has them; empty where nothing would change.

        It is to be shown, so the values of settings that are secrets are masked.
        """
        before, after = (_masked(text).splitlines() for text in (self.before, self.after))
        old = str(self.path) if self.before else "/dev/null"
        return tuple(unified_diff(before, after, old, str(self.path), lineterm=""))


def draft(path: Path, values: Mapping[str, float]) -> Draft:
    """The file with these knobs set, everything else in it, comments too, as it was.

    Raises: Rejected: it can't be read, isn't TOML, or a value isn't one the settings take.
    """
    before = _read(path)
    numbers = {name: _number(name, value) for name, value in values.items()}
    try:
        from_text(before, str(path))
        after = edited(before, numbers)
        if not _is_whole(before, after, numbers):
            raise Rejected(f"{path}: its form doesn't allow {', '.join(values)} to be set alone; edit it by hand")
        from_file_alone(after, str(path))
    except UsageError as error:
        raise Rejected(str(error)) from None
    return Draft(path, before, after)


def write(draft: Draft) -> None:
    """Write it, whole or not at all. It waits for the disk, so an event loop gives it to a thread.

    Raises: Rejected: it can't be written, or isn't any more what was drafted on.
    """
    if _read(draft.path) != draft.before:
        raise Rejected(f"{draft.path}: has changed in the meantime; look at the difference again")
    if draft.after == draft.before:
        return
    target = Path(os.path.realpath(draft.path))
    try:
        _replace(target, draft.after.encode())
    except OSError as error:
        raise Rejected(f"{draft.path}: can't be written ({error.strerror})") from None


def _read(path: Path) -> str:
    """The text with its own line ends; empty where there is no file but a folder to make one in.

    Raises: Rejected.
    """
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise Rejected(f"{path}: is {'a directory' if stat.S_ISDIR(kind) else 'no regular file'}")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            raise Rejected(f"{path}: can't be written ({folder} is no folder)") from None
        return ""
    except OSError as error:
        raise Rejected(f"{path}: can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise Rejected(f"{path}: can't be read (not UTF-8)") from None


def _replace(target: Path, content: bytes) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is read-only")
    beside = target.with_name(f".hivemind-{uuid.uuid4().hex}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _number(name: str, value: float) -> int | float:
    """As it is written; whole where it is. Raises: Rejected: there is no such knob, or it is no number."""
    if name not in KNOBS:
        raise Rejected(f"{name}: no such knob{did_you_mean(name, KNOBS)}")
    if not math.isfinite(value):
        raise Rejected(f"{name} {value}: must be a finite number")
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def _is_whole(before: str, after: str, numbers: Mapping[str, int | float]) -> bool:
    """Whether the numbers, and nothing else, are what differs in meaning."""
    content: dict[str, Any] = tomllib.loads(before)
    for name, number in numbers.items():
        table, _, key = name.rpartition(".")
        (content.setdefault(table, {}) if table else content)[key] = number
    try:
        return tomllib.loads(after) == content
    except tomllib.TOMLDecodeError:
        return False


def _masked(text: str) -> str:
    """The text without the values of secret settings, whether they are in force or commented out."""
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
    """A pattern for the setting's key, in its table or dotted."""
    *before, last = (rf"""["']?{part}["']?""" for part in option.path)
    dotted = "".join(rf"(?:{part}[ \t]*\.[ \t]*)?" for part in before) + last
    return dotted + (r"""(?:[ \t]*\.[^=\n]*)?""" if option.kind is dict else "")


def _table(option: Option) -> re.Pattern[str]:
    """A pattern for a table of secrets: its header, and all that follows to the next one."""
    name = r"[ \t]*\.[ \t]*".join(rf"""["']?{part}["']?""" for part in option.path)
    return re.compile(rf"(^[ \t#]*\[[ \t]*{name}[ \t]*\][^\n]*\n)((?:(?![ \t#]*\[)[^\n]*\n?)*)", re.MULTILINE)
