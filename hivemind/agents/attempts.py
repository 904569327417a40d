"""Attempts at a command that outlive the runner that started them.

Each has a folder, which its shim (:mod:`.shim`) takes before it starts the command, and in which the shim notes how the
command ended. So a restarted runner knows the result of an attempt, or continues to wait for it. The proxy commits a
claim before it answers, under an id that is used once and names the folder; so of each claimed task a later runner
knows whether it never began, runs, has ended or was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hivemind.agents import shim
from hivemind.store.locks import is_locked

_LOOK_EVERY_S = 0.1
"""Polling interval on systems without pidfd."""
_SHIM = (sys.executable, "-I", "-S", shim.__file__)
"""Without site-packages, which it doesn't need: so it starts in 25 ms."""


class Ended(Struct, frozen=True):
    """How an attempt ended."""

    exit_code: int | None
    """Negative: the number of the signal that ended it; None: unknown, or it never ran."""
    began: float = 0.0
    """Seconds since the epoch; 0: unknown. The end likewise."""
    ended: float = 0.0


class TaskProcess:
    """An attempt, started by this runner (:func:`start`) or, without `process`, by an earlier one. If the shim hasn't
    taken the folder by then, it won't start the command."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes] | None = None, gate: int = -1) -> None:
        """`gate`: a file to close when the command may start."""
        self.folder = folder
        self._process = process
        self._gate = gate
        self._ended: Ended | None = None

    @property
    def identity(self) -> str:
        """The shim as of :attr:`.PlaceRequest.process`: the command and its descendants stay its own; empty: it's gone,
        or the system doesn't tell."""
        pid = self._process.pid if self._process is not None else self._noted(0)[0]
        return f"{pid} {when}" if pid is not None and (when := shim.started(pid)) else ""

    def begin(self) -> None:
        """Let the command start, once the proxy knows its process."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def look(self) -> Ended | None:
        """Return how it ended; None while it runs. If its shim was killed, the command is killed too.

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
        """Send SIGTERM, or (`hard`) SIGKILL, to the command's process group."""
        number = signal.SIGUSR1 if hard else signal.SIGTERM
        if self._process is not None:
            self._process.send_signal(number)  # checks that it is still the same process
            return
        pid = self._noted(0)[0]
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if not hasattr(os, "pidfd_open"):
                os.kill(pid, number)
                return
            handle = os.pidfd_open(pid)
            try:
                if self._locked():  # then the process is the shim, and not a later one with its number
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
            # The shim hasn't come so far. Once the folder is taken, it won't start the command.
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
        """Kill the command of a shim that is gone without a result: it must not run beside the next attempt."""
        pid, was_started = self._noted(1)
        if pid is not None and was_started and shim.started(pid) == was_started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        return Ended(None)

    def _locked(self) -> bool:
        return is_locked(self.folder / shim.TAKEN)

    def _noted(self, line: int) -> tuple[int | None, str]:
        """Return the process of the shim (line 0) or the command (1) and when it was started, if they are noted."""
        try:
            lines = (self.folder / shim.TAKEN).read_text("ascii").splitlines()
        except FileNotFoundError:
            return None, ""
        pid, _, when = (lines[line] if line < len(lines) else "").partition(" ")
        return int(pid) if pid else None, when

    async def _change(self) -> None:
        """Wait until the shim may have ended."""
        pid = self._process.pid if self._process is not None else self._noted(0)[0]
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


def start(
    folder: Path,
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    log: Path,
    kept: tuple[int, ...] = (),
    held: bool = False,
) -> TaskProcess:
    """Start a command in a session of its own. Its output is appended to `log`, its input is empty, and it inherits the
    open files `kept`.

    `held`: it waits for :meth:`TaskProcess.begin`.

    The folder is created. A command that can't be started ends with 127 or 126, as in a shell, and its log says why.
    Raises: OSError: the folder exists already (FileExistsError), or a file can't be created or opened.
    """
    folder.mkdir(mode=0o700, parents=True)
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
        waits, gate = os.pipe()
        try:
            process = subprocess.Popen(
                (*_SHIM, str(folder.absolute()), "--", *command),
                cwd=cwd,
                env={**environ, shim.GATE: str(waits)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(*kept, waits),
            )
        except BaseException:
            os.close(gate)
            raise
        finally:
            os.close(waits)
    made = TaskProcess(folder, process, gate)
    if not held:
        made.begin()
    return made
