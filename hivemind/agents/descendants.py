"""Keeps what a runner's command starts among the runner's descendants, so that the proxy knows whose requests are a
run's; on Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Container, Iterator

from hivemind.agents.shim import started

_PR_SET_CHILD_SUBREAPER = 36
_adopts = False


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (a child subreaper), for the rest of this process.

    :func:`reap` must be called from time to time.
    """
    global _adopts
    if sys.platform == "linux":
        _adopts = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


@contextlib.contextmanager
def set_free() -> Iterator[None]:
    """Adopt nothing in this context: what loses its parent now is no descendant of this process any more."""
    if not _adopts:
        yield
        return
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def own_process() -> str:
    """Return this process as of :attr:`.PlaceRequest.process`; empty where descendants may escape from it."""
    pid = os.getpid()
    return f"{pid} {started(pid)}" if _adopts and started(pid) else ""


def reap(others: Container[int]) -> None:
    """Take the exit codes of adopted processes that have ended. Those of `others` are waited for elsewhere."""
    if not _adopts:
        return
    with contextlib.suppress(ChildProcessError):  # there are none
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in others:
                return  # it hides the others until it is waited for, which is now
            os.waitpid(ended.si_pid, 0)
