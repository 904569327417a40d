"""Attempts at a command that outlive whoever started them: started, waited for, adopted, stopped.

Each has a folder of its own, which its shim (:mod:`.shim`) takes before it starts the command, and in which it writes
down how the command ended. So a runner that begins anew finds out what became of an attempt, or goes on waiting for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hivemind.agents import shim

_LOOK_EVERY_S = 0.1
"""Where the system doesn't say when a process ends."""
_SHIM = (sys.executable, "-I", "-S", shim.__file__)
"""Without site-packages: it needs none, and is there in a fortieth of a second."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    exit_code: int | None
    """Negative: the number of the signal that ended it; None: it never ran, or nobody saw its end."""
    began: float = 0.0
    """Time of day, in seconds since the epoch; 0 where nobody knows."""
    ended: float = 0.0
    """Likewise."""


class TaskProcess:
    """One of them. Made by :func:`start` and :func:`adopt`."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.folder = folder
        self._process = process
        self._ended: Ended | None = None

    def look(self) -> Ended | None:
        """How it ended; None while it runs. What a shim that was killed has left running is killed.

        Raises: OSError: the folder can't be read.
        """
        if self._ended is None:
            self._ended = self._look()
        return self._ended

    async def ended(self) -> Ended:
        """Wait for the end. Raises: OSError."""
        while (found := self.look()) is None:
            await self._change()
        return found

    def stop(self, *, hard: bool = False) -> None:
        """Ask the command and all in its process group to end (SIGTERM), or end them (`hard`: SIGKILL)."""
        number = signal.SIGUSR1 if hard else signal.SIGTERM
        if self._process is not None:
            self._process.send_signal(number)  # which looks first whether it is still the same process
            return
        pid = self._shim()
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if not hasattr(os, "pidfd_open"):
                os.kill(pid, number)
                return
            handle = os.pidfd_open(pid)
            try:
                if self._locked():  # so the process that we hold is the shim, and no later one of its number
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def _look(self) -> Ended | None:
        if self._process is not None:
            if self._process.poll() is None:
                return None
            return self._result() or self._lost()
        if (found := self._result()) is not None:
            return found
        if not (self.folder / shim.TAKEN).exists():
            # Its shim hasn't come so far, and won't run anything if it still does.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = shim.take(str(self.folder), "")
            if lock is not None:
                os.close(lock)
        if self._locked():
            return None
        return self._result() or self._lost()

    def _result(self) -> Ended | None:
        try:
            code, began, ended = (self.folder / shim.ENDED).read_text("ascii").split()
        except FileNotFoundError:
            return None
        return Ended(int(code), float(began), float(ended))

    def _lost(self) -> Ended:
        """Its shim is gone and has left no result, so what it started must not go on beside the next attempt."""
        pid, was_started = self._noted(1)
        if pid and was_started and shim.started(int(pid)) == was_started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)
        return Ended(None)

    def _locked(self) -> bool:
        try:
            file = os.open(self.folder / shim.TAKEN, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def _shim(self) -> int | None:
        """Its process; None where none has taken the folder."""
        pid, _ = self._noted(0)
        return int(pid) if pid else None

    def _noted(self, line: int) -> tuple[str, str]:
        """A process and when it was started, as far as they are noted."""
        try:
            lines = (self.folder / shim.TAKEN).read_text("ascii").splitlines()
        except FileNotFoundError:
            return "", ""
        pid, _, when = (lines[line] if line < len(lines) else "").partition(" ")
        return pid, when

    async def _change(self) -> None:
        """Until its shim may have ended."""
        pid = self._process.pid if self._process is not None else self._shim()
        try:
            handle = None if pid is None or not hasattr(os, "pidfd_open") else os.pidfd_open(pid)
        except ProcessLookupError:
            handle = None
        if handle is None:
            await asyncio.sleep(_LOOK_EVERY_S)
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(handle, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)


def start(folder: Path, command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], log: Path) -> TaskProcess:
    """Start a command, in a session of its own, with the end of `log` for its output and nothing to read.

    The folder is made for it. A command that can't be started ends with 127 or 126, as in a shell, and its log says
    why. Raises: OSError: the folder is there already (FileExistsError), or something else can't be made or opened.
    """
    folder.mkdir(mode=0o700, parents=True)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
        process = subprocess.Popen(
            (*_SHIM, str(folder.absolute()), "--", *command),
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return TaskProcess(folder, process)


def adopt(folder: Path) -> TaskProcess:
    """The attempt that an earlier runner started in that folder.

    One whose shim hasn't come so far will not run any more.
    """
    return TaskProcess(folder)
