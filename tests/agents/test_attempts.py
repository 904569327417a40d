"""Attempts outlive whoever started them, run once, and tell how they ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hivemind.agents import shim
from hivemind.agents.attempts import Ended, TaskProcess, start

HANGS_S = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an attempt is to be made."""
    return tmp_path / "attempts" / "1"


def begin(folder: Path, *command: str) -> TaskProcess:
    """Start it, with its log beside the folder."""
    return start(folder, command, cwd=folder.parents[1], environ=os.environ, log=folder.parents[1] / "log")


def end_of(attempt: TaskProcess) -> Ended:
    """Its end."""

    async def wait() -> Ended:
        async with asyncio.timeout(HANGS_S):
            return await attempt.ended()

    return asyncio.run(wait())


def until(true: Callable[[], bool]) -> None:
    """Wait until it is so."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < HANGS_S
        time.sleep(0.005)


def until_it_says(folder: Path, word: str) -> None:
    """Wait until the command's log has it."""
    log = folder.parents[1] / "log"
    until(lambda: log.exists() and word in log.read_text())


def killed_runner(folder: Path, command: str) -> None:
    """A process of its own starts the command, and is killed as soon as the shim has it."""
    script = (
        "import os, signal, sys, time; from pathlib import Path; from hivemind.agents.attempts import start\n"
        "folder = Path(sys.argv[1])\n"
        "start(folder, ('sh', '-c', sys.argv[2]), cwd=folder.parents[1], environ=os.environ, "
        "log=folder.parents[1] / 'log')\n"
        "while not (folder / 'taken').exists(): time.sleep(0.005)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder), command], timeout=HANGS_S, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "code"),
    [(("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), -9), (("./nosuch",), 127)],
)
def test_ends(folder: Path, command: tuple[str, ...], code: int) -> None:
    """An attempt ends with its command's exit code, a signal's number, or what a shell says of one that isn't there."""
    found = end_of(begin(folder, *command))
    assert found.exit_code == code
    assert 0 < found.began <= found.ended


def test_not_executable(folder: Path, tmp_path: Path) -> None:
    """A file that can't be executed is 126, and the log says why."""
    (tmp_path / "plain").write_text("no program")
    assert (end_of(begin(folder, "./plain"))).exit_code == 126
    assert (tmp_path / "log").read_text() == "hivemind: ./plain: Permission denied\n"


def test_output(folder: Path, tmp_path: Path) -> None:
    """Both streams go to the end of the log, which nobody else may read, and there is nothing to read from."""
    (tmp_path / "log").write_text("before\n")
    (tmp_path / "log").chmod(0o600)
    end_of(begin(folder, "sh", "-c", "cat; echo out; echo err >&2"))
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_runs_once(folder: Path, tmp_path: Path) -> None:
    """A second shim for the same folder runs nothing, and neither does a second start."""
    end_of(begin(folder, "sh", "-c", "echo ran"))
    again = [sys.executable, "-I", "-S", shim.__file__, str(folder), "--", "sh", "-c", "echo again > more"]
    assert subprocess.run(again, cwd=tmp_path, timeout=HANGS_S, check=False).returncode == 3
    with pytest.raises(FileExistsError):
        begin(folder, "sh", "-c", "echo again > more")
    assert not (tmp_path / "more").exists()


def test_a_killed_runner_leaves_it_running(folder: Path, tmp_path: Path) -> None:
    """Whoever comes after kill -9 of a runner adopts what runs, and learns how it ends."""
    killed_runner(folder, "while [ ! -e go ]; do sleep 0.01; done; exit 5")
    attempt = TaskProcess(folder)
    assert attempt.look() is None
    (tmp_path / "go").touch()
    assert (end_of(attempt)).exit_code == 5
    assert (end_of(TaskProcess(folder))).exit_code == 5


@pytest.mark.parametrize("hard", [False, True])
def test_stops_what_it_adopted(folder: Path, hard: bool) -> None:
    """Adopted or not, SIGTERM reaches the command and its children, and so does SIGKILL."""
    killed_runner(folder, "sleep 60 & echo up; wait")
    until_it_says(folder, "up")
    attempt = TaskProcess(folder)
    attempt.stop(hard=hard)
    assert (end_of(attempt)).exit_code == (-signal.SIGKILL if hard else -signal.SIGTERM)
    attempt.stop()


def test_stops_its_own(folder: Path) -> None:
    """A command may end in good order on SIGTERM; its own exit code counts then."""
    attempt = begin(folder, "sh", "-c", "trap 'exit 4' TERM; echo up; while :; do sleep 0.01; done")
    until_it_says(folder, "up")
    attempt.stop()
    assert (end_of(attempt)).exit_code == 4


def test_a_shim_that_never_came(folder: Path, tmp_path: Path) -> None:
    """An attempt whose shim hasn't taken the folder, or that was only planned, is over when it is adopted; it runs
    nothing later, and can't be started any more."""
    planned = folder.with_name("2")
    assert TaskProcess(planned).look() == Ended(None)
    with pytest.raises(FileExistsError):
        begin(planned, "true")
    folder.mkdir(parents=True)
    assert TaskProcess(folder).look() == Ended(None)
    assert TaskProcess(folder).look() == Ended(None)
    late = [sys.executable, "-I", "-S", shim.__file__, str(folder), "--", "touch", "ran"]
    assert subprocess.run(late, cwd=tmp_path, timeout=HANGS_S, check=False).returncode == 3
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what a process is can't be told for sure here")
def test_a_shim_that_was_killed(folder: Path) -> None:
    """Nobody knows how such an attempt ended, and its command doesn't go on beside the next one."""
    attempt = begin(folder, "sh", "-c", "echo $$; exec sleep 60")
    until_it_says(folder, "\n")
    command = int((folder.parents[1] / "log").read_text())
    until(lambda: len((folder / "taken").read_text().splitlines()) == 2)
    os.kill(int((folder / "taken").read_text().split()[0]), signal.SIGKILL)
    assert end_of(attempt) == Ended(None)
    status = Path(f"/proc/{command}/status")
    until(lambda: not status.exists() or "\nState:\tZ" in status.read_text())
