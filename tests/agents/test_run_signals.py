"""Signals and keys reach the command of `hivemind run` once, and the runner outlives it."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from agents.running import HANGS_S, Place, at, before, ended, providing
from ports import unused_port
from waiting import until

pytestmark = pytest.mark.e2e

COUNTS = """\
import os, signal, sys, time
came = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda number, _: (came.append(number), open(f"came-{len(came)}", "w").close()))
open("up", "w").close()
until = time.monotonic() + 60
while len(came) < int(sys.argv[1]) and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.2)  # for one too many
print(*came, os.isatty(0), flush=True)
sys.exit(7)
"""
"""A command that takes signals as a program does that asks back, and tells which."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
async def test_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    """Without a terminal whatever comes to the runner goes to the command, whose exit code counts; it hasn't died."""
    (tmp_path / "counts.py").write_text(COUNTS)
    async with before(tmp_path) as (running, place):
        run = await place.run("--name", "alice", "--", "python", "counts.py", "2")
        await until((tmp_path / "up").exists)
        run.send_signal(number)
        await until((tmp_path / "came-1").exists)
        run.send_signal(number)
        ran = await ended(run)
        (alice,) = running.proxy.snapshot().agents
    assert (alice.state, alice.exit_code) == ("ended", 7)
    assert (ran.code, ran.out.split()[:-1]) == (7, [str(int(number))] * 2), ran.err
    assert "alice: exit code 7 after" in ran.err


@asynccontextmanager
async def bringing(folder: Path) -> AsyncIterator[Place]:
    """Where no proxy runs, so that the first run starts one."""
    async with (
        providing() as (_, upstream),
        at(folder, HIVEMIND_UPSTREAM=upstream, HIVEMIND_PORT=f"{unused_port()}") as it,
    ):
        yield it


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of one."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        for end in (ours, theirs):
            try:
                os.close(end)
            except OSError:
                continue


async def test_keys_of_the_terminal(tmp_path: Path) -> None:
    """Ctrl-C at a terminal reaches the command once each time, a second one too, and the runner tells how it ended."""
    (tmp_path / "counts.py").write_text(COUNTS)
    async with before(tmp_path) as (_, place):
        with terminal() as (ours, theirs):
            run = await place.run_at(theirs, "--name", "alice", "--", "python", "counts.py", "2")
            await until((tmp_path / "up").exists)
            os.write(ours, b"\x03")
            await until((tmp_path / "came-1").exists)
            os.write(ours, b"\x03")
            async with asyncio.timeout(HANGS_S):
                code = await run.wait()
            shown = os.read(ours, 1 << 16).decode()
    assert code == 7
    assert "2 2 True" in shown
    assert "alice: exit code 7 after" in shown


async def test_interrupted(tmp_path: Path) -> None:
    """The exit code of a run that started the proxy is a shell's for the signal."""
    async with bringing(tmp_path) as place:
        run = await place.run("--name", "alice", "--", "sh", "-c", "touch up; exec sleep 60")
        await until((tmp_path / "up").exists)
        run.send_signal(signal.SIGINT)
        ran = await ended(run)
    assert ran.code == 130
    assert "alice: killed by SIGINT after" in ran.err


SHELL = """\
import os, pathlib, signal, subprocess, time

def run(name):
    command = ["sh", "-c", f"touch up-{name}; while [ ! -e go ]; do sleep 0.02; done"]
    process = subprocess.Popen(
        ["hivemind", "run", "--name", name, "--", *command], process_group=0, stderr=open(f"err-{name}", "w")
    )
    while not os.path.exists(f"up-{name}"):
        time.sleep(0.02)
    return process
a, b = run("a"), run("b")
os.killpg(a.pid, signal.SIGTSTP)
_, status = os.waitpid(a.pid, os.WUNTRACED)
os.killpg(a.pid, signal.SIGCONT)
pathlib.Path("go").touch()
print(os.WIFSTOPPED(status), a.wait(), b.wait())
"""
"""What a shell does with two jobs, of which the first has the terminal and its Ctrl-Z."""


async def test_stopped_by_ctrl_z(tmp_path: Path) -> None:
    """The runner stops with its command, so that the shell is back, and goes on with it; the proxy that it started
    goes on all the while."""
    async with bringing(tmp_path) as place:
        ran = await ended(await place.start("python", "-c", SHELL))
    assert ran.out == "True 0 0\n", ran.err
    assert "a: exit code 0" in (tmp_path / "err-a").read_text()
