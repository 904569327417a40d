"""`hivemind run` as people start it, with a mock provider at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from program import called
from proxy.kit import Running, settings_for

from hivemind.agents.run import Foreground
from hivemind.control import client as control_client
from hivemind.host.proxy import Proxy
from hivemind.prices import Prices
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.store.token_file import ControlKey
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

HANGS_S = 90
TOKEN = "control-token-of-the-tests"
_BIN = Path(sys.executable).parent
_LEFT_OUT = ("HIVEMIND", "HTTP", "NO_PROXY", "ANTHROPIC", "OPENAI", "OLLAMA", "GOOGLE", "OPENCODE")
PLAIN = {key: value for key, value in os.environ.items() if not key.upper().startswith(_LEFT_OUT)} | {
    "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"
}
"""The environment, without what leads to any proxy, and with our programs in PATH."""
ASK = """\
import json, os, sys, urllib.request
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
    json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": []}).encode(),
    {"x-api-key": "k", "content-type": "application/json"},
)
usage = json.load(urllib.request.urlopen(request))["usage"]
used = usage["input_tokens"] + usage["output_tokens"]
"""


@dataclass
class Ran:
    """How a program ended."""

    code: int
    out: str
    err: str


@dataclass
class Place:
    """A folder, the environment of programs that run there, and those that do."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, *command: str, **environ: str) -> asyncio.subprocess.Process:
        """Start a program; it is killed at the end of the context."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=self._environ(environ),
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    async def run_at(self, terminal: int, *args: str) -> asyncio.subprocess.Process:
        """Start `hivemind run` at its session's terminal."""
        process = await asyncio.create_subprocess_exec(
            *("hivemind", "run", *args),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=self.folder,
            env=self._environ({}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0),
        )
        self.processes.append(process)
        return process

    async def run(self, *args: str, **environ: str) -> asyncio.subprocess.Process:
        """Start `hivemind run`."""
        return await self.start("hivemind", "run", *args, **environ)

    async def called(self, *args: str) -> Ran:
        """`hivemind` in a thread of this process, because starting Python and importing it all takes a second.

        No signal can be handled there, and a command's own output isn't caught. A busy machine may hold up the proxy,
        which shares the process, for longer than the command would wait for it.
        """
        with (
            mock.patch.object(Foreground, "caught", return_value=contextlib.nullcontext()),
            mock.patch.multiple(control_client, CONNECT_WITHIN_S=HANGS_S, ANSWER_WITHIN_S=HANGS_S),
        ):
            done = await asyncio.to_thread(called, self.folder, args, self._environ({}))
        return Ran(done.code, done.out, done.err)

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**PLAIN, "HIVEMIND_STATE_DIR": str(self.folder / "state"), **self.environ, **more}

    async def ran(self, *args: str, **environ: str) -> Ran:
        """`hivemind run`, to its end."""
        return await ended(await self.run(*args, **environ))


async def ended(process: asyncio.subprocess.Process) -> Ran:
    """Wait for its end."""
    async with asyncio.timeout(HANGS_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


async def said(process: asyncio.subprocess.Process, word: str) -> str:
    """Wait for a line with that word on standard error; it and all lines before it."""
    assert process.stderr is not None
    lines = ""
    async with asyncio.timeout(HANGS_S):
        while word not in lines:
            line = await process.stderr.readline()
            assert line, f"it ended, and said: {lines}"
            lines += line.decode()
    return lines


@contextlib.asynccontextmanager
async def at(folder: Path, **environ: str) -> AsyncIterator[Place]:
    """A place for programs, in time."""
    place = Place(folder, environ)
    try:
        async with asyncio.timeout(HANGS_S):
            yield place
    finally:
        for process in place.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()


@contextlib.asynccontextmanager
async def providing() -> AsyncIterator[tuple[MockProvider, str]]:
    """A quick provider without faults, and its URL."""
    config = MockConfig(
        seed=5, latency=LatencyConfig(base_s=0.002, jitter_s=0.001), reply=ReplyConfig(tokens=40, spread=10)
    )
    mock = MockProvider(config)
    async with serving(mock) as url:
        yield mock, url


@contextlib.asynccontextmanager
async def before(folder: Path, **values: Any) -> AsyncIterator[tuple[Running, Place]]:
    """A proxy in this process before a mock provider, and a place whose programs use it."""
    async with providing() as (_, upstream):
        proxy = Proxy(settings_for(f"mock={upstream}", **values), rng=random.Random(1), prices=Prices())
        proxy.control_key = ControlKey("run-1", TOKEN)
        await proxy.start()
        try:
            async with serving(proxy.app, protocol=ClientProtocol) as url:
                proxy.address = url
                async with at(folder, HIVEMIND_URL=url, HIVEMIND_CONTROL_TOKEN=TOKEN) as place:
                    yield Running(proxy, url, int(url.rpartition(":")[2])), place
        finally:
            await proxy.aclose()
