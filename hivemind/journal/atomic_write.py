"""Files that appear whole or not at all, readable by their owner alone."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hivemind.errors import UsageError


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of whatever is at the path once it is closed without an error.

    Raises: UsageError: it can't be written.
    """
    if path.is_dir():
        raise UsageError(f"{path}: can't be written (is a folder)")
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{path}: can't be written ({error.strerror or error})") from None
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
