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
