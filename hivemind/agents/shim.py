"""Starts one command and writes down how it ended, whatever becomes of whoever wanted it.

Run as a program of its own (:mod:`.attempts` does), with the standard library alone, so that it is there at once::

    python -I -S shim.py FOLDER -- COMMAND...

It takes the folder for itself before it starts anything, so the same attempt never runs twice. SIGTERM, SIGINT and
SIGHUP are passed on to the command's process group, SIGUSR1 kills it. Standard output and error are the command's.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

TAKEN, ENDED = "taken", "ended"
"""Files of an attempt's folder: who has it (locked for as long as the shim lives), and how it ended."""
NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of commands that couldn't be started, as in a shell."""
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WAITED_FOR = {signal.SIGCHLD, signal.SIGUSR1, *_PASSED_ON}


def main(argv: list[str]) -> int:
    """Returns 0 once the command has ended, however it did; 3 where somebody has the folder already."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    signal.signal(signal.SIGCHLD, _noted)  # else some systems drop it, because by default nothing is done about it
    folder, command = argv[0], argv[2:]
    lock = take(folder, f"{os.getpid()}\n")
    if lock is None:
        return 3
    began = time.time()
    code = _run(command, lock)
    write(os.path.join(folder, ENDED), f"{code} {began:.3f} {time.time():.3f}\n")
    os.close(lock)
    return 0


def take(folder: str, text: str) -> int | None:
    """Make the folder's file of that text, locked from its first moment on. Returns the open file, which holds the
    lock; None where there is one already."""
    draft = os.path.join(folder, f".{TAKEN}.{os.getpid()}")
    lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, text.encode())
        os.link(draft, os.path.join(folder, TAKEN))
    except FileExistsError:
        os.close(lock)
        return None
    finally:
        os.unlink(draft)
    return lock


def write(path: str, text: str) -> None:
    """Write a file, whole or not at all; it is on the disk when this returns."""
    draft = f"{path}.{os.getpid()}"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(file, text.encode())
    os.fsync(file)
    os.close(file)
    os.rename(draft, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _run(command: list[str], note: int) -> int:
    """The command's exit code; negative: the number of the signal that ended it. Which process it is gets noted in an
    open file."""
    try:
        child = os.posix_spawnp(
            command[0], command, os.environ, setpgroup=0, setsigmask=(), setsigdef=(signal.SIGCHLD, signal.SIGPIPE)
        )
    except OSError as error:
        os.write(2, f"hivemind: {command[0]}: {error.strerror}\n".encode())
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
    os.write(note, f"{child} {started(child)}\n".encode())
    while True:
        number = signal.sigwait(_WAITED_FOR)
        if number == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        else:
            # The child isn't reaped yet, so its group is still its own.
            os.killpg(child, signal.SIGKILL if number == signal.SIGUSR1 else number)


def started(pid: int) -> str:
    """When a process was started, so that it isn't taken for a later one of its number; empty where that isn't known
    (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html, field 22)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _noted(number: int, frame: object) -> None:
    """For a signal that is waited for."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
