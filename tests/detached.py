"""Detached proxies that a test's programs started: found by their log, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAM = b"hivemind.host.detached.process"
_ENDS_WITHIN_S = 10


def detached_in(folder: Path) -> list[int]:
    """Return the process ids of those whose log is in that folder or below; none on systems without /proc."""
    return [pid for pid in _detached() if _log_of(pid).startswith(f"{folder}{os.sep}")]


def detached_with(variable: str) -> list[int]:
    """Return those with that variable of that value (`NAME=value`) in their environment."""
    return [pid for pid in _detached() if variable.encode() in _read(pid, "environ").split(b"\0")]


def end_all(pids: list[int]) -> None:
    """Kill them, and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + _ENDS_WITHIN_S
    while any(PROGRAM in _read(pid, "cmdline") for pid in pids) and time.monotonic() < until:
        time.sleep(0.01)


def _detached() -> Iterator[int]:
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and PROGRAM in _read(int(name), "cmdline").split(b"\0"):
            yield int(name)


def _log_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/1")
    return ""


def _read(pid: int, what: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{what}").read_bytes()
    return b""
