"""Another user of the machine, in a process that really is one, against everything that the proxy keeps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from proxy.kit import client
from proxy.wire import PLAIN_BODY
from security.kit import AGENTS
from tools.kit import served, token_of

from hivemind.scheduler.commands import StopAgent

pytestmark = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can start a process of another user"
)
ASKS = "exec 3<>/dev/tcp/127.0.0.1/$0; printf '%s\\r\\n' \"$@\" '' >&3; head -n 1 <&3"
"""A request by bash alone: the port, then the lines of its head."""


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the user `nobody`, without any group of ours."""
    user = pwd.getpwnam("nobody")
    return subprocess.run(
        command,
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter and read, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="hivemind-open-"))
    made.chmod(0o755)
    before = os.umask(0)
    try:
        yield made
    finally:
        os.umask(before)
        shutil.rmtree(made)


@contextlib.asynccontextmanager
async def used(folder: Path, **settings: object) -> AsyncIterator[tuple[str, Path]]:
    """A proxy that keeps all there is to keep: its port, and the folder of its state, which everybody may enter."""
    state = folder / "state"
    state.mkdir(0o755)
    async with served(folder, journal={"bodies": True}, **settings) as proxy, client() as web:
        headers = {"x-hivemind-token": AGENTS}
        await web.post(f"{proxy.address}/agent/ann/v1/messages", content=PLAIN_BODY, headers=headers)
        proxy.apply(StopAgent("ann", True), "test")
        assert proxy._checkpointer is not None
        await proxy._checkpointer.written("ann")
        assert token_of(proxy)
        yield proxy.address.rpartition(":")[2], state


async def test_it_reads_no_file_of_the_proxy(folder: Path) -> None:
    """Not the control token, the database, the journals or the checkpoints, even where the folder was open before and
    the umask forbids nothing."""
    async with used(folder) as (_, state):
        files = sorted(path for path in state.rglob("*") if path.is_file())
        kinds = {path.relative_to(state).parts[0].partition("-")[0] for path in files}
        assert {"control", "proxy", "journals", "checkpoints"} <= kinds
        assert as_nobody("ls", str(state)).returncode == 0
        for path in files:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert as_nobody("cat", str(path)).stdout == "", path
            assert as_nobody("sh", "-c", f"echo >> '{path}'").returncode != 0
        # The folders that the proxy makes are its owner's alone, so that not even names of files are seen.
        made = [path for path in state.rglob("*") if path.is_dir()]
        assert len(made) >= 2
        for path in made:
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert as_nobody("ls", str(path)).returncode != 0


def test_it_reads_no_process_of_the_proxy() -> None:
    """The system keeps the environment and memory of a process from other users."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"TOKEN": AGENTS})
    try:
        for name in ("environ", "mem", "maps"):
            assert as_nobody("head", "-c", "9", f"/proc/{process.pid}/{name}").stdout == ""
    finally:
        process.communicate(b"\n")


def test_it_reads_command_lines() -> None:
    """What is given as a flag is seen by everybody."""
    with subprocess.Popen([sys.executable, "-c", "input()", "--token", AGENTS], stdin=subprocess.PIPE) as process:
        seen = as_nobody("cat", f"/proc/{process.pid}/cmdline").stdout
        process.communicate(b"\n")
    assert AGENTS in seen


async def test_it_is_let_in_without_a_token(folder: Path) -> None:
    """Loopback is everybody's: where no token is set, another user's requests go upstream."""
    async with used(folder) as (port, _):
        lines = ("POST /v1/messages HTTP/1.1", "host: localhost", "connection: close", "content-length: 0")
        assert " 200 " in await _asked(port, *lines)


async def test_it_is_kept_out_by_a_token(folder: Path) -> None:
    """Where one is set, they are refused on every path but the public ones."""
    async with used(folder, token=AGENTS) as (port, _):
        for path, status in (("/v1/messages", 401), ("/_stats", 401), ("/_control/about", 401), ("/_health", 200)):
            lines = (f"GET {path} HTTP/1.1", "host: localhost", "connection: close")
            assert f" {status} " in await _asked(port, *lines)


async def _asked(port: str, *lines: str) -> str:
    return (await asyncio.to_thread(as_nobody, "bash", "-c", ASKS, port, *lines)).stdout
