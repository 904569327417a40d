"""The folder of shims at the front of a run's PATH: a script for each known client that is installed.

Variables don't reach every client: Codex reads none, and settings files of others override them. What shims don't reach
either is noticed at the run's end, by a count of its requests (:meth:`hivemind.world.world.World.traffic`). A client
that isn't there gets none, so that `command -v codex` in a run tells the truth.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from hivemind.agents.clients import shim
from hivemind.agents.clients.known import PROGRAMS
from hivemind.agents.clients.launchers import LAUNCHERS
from hivemind.text.shells import quoted

START = (sys.executable, "-I", "-S", os.path.abspath(shim.__file__))
"""Starts the shim; its arguments follow. Without site-packages, which it doesn't need, it takes half the time."""
_FILES_KEPT_S = 30 * 86400.0
"""How long files of settings are kept that a call was given; a client may read them again while it runs."""


def path_without_shims(path: str) -> str:
    """Return a PATH without the folders of shims."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if not shim.is_shims(entry or os.curdir))


def shims_for(state: Path, path: str) -> Path | None:
    """Return the folder of shims for the clients on this PATH, which is made if it isn't there; None: it can't be."""
    names = [name for name in (*PROGRAMS, *LAUNCHERS) if shim.next_program(name, path) is not None]
    digest = hashlib.sha256("\0".join((*START, *names)).encode(errors="surrogateescape")).hexdigest()[:12]
    folder = state.expanduser().absolute() / "shims" / digest
    try:
        if not folder.is_dir():
            _make(folder, names)
        _remove_old(folder)
    except OSError:
        return None
    return folder


def _make(folder: Path, names: list[str]) -> None:
    """Make the folder, whole or not at all."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    words = " ".join(quoted("bash", word) for word in (*START, str(folder)))
    start = f'exec {words} "${{LC_CTYPE-}}"'
    try:
        for name in names:
            (draft / name).write_text(f'#!/bin/sh\n{start} {name} "$@"\n', "utf-8", "surrogateescape")
            (draft / name).chmod(0o700)
        (draft / shim.MARK).touch()
        draft.rename(folder)
    except OSError:  # the disk is full, too
        shutil.rmtree(draft)
        if not folder.is_dir():  # else another runner has just made it
            raise


def _remove_old(folder: Path) -> None:
    until = time.time() - _FILES_KEPT_S
    for file in folder.glob("*-*.*"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < until:
                file.unlink()
