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
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ends(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End it: its exit code, and what it said on standard error."""
        self.process.send_signal(how)
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


@contextlib.asynccontextmanager
async def program(
    folder: Path, *flags: str, port: int = 0, command: tuple[str, ...] = ("hivemind", "proxy"), **environ: str
) -> AsyncIterator[Program]:
    """Started in that folder before an upstream that isn't there, keeping its state in `state` there."""
    name, *words = command
    settings = ("--upstream", "lab=http://127.0.0.1:9", "--port", str(port))
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
        async with asyncio.timeout(HANGS_S):
            ready = re.search(r":(\d+) ->", (await process.stdout.readline()).decode())
            assert ready, "it isn't ready"
            yield Program(process, int(ready[1]))
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def state_of(folder: Path) -> Mapping[str, str]:
    """What leads to the state that a program in this folder keeps."""
    return {"HIVEMIND_STATE_DIR": str(folder / "state")}
