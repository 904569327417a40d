"""Starts one command and notes how it ended, also if its runner is gone by then.

A program of its own that uses only the standard library, so that it starts quickly (see :mod:`.attempts`)::

    python -I -S shim.py FOLDER -- COMMAND...

It takes the folder before it starts anything, so the same attempt never runs twice. On Linux, processes that outlive
their parent stay its descendants while the command runs. SIGTERM, SIGINT and SIGHUP are
passed on to the command's process group, SIGUSR1 kills it. Standard output and error are the command's.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

TAKEN, ENDED = "taken", "ended"
"""Files of an attempt's folder: its shim (locked while the shim lives), and how the command ended."""
NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of commands that couldn't be started, as in a shell."""
GATE = "HIVEMIND_SHIM_GATE"
"""Variable with the file descriptor whose end the command waits for; unset: it doesn't wait."""
_PR_SET_CHILD_SUBREAPER = 36
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WAITED_FOR = {signal.SIGCHLD, signal.SIGUSR1, *_PASSED_ON}


def main(argv: list[str]) -> int:
    """Return 0 once the command has ended, 3 if the folder is taken already."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    signal.signal(signal.SIGCHLD, _ignored)  # else some systems drop the signal
    folder, command = argv[0], argv[2:]
    lock = take(folder, f"{os.getpid()}\n")
    if lock is None:
        return 3
    _await_place()
    _adopt_orphans()
    began = time.time()
    code = _run(command, lock)
    write(os.path.join(folder, ENDED), f"{code} {began:.3f} {time.time():.3f}\n")
    os.close(lock)
    return 0


def _await_place() -> None:
    """Wait until the runner has told the proxy which process this is, or is gone: from then on what the command sends
    is known to be its run's."""
    gate = os.environ.pop(GATE, "")
    if gate:
        os.read(int(gate), 1)
        os.close(int(gate))


def _adopt_orphans() -> None:
    """Become the parent of what the command leaves behind, on Linux (a child subreaper)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take(folder: str, text: str) -> int | None:
    """Create the folder's file with that text, locked from the beginning. Return the open file, which holds the lock;
    None if the file exists already."""
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
    """Write a file and sync it to the disk, whole or not at all."""
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
    """Run the command, and note its process in an open file. Return its exit code; negative: the signal's number."""
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
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)  # the command's, and processes that it left behind
                if pid == child:
                    return os.waitstatus_to_exitcode(status)
                if pid == 0:
                    break
        else:
            # The child isn't reaped yet, so its group is still its own.
            os.killpg(child, signal.SIGKILL if number == signal.SIGUSR1 else number)


def started(pid: int) -> str:
    """Return when a process was started, which tells it from a later one with its number; empty: unknown
    (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html, field 22)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _ignored(number: int, frame: object) -> None:
    """Do nothing: the signal is waited for."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
