"""Whether a name is that of other programs' recordings, from which a journal is made first."""

from __future__ import annotations

import os
from pathlib import Path

from hivemind.journal.codec import BOM
from hivemind.journal.files import LATEST
from hivemind.journal.read.reader import opened

_HEAD = 1 << 16


def is_recording(text: str) -> bool:
    """Whether this is a folder, a pattern of paths, or a file that isn't a journal but a recording that is read.

    `latest` never is, whatever has that name. Raises: UsageError: the file can't be read.
    """
    path = Path(os.path.expanduser(text))
    if path.is_dir():
        return text != LATEST
    if not path.exists():
        return os.sep in text and any(sign in text for sign in "*?[")
    if text == LATEST or not path.is_file():
        return False
    with opened(path) as file:
        head = file.read(_HEAD).removeprefix(BOM).lstrip()
    if not head or head.startswith(b'{"v":'):
        return False
    from hivemind.journal.importers.sources import is_known  # slow to import, and most files are journals

    return is_known(path)
