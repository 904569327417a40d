"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hivemind.errors import UsageError

DRAFT_SUFFIX = ".draft"
DRAFT_OLD_S = 3600.0
"""What is left of a write that was interrupted is removed after so long."""


@contextmanager
def written_whole(path: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces what is at the path once it is closed without an error.

    Old drafts of the same file, which a kill leaves, are removed. Raises: OSError, which names the file.
    """
    beginning = f".{path.name[:200]}."
    draft = path.with_name(f"{beginning}{secrets.token_hex(4)}{DRAFT_SUFFIX}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
        draft.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a write to a full disk names none
        raise
    finally:
        draft.unlink(missing_ok=True)
        with suppress(OSError), os.scandir(path.parent) as entries:
            for entry in entries:
                if entry.name.startswith(beginning) and entry.name.endswith(DRAFT_SUFFIX):
                    remove_if_old(entry)


def remove_if_old(draft: os.DirEntry[str]) -> None:
    """Remove a draft that no program can be writing any more."""
    with suppress(OSError):  # gone already
        if time.time() - draft.stat().st_mtime > DRAFT_OLD_S:
            os.unlink(draft.path)


@contextmanager
def output_file(path: Path, shown: str) -> Iterator[IO[bytes]]:
    """Do as :func:`written_whole`, for a file that the user named. Raises: UsageError: it can't be written."""
    if path.is_dir():
        raise UsageError(f"{shown}: can't be written (is a folder)")
    try:
        with written_whole(path) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{shown}: can't be written ({error.strerror or error})") from None
