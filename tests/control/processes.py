"""The real programs, started on a port and asked to end or killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HANGS_S = 90
_BIN = Path(sys.executable).parent
_PLAIN = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HIVEMIND", "HTTP"))}


@dataclass
class Program:
    """A running program that serves a proxy."""

    process: asyncio.subprocess.Process
    line: str
    """What it printed first."""
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ends(self, how: signal.Signals | None = signal.SIGTERM) -> tuple[int, str]:
        """End it, or wait until it ends (None): its exit code, and what it said on standard error."""
        if how is not None:
            self.process.send_signal(how)
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()

    async def stop(self) -> str:
        """End it in good order; what it said on standard error besides its session's summary."""
        code, errors = await self.ends()
        assert code == 0
        return "".join(line for line in errors.splitlines(True) if " INFO hivemind: " not in line)

    async def kill(self) -> None:
        """Without a word of warning."""
        self.process.kill()
        await self.process.communicate()


@contextlib.asynccontextmanager
async def program(
    folder: Path,
    *flags: str,
    port: int = 0,
    upstream: str = "lab=http://127.0.0.1:9",
    command: tuple[str, ...] = ("hivemind", "proxy"),
    within_s: float = HANGS_S,
    **environ: str,
) -> AsyncIterator[Program]:
    """Started in that folder before an upstream that isn't there, keeping its state in `state` there; it is gone
    afterwards, which is `within_s` from now."""
    name, *words = command
    settings = ("--upstream", upstream, "--port", str(port))
    process = await asyncio.create_subprocess_exec(
        _BIN / name,
        *(*words, *settings, *flags),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**_PLAIN, **state_of(folder), **environ},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(within_s):
            line = (await process.stdout.readline()).decode()
            ready = re.search(r":(\d+) ->", line)
            yield Program(process, line, int(ready[1]) if ready else 0)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def state_of(folder: Path) -> Mapping[str, str]:
    """What leads to the state that a program in this folder keeps."""
    return {"HIVEMIND_STATE_DIR": str(folder / "state")}
