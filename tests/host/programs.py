"""The real program, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from proxy.kit import HANGS_S

HIVEMIND = Path(sys.executable).with_name("hivemind")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HIVEMIND", "HTTP"))}


@dataclass
class Program:
    """A running `hivemind proxy`."""

    process: asyncio.subprocess.Process
    line: str
    """What it printed first."""
    port: int

    async def ends(self) -> tuple[int, str]:
        """Its exit code, and what it said on standard error."""
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


@contextlib.asynccontextmanager
async def program(upstream: str, tmp_path: Path, *flags: str, within_s: float = HANGS_S) -> AsyncIterator[Program]:
    """Start it on a free port, and see to it that it is gone afterwards, which is `within_s` from now."""
    process = await asyncio.create_subprocess_exec(
        HIVEMIND,
        *("proxy", "--upstream", upstream, "--port", "0", *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(within_s):
            line = (await process.stdout.readline()).decode()
            port = re.search(r":(\d+) ->", line)
            yield Program(process, line, int(port[1]) if port else 0)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


# --- Workers ----------------------------------------------------------------------------------------------------------


def children(pid: int) -> dict[int, str]:
    """The command lines of a process's children."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((each / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found[int(each.name)] = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


LASTS_S = 6 * HANGS_S
"""Several processes start, and start again, on a busy machine."""


def workers_of(running: Program) -> list[int]:
    return sorted(pid for pid, line in children(running.process.pid).items() if "hivemind.host.workers" in line)


def store_of(running: Program) -> int:
    (found,) = (pid for pid, line in children(running.process.pid).items() if "store.sock" in line)
    return found


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(HANGS_S):
        while any(map(runs, pids)):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether the process is there, and no zombie, whose files are closed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


async def said(running: Program, text: str) -> str:
    """Read the program's log up to the line with this text."""
    assert running.process.stderr is not None
    async with asyncio.timeout(3 * HANGS_S):  # a process starts meanwhile, on a busy machine
        while text not in (line := (await running.process.stderr.readline()).decode()):
            assert line, f"it ended without: {text}"
    return line
