"""Checking settings in a process that ends, so that the one that goes on doesn't keep pydantic in memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from hivemind.settings.model import Settings
from hivemind.settings.sections import BadSetting


def checked_here(values: Mapping[str, Any]) -> Settings:
    """Return a record of all settings with these values, as :func:`hivemind.settings.checks.checked`.

    Raises: BadSetting: the first one that can't be.
    """
    from hivemind.settings.checks import checked

    return checked(values)


def checked_apart(values: Mapping[str, Any], meanwhile: Callable[[], object]) -> Settings:
    """Return the same, from a process that is forked for it where that is safe; this one does something `meanwhile`.

    Raises: BadSetting, as :func:`checked_here`.
    """
    found = _from_a_fork(values, meanwhile) if _forks() else None
    if isinstance(found, BadSetting):
        raise found
    return found or checked_here(values)


def _forks() -> bool:
    """Return whether a fork is safe and of use. On macOS it may crash in the system's libraries."""
    return sys.platform == "linux" and threading.active_count() == 1 and "pydantic" not in sys.modules


def _from_a_fork(values: Mapping[str, Any], meanwhile: Callable[[], object]) -> Settings | BadSetting | None:
    """Return None if there is no room for another process, or it ended without an answer."""
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if not child:
        try:
            os.write(writer, pickle.dumps(_answer(values)))
        finally:
            os._exit(0)  # nothing of this process is to be flushed or cleaned up twice
    os.close(writer)
    meanwhile()
    with open(reader, "rb") as pipe:
        written = pipe.read()
    with contextlib.suppress(ChildProcessError):  # the starter of this process has children reaped by the system
        os.waitpid(child, 0)
    found: Settings | BadSetting | None = pickle.loads(written) if written else None
    return found


def _answer(values: Mapping[str, Any]) -> Settings | BadSetting:
    try:
        return checked_here(values)
    except BadSetting as error:
        return error
