"""Writing a report: whole or not at all, and not over somebody else's file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from hivemind.errors import UsageError

MARKS = ('<meta name="generator" content="HiveMind report">', "<!-- HiveMind report -->")
"""By which a report is known again: a page's, and a summary's."""
_LOOKED_AT = 4096


def check_writable(path: Path, *, force: bool) -> None:
    """Raises: UsageError: nothing may be written there."""
    shown = _shown(path)
    if path.is_dir():
        raise UsageError(f"{shown}: is a folder")
    if not path.parent.is_dir():
        raise UsageError(f"{shown}: there is no folder {_shown(path.parent)}")
    if path.exists() and not force and not _ours(path):
        raise UsageError(f"{shown}: is there already, and isn't a report; --force writes over it")


def write(path: Path, text: str) -> None:
    """Write it there. Raises: UsageError: that can't be done."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text.encode())  # a device or a pipe stays what it is
            return
        real = path.resolve()  # a link stays one
        draft = real.with_name(f".{real.name[:100]}.{secrets.token_hex(4)}.part")
        try:
            draft.write_bytes(text.encode())
            if real.exists():
                os.chmod(draft, real.stat().st_mode & 0o777)
            draft.replace(real)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{_shown(path)}: can't be written ({error.strerror})") from None


def _ours(path: Path) -> bool:
    if not path.is_file():
        return True
    try:
        with path.open("rb") as file:
            start = file.read(_LOOKED_AT).decode("utf-8", "replace")
    except OSError:
        return False
    return not start or any(mark in start for mark in MARKS)


def _shown(path: Path) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(path))
