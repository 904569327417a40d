"""The programs of a fleet, which are started, killed and started again: proxies, the provider, Redis."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import redis

from benchmarks.fleet.network import Host
from benchmarks.fleet.upstream import Arrival, Provider
from benchmarks.paths import environment
from benchmarks.perf.target import PerfError
from benchmarks.perf.upstream import READY

TOKEN = "a-token-of-the-fleet"
"""What agents show: a proxy that listens on more than the loopback interface asks for one."""
_PROXY = "import sys; from hivemind.cli.main import main; sys.exit(main())"
_PROXY_READY = "hivemind: ready on "
_START_S = 60.0
_STOP_S = 10.0


@dataclass(slots=True)
class Program:
    """One program, in a folder of its own."""

    argv: Sequence[str]
    folder: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self, ready: str = "") -> str:
        """Start it, and return what follows `ready` on its first line. Raises: PerfError: that doesn't come."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "errors").open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if ready else errors,
                stderr=errors,
                cwd=self.folder,
                env={name: value for name, value in environment().items() if not name.startswith("HIVEMIND_")},
                start_new_session=True,  # an interrupt at the terminal is ours alone to act on
            )
        if not ready:
            return ""
        assert self.process.stdout is not None
        try:
            line = (await asyncio.wait_for(self.process.stdout.readline(), _START_S)).decode()
        except TimeoutError:
            line = ""
        if not line.startswith(ready):
            await self.stop()
            raise PerfError(f"{self.folder.name} doesn't start: {self.errors.strip()[-300:]}")
        return line.removeprefix(ready).split()[0]

    @property
    def errors(self) -> str:
        """What it said on standard error so far."""
        return (self.folder / "errors").read_text("utf-8", "replace")

    async def kill(self) -> None:
        """End it as a crash does (SIGKILL)."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> None:
        """End it in order, by force if that takes long."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _STOP_S)
            await self.kill()


@dataclass(slots=True)
class Proxy:
    """`hivemind proxy` on a host."""

    name: str
    host: Host
    program: Program
    url: str = ""

    async def start(self) -> None:
        """Start it, a second time at the same address."""
        self.url = await self.program.start(_PROXY_READY)
        argv = list(self.program.argv)
        argv[argv.index("--port") + 1] = str(self.address[1])
        self.program.argv = argv

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.port is not None
        return self.host.address, parts.port


def proxy_on(host: Host, number: int, upstream: str, folder: Path, *flags: str) -> Proxy:
    """Return a proxy that isn't started yet."""
    name = f"p{number}"
    argv = (
        *host.prefix,
        *(sys.executable, "-c", _PROXY, "proxy", "--upstream", upstream, "--profile", "anthropic"),
        *("--host", host.address, "--port", "0", "--token", TOKEN, "--state-dir", "state", "--drain-s", "1"),
        *flags,
    )
    return Proxy(name, host, Program(argv, folder / name))


@contextlib.asynccontextmanager
async def provider(settings: Provider, folder: Path) -> AsyncIterator[str]:
    """A provider that counts; yields its URL. Raises: PerfError."""
    argv = (sys.executable, "-m", "benchmarks.fleet.upstream", msgspec.json.encode(settings).decode())
    program = Program(argv, folder / "provider")
    try:
        yield await program.start(READY)
    finally:
        await program.stop()


async def arrivals(upstream: str) -> list[Arrival]:
    """Return what has arrived at the provider so far."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        answer = await http.get(f"{upstream}/_fleet/log")
    return msgspec.json.decode(answer.content, type=list[Arrival])


REDIS = next(filter(None, map(shutil.which, ("redis-server", "valkey-server"))), None)
"""The server program; None: there is none."""


@dataclass(slots=True)
class Redis:
    """A Redis without a file of its data, at an address that it keeps."""

    host: str
    folder: Path
    port: int = 0
    _program: Program = field(init=False)
    _started: int = 0

    async def start(self) -> None:
        """Start it empty, and wait until it answers. Raises: PerfError."""
        if REDIS is None:
            raise PerfError("there is no redis-server on the path")
        self.port = self.port or _free_port(self.host)
        argv = (
            *(REDIS, "--port", str(self.port), "--bind", self.host, "--save", "", "--appendonly", "no"),
            *("--protected-mode", "no", "--repl-diskless-sync-delay", "0"),
        )
        self._started += 1
        self._program = Program(argv, self.folder / f"redis-{self.port}-{self._started}")
        await self._program.start()
        for _ in range(200):
            with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
                self.ask("PING")
                return
            await asyncio.sleep(0.05)
        raise PerfError(f"redis-server doesn't start: {self._program.errors.strip()[-300:]}")

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._program.pid

    def ask(self, *command: str | int) -> object:
        """Carry out one command, and return its answer."""
        with redis.Redis(host=self.host, port=self.port, socket_timeout=5, decode_responses=True) as client:
            answer: object = client.execute_command(*command)
            return answer

    def info(self, section: str) -> dict[str, object]:
        found = self.ask("INFO", section)
        assert isinstance(found, dict)
        return found

    def take_over(self, other: Redis) -> None:
        """Listen at the address of another one, which is gone, as a managed service moves a name."""
        self.ask("CONFIG", "SET", "port", other.port)
        self.port = other.port

    async def kill(self) -> None:
        await self._program.kill()

    async def stop(self) -> None:
        if self._started:
            await self._program.stop()


def _free_port(host: str) -> int:
    with socket.socket() as sock:
        sock.bind((host, 0))
        port: int = sock.getsockname()[1]
    return port
